//! The vendors' own programs, in the terminal of the person who logs in.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::cli::Context;
use crate::failure::Failure;

/// Runs `claude setup-token`, which logs in with a browser and shows a token. With settings of its own that are thrown away: what
/// it would find in the user's are the user's tokens.
pub(super) fn claude_setup_token(context: &Context) -> Result<(), Failure> {
    context.ui.note("running `claude setup-token`; the token that it shows at its end is asked for next");
    let scratch = tempfile::tempdir().map_err(|error| {
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
}

/// Runs `codex login`, which keeps what it gets in a directory that is agora's.
pub(super) fn codex_login(context: &Context, home: &Path) -> Result<(), Failure> {
    context.ui.note("running `codex login`; your own login in `~/.codex` stays as it is");
    let setting = ("CODEX_HOME", home.as_os_str());
    log_in("codex", "login", setting, "install Codex, or `agora auth codex --secret OPENAI_API_KEY`")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a person uses it, in their own terminal, with their own rights"
)]
fn log_in(program: &str, command: &str, setting: (&str, &OsStr), otherwise: &str) -> Result<(), Failure> {
    let status = Command::new(program).arg(command).env(setting.0, setting.1).status().map_err(|error| {
        Failure::outside("no-agent", format!("`{program} {command}` cannot be run"))
            .because(error)
            .hint(otherwise)
    })?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::outside("no-credential", format!("`{program} {command}` did not log in")).because(status))
}
