//! `agora help COMMAND`: what `agora COMMAND --help` says, for those who ask in the other order.

use std::ffi::OsString;

use crate::exit::Exit;
use crate::failure::Failure;

use super::{Arguments, usage};

/// Print the help of a command
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agora help dispatch run")]
pub(super) struct Help {
    /// The command
    #[arg(value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Help {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let arguments = ["agora".into()].into_iter().chain(self.command).chain(["--help".into()]);
        match Arguments::read(arguments) {
            Ok(_) => Ok(Exit::Done),
            Err(error) => usage(&error),
        }
    }
}
