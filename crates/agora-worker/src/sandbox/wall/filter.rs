//! seccomp: the system calls that no tool of an agent needs, and that open the kernel or the wall.
//!
//! A list of what is refused, not of what is allowed: agents run compilers, browsers and languages of any kind. What is refused
//! fails with `EPERM`, as it would without privilege, so that programs take their other way.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use std::io;

use agora_core::wall::Level;
use rustix::io::Errno;

use super::{Part, Refused};
use crate::sandbox::syscall::{self, Instruction};

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_K` with `BPF_JEQ`, `BPF_JGE` and `BPF_JSET`, and `BPF_RET | BPF_K`.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
#[cfg(target_arch = "x86_64")]
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
/// `BPF_ALU | BPF_AND | BPF_K`.
const MASK: u16 = 0x54;
const RETURN: u16 = 0x06;

/// `SECCOMP_RET_KILL_PROCESS`, `_ERRNO` and `_ALLOW` of `linux/seccomp.h`.
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const ALLOW: u32 = 0x7fff_0000;

/// Where `struct seccomp_data` has the number, the architecture and the lower halves of the first two arguments.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST: u32 = 16;
const SECOND: u32 = 24;

/// `CLONE_NEWNS`, `_NEWCGROUP`, `_NEWUTS`, `_NEWIPC`, `_NEWUSER`, `_NEWPID` and `_NEWNET`.
const NEW_NAMESPACES: u32 = 0x7e02_0000;
/// `TIOCSTI` and `TIOCLINUX`: typing into a terminal that is somebody else's.
const TYPE_INTO_TERMINAL: u32 = 0x5412;
const TERMINAL_OF_LINUX: u32 = 0x541c;
/// `AF_UNIX`, `AF_INET`, `AF_INET6` and `AF_NETLINK`. The others are the kernel's rarely tried corners, or lead out, as `AF_VSOCK`.
const FAMILIES: [u32; 4] = [UNIX, 2, 10, 16];
const UNIX: u32 = 1;
/// The bits of a socket's type that are not flags, and `SOCK_STREAM` and `SOCK_SEQPACKET`, which know one other end for ever.
const TYPE: u32 = 0xf;
const LASTING_TYPES: [u32; 2] = [1, 5];

/// The numbers of one architecture.
struct Calls {
    architecture: u32,
    clone: u32,
    clone3: u32,
    ioctl: u32,
    socket: u32,
    socketpair: u32,
    /// Answered with `EPERM`.
    refused: &'static [u32],
}

/// Calls that have the same number everywhere: the new mount calls, io_uring, and what is younger.
const REFUSED_EVERYWHERE: [u32; 12] = [425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 443, 467];

/// mount umount2 pivot_root chroot setns unshare, keys, bpf perf userfaultfd, kexec, modules, handles, other processes' memory, swap
/// reboot acct quotactl, clocks, ports, the kernel's log, fanotify.
#[cfg(target_arch = "x86_64")]
const CALLS: Calls = Calls {
    architecture: 0xc000_003e,
    clone: 56,
    clone3: 435,
    ioctl: 16,
    socket: 41,
    socketpair: 53,
    refused: &[
        165, 166, 155, 161, 308, 272, 248, 249, 250, 321, 298, 323, 246, 320, 175, 313, 176, 304, 310, 311,
        312, 167, 168, 169, 163, 179, 164, 227, 305, 172, 173, 103, 300, 134, 180, 212,
    ],
};
#[cfg(target_arch = "aarch64")]
const CALLS: Calls = Calls {
    architecture: 0xc000_00b7,
    clone: 220,
    clone3: 435,
    ioctl: 29,
    socket: 198,
    socketpair: 199,
    refused: &[
        40, 39, 41, 51, 268, 97, 217, 218, 219, 280, 241, 282, 104, 294, 105, 273, 106, 265, 270, 271, 272,
        224, 225, 142, 89, 60, 170, 112, 266, 116, 262, 42, 18,
    ],
};

/// Puts the filter on this process, for good.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn filter(level: Level) -> Result<(), Refused> {
    syscall::seccomp_filter(&program(&CALLS, level)).map_err(Part::Seccomp.refused())
}

/// Refuses: the numbers of this architecture are not known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn filter(_: Level) -> Result<(), Refused> {
    Err(Part::Seccomp.refused()(io::Error::from(Errno::NOSYS)))
}

fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, value }
}

/// Goes on with the next instruction when the test holds, and leaves out `otherwise` ones when not.
fn test(code: u16, value: u32, otherwise: u8) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: otherwise, value }
}

fn errno(error: Errno) -> u32 {
    ERRNO | error.raw_os_error().unsigned_abs()
}

fn program(calls: &Calls, level: Level) -> Vec<Instruction> {
    let refuse = plain(RETURN, errno(Errno::PERM));
    let allow = plain(RETURN, ALLOW);
    let mut program = vec![
        plain(LOAD, ARCHITECTURE),
        // Calls of another architecture have other numbers: nothing below would mean what it says.
        Instruction { code: IF_EQUAL, jump_true: 1, jump_false: 0, value: calls.architecture },
        plain(RETURN, KILL),
        plain(LOAD, NUMBER),
    ];
    #[cfg(target_arch = "x86_64")]
    // So has x32, which says that it is this architecture.
    program.extend([test(IF_AT_LEAST, 0x4000_0000, 1), plain(RETURN, KILL)]);
    for number in calls.refused.iter().chain(&REFUSED_EVERYWHERE) {
        program.extend([test(IF_EQUAL, *number, 1), refuse]);
    }
    // Its flags are in memory, where no filter can read. Without it, programs use `clone`.
    program.extend([test(IF_EQUAL, calls.clone3, 1), plain(RETURN, errno(Errno::NOSYS))]);
    let flags = [plain(LOAD, FIRST), test(IF_ANY_BIT, NEW_NAMESPACES, 1), refuse, allow];
    program.extend([test(IF_EQUAL, calls.clone, 4)].into_iter().chain(flags));
    let requests = [
        plain(LOAD, SECOND),
        Instruction { code: IF_EQUAL, jump_true: 1, jump_false: 0, value: TYPE_INTO_TERMINAL },
        test(IF_EQUAL, TERMINAL_OF_LINUX, 1),
        refuse,
        allow,
    ];
    program.extend([test(IF_EQUAL, calls.ioctl, 5)].into_iter().chain(requests));
    // In a room no socket of the host has a path. Without one, sockets that find each other by path are refused as a whole:
    // Landlock does not know them.
    let room = level == Level::Namespaces;
    if !room {
        let types = [plain(LOAD, SECOND), plain(MASK, TYPE)];
        program.extend([test(IF_EQUAL, calls.socketpair, 7)].into_iter().chain(types));
        program.extend(LASTING_TYPES.into_iter().flat_map(|lasting| [test(IF_EQUAL, lasting, 1), allow]));
        program.push(refuse);
    }
    let families: Vec<u32> = FAMILIES.into_iter().filter(|family| room || *family != UNIX).collect();
    let skip = u8::try_from(families.len() * 2 + 2).unwrap_or(u8::MAX);
    program.extend([test(IF_EQUAL, calls.socket, skip), plain(LOAD, FIRST)]);
    program.extend(families.into_iter().flat_map(|family| [test(IF_EQUAL, family, 1), allow]));
    program.extend([plain(RETURN, errno(Errno::AFNOSUPPORT)), allow]);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel would.
    fn answer(program: &[Instruction], data: [(u32, u32); 4]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let one = program[at];
            at += 1;
            let holds = match one.code {
                LOAD => {
                    value = data.iter().find(|(place, _)| *place == one.value).unwrap().1;
                    continue;
                }
                MASK => {
                    value &= one.value;
                    continue;
                }
                RETURN => return one.value,
                IF_EQUAL => value == one.value,
                IF_ANY_BIT => value & one.value != 0,
                _ => value >= one.value,
            };
            at += usize::from(if holds { one.jump_true } else { one.jump_false });
        }
    }

    #[test]
    fn what_leads_out_is_refused_and_the_rest_goes_on() {
        let program = program(&CALLS, Level::Namespaces);
        let call = |number, first, second| {
            answer(
                &program,
                [(ARCHITECTURE, CALLS.architecture), (NUMBER, number), (FIRST, first), (SECOND, second)],
            )
        };
        let no = errno(Errno::PERM);
        for number in CALLS.refused {
            assert_eq!(call(*number, 0, 0), no, "{number}");
        }
        assert_eq!([call(0, 0, 0), call(435, 0, 0)], [ALLOW, errno(Errno::NOSYS)]);
        assert_eq!([call(CALLS.clone, 0x1000_0000, 0), call(CALLS.clone, 0x0100_0011, 0)], [no, ALLOW]);
        assert_eq!(
            [TYPE_INTO_TERMINAL, TERMINAL_OF_LINUX, 0x5413].map(|request| call(CALLS.ioctl, 0, request)),
            [no, no, ALLOW]
        );
        assert_eq!(FAMILIES.map(|family| call(CALLS.socket, family, 0)), [ALLOW; 4]);
        assert_eq!([40, 38, 17].map(|family| call(CALLS.socket, family, 0)), [errno(Errno::AFNOSUPPORT); 3]);
        let other = [(ARCHITECTURE, 0x4000_0003), (NUMBER, 0), (FIRST, 0), (SECOND, 0)];
        assert_eq!(answer(&program, other), KILL);
    }

    #[test]
    fn without_a_room_no_socket_is_found_by_its_path() {
        let program = program(&CALLS, Level::Landlock);
        let call = |number, first, second| {
            answer(
                &program,
                [(ARCHITECTURE, CALLS.architecture), (NUMBER, number), (FIRST, first), (SECOND, second)],
            )
        };
        assert_eq!(
            FAMILIES.map(|family| call(CALLS.socket, family, 1)),
            [errno(Errno::AFNOSUPPORT), ALLOW, ALLOW, ALLOW]
        );
        // A pair of datagram sockets could send anywhere by a path.
        let pairs = [1, 5, 2, 3, 0x80001].map(|kind| call(CALLS.socketpair, UNIX, kind));
        assert_eq!(pairs, [ALLOW, ALLOW, errno(Errno::PERM), errno(Errno::PERM), ALLOW]);
        assert_eq!(call(0, 0, 0), ALLOW);
    }
}
