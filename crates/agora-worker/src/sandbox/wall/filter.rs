//! seccomp: the system calls that no tool of an agent needs, and that open the kernel or the wall.
//!
//! A list of what is refused, not of what is allowed: agents run compilers, browsers and languages of any kind. What is refused
//! fails with `EPERM`, as it would without privilege, so that programs take their other way.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use std::io;

use agora_core::wall::Level;
use rustix::io::Errno;

use super::{Part, Plan, Refused};
use crate::sandbox::syscall::{self, Instruction};

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_K` with `BPF_JA`, `BPF_JEQ`, `BPF_JGE` and `BPF_JSET`, and `BPF_RET | BPF_K`.
const LOAD: u16 = 0x20;
const LEAVE_OUT: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
/// `BPF_ALU | BPF_AND | BPF_K`.
const MASK: u16 = 0x54;
const RETURN: u16 = 0x06;

/// `SECCOMP_RET_KILL_PROCESS`, `_ERRNO` and `_ALLOW` of `linux/seccomp.h`.
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const ALLOW: u32 = 0x7fff_0000;

/// Where `struct seccomp_data` has the number, the architecture, the lower halves of the first three arguments, and the upper half of the
/// third.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST: u32 = 16;
const SECOND: u32 = 24;
const THIRD: u32 = 32;
const THIRD_UPPER: u32 = 36;

/// `CLONE_NEWNS`, `_NEWCGROUP`, `_NEWUTS`, `_NEWIPC`, `_NEWUSER`, `_NEWPID` and `_NEWNET`.
const NEW_NAMESPACES: u32 = 0x7e02_0000;
/// `TIOCSTI` and `TIOCLINUX`: typing into a terminal that is somebody else's.
const TYPE_INTO_TERMINAL: u32 = 0x5412;
const TERMINAL_OF_LINUX: u32 = 0x541c;
/// `AF_UNIX`, `AF_INET` and `AF_INET6`. The others are the kernel's rarely tried corners, or lead out, as `AF_VSOCK`.
const FAMILIES: [u32; 3] = [UNIX, 2, 10];
const UNIX: u32 = 1;
/// `AF_NETLINK`, by which programs learn their addresses. That is `NETLINK_ROUTE`; what else the kernel tells there is the machine's.
const NETLINK: u32 = 16;
const ROUTE: u32 = 0;
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
    prlimit: u32,
    /// Answered with `EPERM`.
    refused: &'static [u32],
    /// Shared memory, semaphores and queues, which have no path: refused where they are the machine's.
    shared: &'static [u32],
    /// Setting and removing extended attributes. Landlock has no right for them: refused where the machine's files are in sight.
    attributes: &'static [u32],
}

/// Calls that have the same number everywhere: the new mount calls, io_uring, others' descriptors, and what is younger.
const REFUSED_EVERYWHERE: [u32; 13] = [425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443, 467];

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
    prlimit: 302,
    refused: &[
        165, 166, 155, 161, 308, 272, 248, 249, 250, 321, 298, 323, 246, 320, 175, 313, 176, 304, 310, 311,
        312, 167, 168, 169, 163, 179, 164, 227, 305, 172, 173, 103, 300, 134, 180, 212,
    ],
    shared: &[29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241],
    attributes: &[188, 189, 190, 197, 198, 199, 463, 466],
};
#[cfg(target_arch = "aarch64")]
const CALLS: Calls = Calls {
    architecture: 0xc000_00b7,
    clone: 220,
    clone3: 435,
    ioctl: 29,
    socket: 198,
    socketpair: 199,
    prlimit: 261,
    refused: &[
        40, 39, 41, 51, 268, 97, 217, 218, 219, 280, 241, 282, 104, 294, 105, 273, 106, 265, 270, 271, 272,
        224, 225, 142, 89, 60, 170, 112, 266, 116, 262, 42, 18,
    ],
    shared: &[194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181],
    attributes: &[5, 6, 7, 14, 15, 16, 463, 466],
};

/// Puts the filter on this process, for good.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn filter(plan: &Plan) -> Result<(), Refused> {
    syscall::seccomp_filter(&program(&CALLS, plan.level, plan.apart)).map_err(Part::Seccomp.refused())
}

/// Refuses: the numbers of this architecture are not known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn filter(_: &Plan) -> Result<(), Refused> {
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

/// How many numbers are compared one after another.
const FEW: usize = 4;

/// Refuses a number that is among these, which are in order, and goes on behind itself with any other. It searches by halves: the kernel
/// runs a new filter once for each call that there is, and with a row of sixty tests that took longer than all else about it.
fn refuse_any(numbers: &[u32], refuse: Instruction) -> Vec<Instruction> {
    if numbers.len() <= FEW {
        let mut left = numbers.len();
        let equal = |number: &u32| {
            left -= 1;
            // To the refusal at the end; the last one that does not hold leaves that out.
            let jump_true = u8::try_from(left).unwrap_or(u8::MAX);
            Instruction { code: IF_EQUAL, jump_true, jump_false: u8::from(left == 0), value: *number }
        };
        let mut tests: Vec<Instruction> = numbers.iter().map(equal).collect();
        tests.extend((!numbers.is_empty()).then_some(refuse));
        return tests;
    }
    let (low, high) = numbers.split_at(numbers.len() / 2);
    let (middle, mut below, above) = (high[0], refuse_any(low, refuse), refuse_any(high, refuse));
    below.push(plain(LEAVE_OUT, u32::try_from(above.len()).unwrap_or(u32::MAX)));
    let jump_true = u8::try_from(below.len()).unwrap_or(u8::MAX);
    let which = Instruction { code: IF_AT_LEAST, jump_true, jump_false: 0, value: middle };
    [vec![which], below, above].concat()
}

fn program(calls: &Calls, level: Level, apart: bool) -> Vec<Instruction> {
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
    let shared = calls.shared.iter().filter(|_| !apart);
    let mut refused: Vec<u32> =
        calls.refused.iter().chain(&REFUSED_EVERYWHERE).chain(shared).copied().collect();
    refused.sort_unstable();
    program.extend(refuse_any(&refused, refuse));
    if !apart {
        // As on a file system that has none: `cp`, `mv`, `tar` and `install` go on without a word.
        program.extend(refuse_any(calls.attributes, plain(RETURN, errno(Errno::NOTSUP))));
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
    // A process of the same user may set another's limits, and one that may write no file or use no time is ended by them: the worker is
    // such a process in a container, and whatever the user runs without a room. To look, without new ones, is harmless.
    let limits = [
        plain(LOAD, FIRST),
        test(IF_EQUAL, 0, 1),
        allow,
        plain(LOAD, THIRD),
        Instruction { code: IF_EQUAL, jump_true: 1, jump_false: 0, value: 0 },
        refuse,
        plain(LOAD, THIRD_UPPER),
        Instruction { code: IF_EQUAL, jump_true: 1, jump_false: 0, value: 0 },
        refuse,
        allow,
    ];
    program.extend([test(IF_EQUAL, calls.prlimit, 10)].into_iter().chain(limits));
    // In a room no socket of the host has a path. Without one, sockets that find each other by path are refused as a whole:
    // Landlock does not know them.
    let room = level == Level::Namespaces;
    let no_family = plain(RETURN, errno(Errno::AFNOSUPPORT));
    let mut pairs = vec![
        plain(LOAD, FIRST),
        Instruction { code: IF_EQUAL, jump_true: 1, jump_false: 0, value: UNIX },
        no_family,
    ];
    if !room {
        pairs.extend([plain(LOAD, SECOND), plain(MASK, TYPE)]);
        pairs.extend(LASTING_TYPES.into_iter().flat_map(|lasting| [test(IF_EQUAL, lasting, 1), allow]));
    }
    pairs.push(if room { allow } else { refuse });
    let mut sockets = vec![plain(LOAD, FIRST)];
    let families = FAMILIES.into_iter().filter(|family| room || *family != UNIX);
    sockets.extend(families.flat_map(|family| [test(IF_EQUAL, family, 1), allow]));
    sockets.extend([
        Instruction { code: IF_EQUAL, jump_true: 1, jump_false: 0, value: NETLINK },
        no_family,
        plain(LOAD, THIRD),
        test(IF_EQUAL, ROUTE, 1),
        allow,
        plain(RETURN, errno(Errno::PROTONOSUPPORT)),
    ]);
    for (number, block) in [(calls.socketpair, pairs), (calls.socket, sockets)] {
        let skip = u8::try_from(block.len()).unwrap_or(u8::MAX);
        program.push(test(IF_EQUAL, number, skip));
        program.extend(block);
    }
    program.push(allow);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel would.
    fn answer(program: &[Instruction], data: &[(u32, u32)]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let one = program[at];
            at += 1;
            let holds = match one.code {
                LOAD => {
                    value = data.iter().find(|(place, _)| *place == one.value).map_or(0, |(_, value)| *value);
                    continue;
                }
                MASK => {
                    value &= one.value;
                    continue;
                }
                LEAVE_OUT => {
                    at += usize::try_from(one.value).unwrap();
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
    fn of_all_calls_those_of_the_list_are_refused() {
        for (level, apart) in [(Level::Namespaces, true), (Level::Landlock, false)] {
            let program = program(&CALLS, level, apart);
            let listed = |number| {
                let shared = !apart && CALLS.shared.contains(&number);
                shared || CALLS.refused.contains(&number) || REFUSED_EVERYWHERE.contains(&number)
            };
            let special = [CALLS.clone3, CALLS.socket, CALLS.socketpair];
            for number in (0..1000).filter(|number| !special.contains(number)) {
                let call = [(ARCHITECTURE, CALLS.architecture), (NUMBER, number)];
                let expected = match number {
                    _ if listed(number) => errno(Errno::PERM),
                    _ if !apart && CALLS.attributes.contains(&number) => errno(Errno::NOTSUP),
                    _ => ALLOW,
                };
                assert_eq!(answer(&program, &call), expected, "{number}");
            }
        }
    }

    #[test]
    fn what_leads_out_is_refused_and_the_rest_goes_on() {
        let program = program(&CALLS, Level::Namespaces, true);
        let call = |number, first, second| {
            let call =
                [(ARCHITECTURE, CALLS.architecture), (NUMBER, number), (FIRST, first), (SECOND, second)];
            answer(&program, &call)
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
        assert_eq!(FAMILIES.map(|family| call(CALLS.socket, family, 0)), [ALLOW; 3]);
        assert_eq!(call(CALLS.shared[0], 0, 0), ALLOW, "a room has its own");
        // A pair of any other family would load a module of the kernel.
        assert_eq!(
            [UNIX, 30].map(|family| call(CALLS.socketpair, family, 2)),
            [ALLOW, errno(Errno::AFNOSUPPORT)]
        );
        assert_eq!([40, 38, 17].map(|family| call(CALLS.socket, family, 0)), [errno(Errno::AFNOSUPPORT); 3]);
        let other = [(ARCHITECTURE, 0x4000_0003), (NUMBER, 0), (FIRST, 0), (SECOND, 0)];
        assert_eq!(answer(&program, &other), KILL);
    }

    #[test]
    fn nobody_sets_another_s_limits_and_netlink_tells_of_addresses_alone() {
        let program = program(&CALLS, Level::Namespaces, true);
        let call = |number, first, third, upper| {
            let call = [(ARCHITECTURE, CALLS.architecture), (NUMBER, number)];
            answer(&program, &[&call[..], &[(FIRST, first), (THIRD, third), (THIRD_UPPER, upper)]].concat())
        };
        let limits = [(0, 8, 8), (7, 0, 0), (7, 8, 0), (7, 0, 8)]
            .map(|(process, new, upper)| call(CALLS.prlimit, process, new, upper));
        let no = errno(Errno::PERM);
        assert_eq!(limits, [ALLOW, ALLOW, no, no]);
        let protocols = [ROUTE, 4, 9, 15].map(|protocol| call(CALLS.socket, NETLINK, protocol, 0));
        let none = errno(Errno::PROTONOSUPPORT);
        assert_eq!(protocols, [ALLOW, none, none, none]);
    }

    #[test]
    fn without_a_room_no_socket_is_found_by_its_path() {
        let program = program(&CALLS, Level::Landlock, false);
        let call = |number, first, second| {
            let call =
                [(ARCHITECTURE, CALLS.architecture), (NUMBER, number), (FIRST, first), (SECOND, second)];
            answer(&program, &call)
        };
        assert_eq!(
            FAMILIES.map(|family| call(CALLS.socket, family, 1)),
            [errno(Errno::AFNOSUPPORT), ALLOW, ALLOW]
        );
        for number in CALLS.shared {
            assert_eq!(call(*number, 0, 0), errno(Errno::PERM), "{number}");
        }
        // A pair of datagram sockets could send anywhere by a path.
        let pairs = [1, 5, 2, 3, 0x80001].map(|kind| call(CALLS.socketpair, UNIX, kind));
        assert_eq!(pairs, [ALLOW, ALLOW, errno(Errno::PERM), errno(Errno::PERM), ALLOW]);
        assert_eq!(call(0, 0, 0), ALLOW);
    }
}
