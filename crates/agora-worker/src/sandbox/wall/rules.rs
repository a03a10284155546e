//! Landlock: what is visible, once more, so that a slip of the mounts is caught; and no signal or abstract socket that leads out.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use agora_core::wall::{Access, Level};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::termios::isatty;

use super::{Part, Plan, Refused};
use crate::sandbox::syscall;

/// Rights of `linux/landlock.h`, and the version that brought each beyond the first thirteen.
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const FIRST_VERSION: u64 = (1 << 13) - 1;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const REFER: (u32, u64) = (2, 1 << 13);
const TRUNCATE: (u32, u64) = (3, 1 << 14);
const IOCTL_DEV: (u32, u64) = (5, 1 << 15);
/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL`.
const SCOPES: (u32, u64) = (6, 3);

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
/// What can be said of a file that is no directory.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE.1 | IOCTL_DEV.1;

/// What the kernel makes, and everybody may use as far as its own modes allow.
const KERNELS: [&str; 2] = ["/proc", "/dev"];
/// Without namespaces: devices that are nobody's, and what programs look up about the machine.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Terminals that programs make for themselves. In the same place are those of whoever runs agora, which an agent of theirs could read from.
const TERMINALS: [&str; 2] = ["/dev/ptmx", "/dev/pts"];
/// The terminal that a person gave to a program of theirs, and that some open once more.
const GIVEN: &str = "/proc/self/fd/0";

/// Puts this process under the rules, for good.
pub(crate) fn restrict(plan: &Plan) -> Result<(), Refused> {
    let Some(abi) = plan.landlock else { return Ok(()) };
    let since = |(version, bits): (u32, u64)| if abi >= version { bits } else { 0 };
    let all = FIRST_VERSION | since(REFER) | since(TRUNCATE) | since(IOCTL_DEV);
    let write = all & !(MAKE_CHAR | MAKE_BLOCK);
    let refused = || Part::Landlock.refused();
    let ruleset = syscall::landlock_ruleset(all, since(SCOPES)).map_err(refused())?;
    let allow = |path: &Path, rights: u64| allow(&ruleset, path, rights & all);
    for bind in &plan.binds {
        let rights = match bind.access {
            Access::Read => READ,
            Access::Write => write,
        };
        let allowed = match plan.level {
            Level::Namespaces => allow(&bind.to, rights),
            Level::Landlock | Level::None => bind
                .open()
                .map_err(Part::Landlock.refused())
                .and_then(|file| allow_opened(&ruleset, file, rights & all)),
        };
        if bind.essential {
            allowed?;
        }
    }
    if plan.level == Level::Namespaces {
        for kernel in KERNELS {
            allow(Path::new(kernel), write)?;
        }
        // The room holds nothing but what is visible: its directories may be listed.
        allow(Path::new("/"), READ_DIR)?;
    } else {
        // To write there is to change what other processes of the same user are to the kernel.
        let own = if plan.apart { WRITE_FILE } else { 0 };
        allow(Path::new("/proc"), READ | own)?;
        let terminals = TERMINALS.into_iter().filter(|_| plan.apart);
        let given = isatty(std::io::stdin()).then_some(GIVEN);
        for device in DEVICES.into_iter().chain(terminals).chain(given) {
            // Not every container has all of them.
            let _ = allow(Path::new(device), READ | WRITE_FILE | IOCTL_DEV.1);
        }
    }
    syscall::landlock_restrict_self(&ruleset).map_err(refused())
}

fn allow(ruleset: &OwnedFd, path: &Path, rights: u64) -> Result<(), Refused> {
    let file = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    allow_opened(ruleset, file.map_err(Part::Landlock.refused())?, rights)
}

fn allow_opened(ruleset: &OwnedFd, file: OwnedFd, rights: u64) -> Result<(), Refused> {
    let about = fstat(&file).map_err(Part::Landlock.refused())?;
    let is_dir = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
    let rights = if is_dir { rights } else { rights & OF_FILES };
    syscall::landlock_allow(ruleset, file.as_fd(), rights).map_err(Part::Landlock.refused())
}
