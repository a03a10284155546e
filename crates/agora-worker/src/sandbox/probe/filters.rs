//! Landlock and seccomp: each is put on this process, and must then be felt.

use std::fs::File;
use std::io;

use rustix::io::Errno;
use rustix::thread::set_no_new_privs;

use super::{Cause, Landlock, Refusal, Support};
use crate::sandbox::syscall::{self, Instruction};

/// `LANDLOCK_ACCESS_FS_WRITE_FILE` of `linux/landlock.h`.
const WRITE_FILE: u64 = 1 << 1;
/// Exists wherever a program can run, and writing to it harms nobody if Landlock should fail to stop it.
const SCRATCH: &str = "/dev/null";

/// An error that Landlock's calls never give by themselves, so that seeing it proves the filter.
const TELLTALE: i32 = Errno::XFULL.raw_os_error();

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K` and `BPF_RET | BPF_K` of `linux/bpf_common.h`.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// `SECCOMP_RET_ERRNO` and `SECCOMP_RET_ALLOW` of `linux/seccomp.h`.
const RETURN_ERRNO: u32 = 0x0005_0000;
const RETURN_ALLOW: u32 = 0x7fff_0000;

/// Forbids this process to open files for writing, and tries to.
pub(super) fn try_landlock() -> Landlock {
    let refused = |doing: &str, error: &io::Error| Landlock::No(explain(doing, error));
    let abi = match syscall::landlock_abi() {
        Ok(abi) => abi,
        Err(error) => return refused("asking for Landlock", &error),
    };
    let applied = set_no_new_privs(true)
        .map_err(io::Error::from)
        .and_then(|()| syscall::landlock_ruleset(WRITE_FILE, 0))
        .and_then(|ruleset| syscall::landlock_restrict_self(&ruleset));
    if let Err(error) = applied {
        return refused("using Landlock", &error);
    }
    match File::options().write(true).open(SCRATCH) {
        Ok(_) => {
            let why = "Landlock took a rule and did not enforce it".to_owned();
            Landlock::No(Refusal { cause: Cause::Other, why })
        }
        Err(_) => Landlock::Yes { abi },
    }
}

/// Filters one system call of this process, and makes it. Its number is the same on every architecture.
pub(super) fn try_seccomp() -> Support {
    let plain = |code, value| Instruction { code, jump_true: 0, jump_false: 0, value };
    let filter = [
        plain(LOAD, 0),
        Instruction { jump_false: 1, ..plain(JUMP_IF_EQUAL, syscall::LANDLOCK_CREATE_RULESET) },
        plain(RETURN, RETURN_ERRNO | TELLTALE.unsigned_abs()),
        plain(RETURN, RETURN_ALLOW),
    ];
    let applied =
        set_no_new_privs(true).map_err(io::Error::from).and_then(|()| syscall::seccomp_filter(&filter));
    match applied {
        Err(error) => Support::No(explain("installing a seccomp filter", &error)),
        Ok(()) if syscall::errno_of_a_wrong_landlock_call() == Some(TELLTALE) => Support::Yes,
        Ok(()) => {
            let why = "seccomp took a filter and did not obey it".to_owned();
            Support::No(Refusal { cause: Cause::Other, why })
        }
    }
}

fn explain(doing: &str, error: &io::Error) -> Refusal {
    let (cause, because) = match Errno::from_io_error(error) {
        Some(Errno::NOSYS | Errno::INVAL) => {
            (Cause::KernelLacks, "the kernel lacks it, or a filter hides it")
        }
        Some(Errno::OPNOTSUPP) => (Cause::DisabledAtBoot, "it was not switched on at boot"),
        Some(Errno::PERM | Errno::ACCESS) => (Cause::Filtered, "a filter forbids it, as in a container"),
        _ => (Cause::Other, "the cause is not known"),
    };
    Refusal { cause, why: format!("{doing}: {error}; {because}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_that_is_off_is_told_from_landlock_that_is_missing() {
        let cause = |errno: Errno| explain("asking", &io::Error::from(errno)).cause;
        assert_eq!(cause(Errno::NOSYS), Cause::KernelLacks);
        assert_eq!(cause(Errno::OPNOTSUPP), Cause::DisabledAtBoot);
        assert_eq!(cause(Errno::PERM), Cause::Filtered);
    }
}
