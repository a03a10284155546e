//! Hands a message to a process of its own, so that nobody waits for a slow program, and none is cut short by a command that ends.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::Message;
use crate::aside::aside;
use crate::program;

/// The word by which an `agora` program is told to pass a message on.
const COMMAND: &str = "tell";

/// Starts `agora tell` with the message, and returns when it has it. What it makes of it is not waited for.
pub async fn hand_over(program: &Path, home: &Path, message: &Message) -> io::Result<()> {
    let (program, home): (PathBuf, PathBuf) = (program.to_owned(), home.to_owned());
    let text = serde_json::to_vec(message).map_err(io::Error::other)?;
    let (taken, took) = tokio::sync::oneshot::channel();
    let handing = aside("notify", move || {
        let handed = start(&program, &home).and_then(|mut child| {
            let mut input = child.stdin.take().ok_or_else(|| io::Error::other("it has no input"))?;
            input.write_all(&text)?;
            Ok(child)
        });
        match handed {
            Ok(mut child) => {
                let _ = taken.send(Ok(()));
                // Only so that a process that lives long keeps no dead children.
                let _ = child.wait();
            }
            Err(error) => drop(taken.send(Err(error))),
        }
    });
    tokio::select! {
        biased;
        took = took => took.map_err(io::Error::other)?,
        handed = handing => handed,
    }
}

#[expect(clippy::disallowed_methods, reason = "agora starts itself, to tell somebody while nobody waits")]
fn start(agora: &Path, home: &Path) -> io::Result<Child> {
    Command::new(agora)
        .arg(COMMAND)
        .env("AGORA_HOME", home)
        .env_remove(program::MARK)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C in the terminal is not for it.
        .process_group(0)
        .spawn()
}
