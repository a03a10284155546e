//! Who may change the machine itself: install Debian packages, start a Docker daemon.

use crate::{environment, process::Program};

/// Whether the user asked for changes to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provision {
    Asked,
    NotAsked,
}

/// How this run may do what needs root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    Root,
    Sudo,
    /// A developer's machine: use what is there, change nothing.
    None,
}

impl Privilege {
    pub(crate) fn of_this_run(provision: Provision) -> Self {
        let wanted = environment::is_ci() || provision == Provision::Asked;
        if rustix::process::geteuid().is_root() {
            Self::Root
        } else if wanted && environment::find_program("sudo").is_some() {
            Self::Sudo
        } else {
            Self::None
        }
    }

    /// Returns the program that runs its arguments as root. `None` where that is not wanted.
    pub(crate) fn program(self) -> Option<Program> {
        match self {
            // With nothing to change, `env` only starts its arguments, as `sudo` does.
            Self::Root => Some(Program::new("env")),
            Self::Sudo => Some(Program::new("sudo").arg("env")),
            Self::None => None,
        }
    }
}
