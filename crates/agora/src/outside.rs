//! What the engine may ask of this terminal: variables, standard input, a person.

use std::io::{self, IsTerminal, Read};

use agora_core::limits::SECRET_BYTES;
use agora_engine::Outside;

use crate::config::variable_os;

/// The terminal, or whatever the command was started from.
pub(crate) struct Terminal;

impl Outside for Terminal {
    fn variable(&self, name: &str) -> Option<String> {
        variable_os(name)?.into_string().ok()
    }

    fn standard_input(&self) -> io::Result<String> {
        let mut text = String::new();
        // One byte and a line break more than a secret may have: its own check then says so.
        io::stdin().lock().take(SECRET_BYTES as u64 + 3).read_to_string(&mut text)?;
        Ok(text)
    }

    fn ask(&self, variable: &str) -> io::Result<String> {
        if !io::stdin().is_terminal() {
            return Err(io::Error::other("standard input is not a terminal"));
        }
        let said = crate::ask::hidden(&format!("{variable} (not shown): "))?;
        said.ok_or_else(|| io::ErrorKind::Interrupted.into())
    }
}
