//! The vendors' own programs, in the terminal of the person who logs in.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::cli::Context;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::terminal::{Lent, scratch};

/// Runs `claude setup-token`, which logs in with a browser and shows a token. With settings of its own that are thrown away: what
/// it would find in the user's are the user's tokens.
pub(super) async fn claude_setup_token(context: &Context) -> Result<(), Failure> {
    context.ui.note("running `claude setup-token`; the token that it shows at its end is asked for next");
    let scratch = scratch("agora-login").map_err(|error| {
        Failure::outside("no-scratch", "there is no temporary directory for `claude setup-token`")
            .because(error)
    })?;
    let setting = ("CLAUDE_CONFIG_DIR", scratch.path().as_os_str());
    log_in(
        "claude",
        "setup-token",
        setting,
        "install Claude Code, or `agora auth claude --secret ANTHROPIC_API_KEY`",
    )
    .await
}

/// Runs `codex login`, which keeps what it gets in a directory that is agora's.
pub(super) async fn codex_login(context: &Context, home: &Path) -> Result<(), Failure> {
    context.ui.note("running `codex login`; your own login in `~/.codex` stays as it is");
    let setting = ("CODEX_HOME", home.as_os_str());
    log_in("codex", "login", setting, "install Codex, or `agora auth codex --secret OPENAI_API_KEY`").await
}

async fn log_in(
    program: &str,
    command: &str,
    setting: (&str, &OsStr),
    otherwise: &str,
) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::outside("no-agent", format!("`{program} {command}` cannot be run"))
            .because(error)
            .hint(otherwise)
    };
    // What asks us to end must leave us the time to see the program off, and to put away what it wrote.
    let interrupts = Interrupts::listen_to(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    let lent = Lent::now();
    let child = start(program, command, setting).map_err(failed)?;
    let (status, interrupted) = see_off(child, interrupts).await.map_err(failed)?;
    drop(lent);
    // Ctrl-C is told to both of us at once, and it may be over before we have heard.
    if interrupted || status.signal() == Some(SIGINT) {
        return Err(Failure::interrupted(format!("`{program} {command}` was stopped; nothing was stored")));
    }
    if status.success() {
        return Ok(());
    }
    Err(Failure::outside("no-credential", format!("`{program} {command}` did not log in")).because(status))
}

/// Starts it. What it shows is no result of ours, and goes where everything else goes.
#[expect(
    clippy::disallowed_methods,
    reason = "a person uses it, in their own terminal, with their own rights"
)]
fn start(program: &str, command: &str, setting: (&str, &OsStr)) -> io::Result<Child> {
    let screen = Stdio::from(io::stderr().as_fd().try_clone_to_owned()?);
    Command::new(program).arg(command).env(setting.0, setting.1).stdout(screen).spawn()
}

/// Waits until it has ended, which whoever interrupts asks of it, and the second time demands. Returns whether anybody did.
async fn see_off(mut child: Child, mut interrupts: Interrupts) -> io::Result<(ExitStatus, bool)> {
    let id = Pid::from_child(&child);
    // It stays a child until it is waited for below: until then its number is nobody else's.
    let ended = move || {
        while let Err(Errno::INTR) = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
    };
    let mut ended = tokio::task::spawn_blocking(ended);
    let mut interrupted = false;
    loop {
        tokio::select! {
            _ = &mut ended => return Ok((child.wait()?, interrupted)),
            () = interrupts.next() => {
                // One that has just ended needs no telling.
                let _ = kill_process(id, if interrupted { Signal::KILL } else { Signal::TERM });
                interrupted = true;
            }
        }
    }
}
