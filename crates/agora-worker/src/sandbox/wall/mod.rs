//! The wall: from what is asked for to a process that cannot reach anything else.
//!
//! ```text
//!  worker  trial ── what this machine can build
//!          view ─── what is visible inside, by the tools of the home (tools)
//!            │ Plan, on the guard's command line
//!  guard   room ─── namespaces: a new root with that view, and nothing else
//!          rules ── Landlock: the same view once more     filter ── seccomp     shed ── no privilege left
//! ```

mod filter;
mod net;
mod room;
mod rules;
mod shed;
mod tools;
mod trial;
mod uncounted;
mod view;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use agora_core::wall::{Access, Level, Network};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub(crate) use filter::filter;
pub(crate) use room::{furnish, namespaces};
pub(crate) use rules::restrict;
pub(crate) use shed::{IdMaps, has_id, shed};
pub(crate) use trial::{Outer, Trial};
pub(crate) use uncounted::say_uncounted;
pub(crate) use view::{Ground, Inside, View, WallError};

/// What a guard builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) level: Level,
    pub(crate) network: Network,
    /// Who the program is to be, when the guard is root.
    pub(crate) agent: Option<u32>,
    /// The newest Landlock that the kernel speaks.
    pub(crate) landlock: Option<u32>,
    /// Whether what the kernel has for all processes of a machine is the agent's own, as in a room or a container: terminals, processes, and
    /// what they share without a path. Else it is that of whoever works here.
    pub(crate) apart: bool,
    /// In the order in which they are made: what is below another comes later.
    pub(crate) binds: Vec<Bind>,
    /// Links of the new root, and what they hold.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// What is covered, as paths inside.
    pub(crate) hidden: Vec<PathBuf>,
}

/// A path of the machine, and where it is inside. Without namespaces, both are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bind {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) access: Access,
    /// Without it nothing runs; the others are left out where they are not to be had: see [`Bind::may_miss`].
    pub(crate) essential: bool,
}

impl Bind {
    /// Opens what it shows. Nothing but the dispatch's own is named by a path with links in it: one that is there now was put there since
    /// it was looked at.
    fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let links = if self.essential { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
        match openat2(CWD, &self.from, flags, Mode::empty(), links) {
            // Some sandboxes do not know the call, or do not allow it.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => openat(CWD, &self.from, flags, Mode::empty()),
            opened => opened,
        }
    }

    /// Tells whether it is left out for this error: it went away meanwhile, is not ours to see, or nothing in the room can be its place. Not where
    /// the machine is short of something: whoever is told what is visible finds it there.
    fn may_miss(&self, error: Errno) -> bool {
        let not_to_be_had =
            [Errno::NOENT, Errno::ACCESS, Errno::NOTDIR, Errno::LOOP, Errno::EXIST, Errno::ROFS];
        !self.essential && not_to_be_had.contains(&error)
    }
}

/// The parts of a wall, for saying which was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Namespaces,
    Ids,
    Mounts,
    Proc,
    Devices,
    Network,
    Privileges,
    Landlock,
    Seccomp,
    View,
}

impl Part {
    const ALL: [Self; 10] = [
        Self::Namespaces,
        Self::Ids,
        Self::Mounts,
        Self::Proc,
        Self::Devices,
        Self::Network,
        Self::Privileges,
        Self::Landlock,
        Self::Seccomp,
        Self::View,
    ];

    /// Says what was being done.
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Namespaces => "making namespaces",
            Self::Ids => "mapping the user",
            Self::Mounts => "mounting a private root",
            Self::Proc => "mounting a fresh `/proc`",
            Self::Devices => "mounting devices",
            Self::Network => "starting the private network",
            Self::Privileges => "giving up privileges",
            Self::Landlock => "using Landlock",
            Self::Seccomp => "installing a seccomp filter",
            Self::View => "showing what the agent may see",
        }
    }

    pub(crate) fn number(self) -> u8 {
        Self::ALL
            .iter()
            .position(|part| *part == self)
            .and_then(|at| u8::try_from(at).ok())
            .unwrap_or_default()
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A part that was refused, and by which error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) part: Part,
    pub(crate) error: Errno,
}

impl Part {
    /// Makes a refusal of an error, for `map_err`.
    fn refused<E: IntoErrno>(self) -> impl Fn(E) -> Refused {
        move |error| Refused { part: self, error: error.into_errno() }
    }
}

/// An error that came from the system.
trait IntoErrno {
    fn into_errno(self) -> Errno;
}

impl IntoErrno for Errno {
    fn into_errno(self) -> Errno {
        self
    }
}

impl IntoErrno for std::io::Error {
    fn into_errno(self) -> Errno {
        Errno::from_io_error(&self).unwrap_or(Errno::IO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_put_there_since_is_as_good_as_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(top.join("real/objects")).unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        for (path, essential, shows) in
            [("real/objects", false, true), ("link/objects", false, false), ("link/objects", true, true)]
        {
            let from = top.join(path);
            let bind = Bind { to: from.clone(), from, access: Access::Read, essential };
            match bind.open() {
                Ok(_) => assert!(shows, "{path}"),
                Err(error) => assert!(!shows && bind.may_miss(error), "{path}: {error}"),
            }
        }
    }
}
