//! Starts `agora carry` as a process of its own, which no terminal and no parent ends.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use agora_core::ThreadId;
use agora_engine::{PROJECT_DIR, ROUTE_COMMAND};

use crate::config::Config;

/// Starts it. Who is about to end need not wait for it: whoever inherits it waits for everybody.
#[expect(clippy::disallowed_methods, reason = "the command starts itself, to carry what nobody waits for")]
pub(crate) fn carrier(config: &Config, threads: &[ThreadId]) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["carry", "--namespace", config.namespace.as_str()])
        .args(threads.iter().map(ThreadId::as_str))
        .env("AGORA_HOME", config.home())
        // It outlives a command of a route that starts it, too.
        .env_remove(ROUTE_COMMAND)
        .envs(config.around.project_dir.iter().map(|dir| (PROJECT_DIR, dir)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A group of its own: Ctrl-C in the terminal is not for it.
        .process_group(0)
        .spawn()
}
