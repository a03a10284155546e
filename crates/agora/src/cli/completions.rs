//! `agora completions`: a shell's completion script.

use clap::Args;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::ui;

/// Write a shell's completion script
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  agora completions bash > ~/.local/share/bash-completion/completions/agora"
)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, command: &mut clap::Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "agora", &mut script);
        ui::print(&String::from_utf8_lossy(&script))
    }
}
