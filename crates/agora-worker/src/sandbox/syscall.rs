//! The system calls that have no safe wrapper in rustix.

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::UnshareFlags;

/// From the kernel's unified table: the same on every architecture.
pub(super) const LANDLOCK_CREATE_RULESET: u32 = 444;
const LANDLOCK_ADD_RULE: u32 = 445;
const LANDLOCK_RESTRICT_SELF: u32 = 446;
const MOUNT_SETATTR: u32 = 442;
const CLOSE_RANGE: u32 = 436;
/// `LANDLOCK_CREATE_RULESET_VERSION` of `linux/landlock.h`.
const LANDLOCK_VERSION_FLAG: u32 = 1;
/// `CLOSE_RANGE_CLOEXEC` of `linux/close_range.h`.
const CLOSE_ON_EXEC_FLAG: u32 = 4;
/// `PR_SET_SECCOMP` of `linux/prctl.h` and `SECCOMP_MODE_FILTER` of `linux/seccomp.h`.
const SET_SECCOMP: c_int = 22;
const SECCOMP_MODE_FILTER: c_ulong = 2;

/// `LANDLOCK_RULE_PATH_BENEATH` of `linux/landlock.h`.
const PATH_BENEATH: u32 = 1;
/// `AT_EMPTY_PATH` and `AT_RECURSIVE` of `linux/fcntl.h`.
const EMPTY_PATH: u32 = 0x1000;
const RECURSIVE: u32 = 0x8000;
/// `SIGCHLD`: what tells a parent of the end of a child.
const CHILD_SIGNAL: c_ulong = 17;
/// `clone` as fork is, on each architecture.
#[cfg(target_arch = "x86_64")]
const CLONE: c_long = 56;
#[cfg(not(target_arch = "x86_64"))]
const CLONE: c_long = 220;

/// `M_ARENA_MAX` of `malloc.h`.
#[cfg(target_env = "gnu")]
const ARENA_MAX: c_int = -8;

/// The code of a forked child whose body panicked; above every errno.
const PANICKED: u8 = 255;

#[expect(unsafe_code, reason = "declares what the standard library links of the C library anyway")]
// SAFETY: the signatures are those of the C library on every Linux target.
// JUSTIFICATION: neither std nor rustix offers them, and the libc crate would be a dependency for five lines.
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn prctl(option: c_int, ...) -> c_int;
    fn fork() -> c_int;
    safe fn _exit(code: c_int) -> !;
    #[cfg(target_env = "gnu")]
    safe fn mallopt(option: c_int, value: c_int) -> c_int;
    static environ: *const *mut c_char;
}

/// `struct landlock_ruleset_attr` as of ABI 6; an older kernel takes it when what it does not know is zero.
#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: c_int,
}

/// `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `struct sock_filter`: one instruction of classic BPF.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub(super) code: u16,
    pub(super) jump_true: u8,
    pub(super) jump_false: u8,
    pub(super) value: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

/// Moves the process into new namespaces.
#[expect(unsafe_code, reason = "rustix marks it unsafe because of CLONE_FILES")]
pub(super) fn unshare(namespaces: UnshareFlags) -> Result<(), Errno> {
    let namespaces = namespaces - UnshareFlags::FILES;
    // SAFETY: the one danger is that threads see different descriptor tables, and that flag was taken out.
    // JUSTIFICATION: this is the call that makes the namespaces.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }
}

/// Returns the newest Landlock ABI that the kernel speaks.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn landlock_abi() -> io::Result<u32> {
    let nothing = std::ptr::null::<RulesetAttributes>();
    // SAFETY: with this flag the kernel wants a null pointer and size 0, and touches no memory.
    // JUSTIFICATION: rustix has no Landlock, and the version is only to be had this way.
    let abi =
        unsafe { syscall(c_long::from(LANDLOCK_CREATE_RULESET), nothing, 0_usize, LANDLOCK_VERSION_FLAG) };
    u32::try_from(abi).map_err(|_| io::Error::last_os_error())
}

/// Makes a Landlock ruleset that forbids the given accesses to files everywhere, and what is scoped to whoever is under it.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn landlock_ruleset(handled_access_fs: u64, scoped: u64) -> io::Result<OwnedFd> {
    let attributes = RulesetAttributes { handled_access_fs, handled_access_net: 0, scoped };
    // The first version knows the first field only, and a size that it does not know.
    let size = if scoped == 0 { size_of::<u64>() } else { size_of::<RulesetAttributes>() };
    // SAFETY: the pointer is valid for `size` bytes during the call, and the kernel only reads them.
    // JUSTIFICATION: rustix has no Landlock.
    let fd = unsafe { syscall(c_long::from(LANDLOCK_CREATE_RULESET), &raw const attributes, size, 0_u32) };
    let fd = c_int::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    // JUSTIFICATION: it must be closed, and `OwnedFd` does that.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Allows accesses to a file, or to a directory and all that is below it.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn landlock_allow(ruleset: &OwnedFd, file: BorrowedFd<'_>, allowed_access: u64) -> io::Result<()> {
    let rule = PathBeneath { allowed_access, parent_fd: file.as_raw_fd() };
    // SAFETY: the pointer is valid during the call, the kernel only reads the structure, and both descriptors are open.
    // JUSTIFICATION: rustix has no Landlock.
    let answer = unsafe {
        syscall(c_long::from(LANDLOCK_ADD_RULE), ruleset.as_raw_fd(), PATH_BENEATH, &raw const rule, 0_u32)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets flags on a mount, and on all that are below it when `recursive`. None is taken away.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn mount_setattr(mount: BorrowedFd<'_>, set: u64, recursive: bool) -> Result<(), Errno> {
    let attributes = MountAttributes { set, clear: 0, propagation: 0, user_namespace: 0 };
    let flags = EMPTY_PATH | if recursive { RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string, the structure is valid for its size during the call and only read.
    // JUSTIFICATION: rustix has no mount_setattr.
    let answer = unsafe {
        syscall(
            c_long::from(MOUNT_SETATTR),
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Puts the calling thread under a ruleset, for good.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn landlock_restrict_self(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: the arguments are plain numbers, and the descriptor is open during the call.
    // JUSTIFICATION: rustix has no Landlock.
    let answer = unsafe { syscall(c_long::from(LANDLOCK_RESTRICT_SELF), ruleset.as_raw_fd(), 0_u32) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has all threads share one heap. Each would get its own, of which a thread that lives for milliseconds uses a page or two: to map and fault
/// in five of them takes a worker longer than its threads ever wait for each other.
pub(crate) fn share_one_heap() {
    // What another C library does instead is its own business.
    #[cfg(target_env = "gnu")]
    mallopt(ARENA_MAX, 1);
}

/// Installs a seccomp filter on the calling thread, for good.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn seccomp_filter(instructions: &[Instruction]) -> io::Result<()> {
    let length = u16::try_from(instructions.len()).map_err(io::Error::other)?;
    let program = Program { length, instructions: instructions.as_ptr() };
    // SAFETY: `program` and the instructions it points to live through the call, the length is theirs, and the
    // kernel copies and checks them before it installs anything.
    // JUSTIFICATION: rustix can only set the mode, not pass a filter.
    let answer = unsafe { prctl(SET_SECCOMP, SECCOMP_MODE_FILTER, &raw const program) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Calls Landlock's first system call with arguments that no kernel accepts, to see which error comes back.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn errno_of_a_wrong_landlock_call() -> Option<i32> {
    let nothing = std::ptr::null::<RulesetAttributes>();
    // SAFETY: a null pointer of size 0 with unknown flags is refused before any memory is touched.
    // JUSTIFICATION: shows whether a filter on this number is obeyed.
    let answer = unsafe { syscall(c_long::from(LANDLOCK_CREATE_RULESET), nothing, 0_usize, u32::MAX) };
    if answer == -1 { io::Error::last_os_error().raw_os_error() } else { None }
}

/// Takes over a descriptor that this process was started with.
#[expect(unsafe_code, reason = "a descriptor known by its number only")]
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: not -1, and only asked about: a number that nothing is open under gives an error.
    // JUSTIFICATION: an `OwnedFd` of a closed descriptor must not come into being.
    rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) })?;
    // SAFETY: it is open, and whoever started this process passed it on for this; nothing else here owns it.
    // JUSTIFICATION: the number is all that the command line can carry.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Keeps every descriptor but the three standard ones from being inherited by the next program.
#[expect(unsafe_code, reason = "a raw system call")]
pub(crate) fn inherit_only_standard_streams() -> io::Result<()> {
    // SAFETY: the arguments are plain numbers, and the flag on a descriptor changes nothing for who uses it here.
    // JUSTIFICATION: rustix has no close_range.
    let answer = unsafe { syscall(c_long::from(CLOSE_RANGE), 3_u32, u32::MAX, CLOSE_ON_EXEC_FLAG) };
    // The flag came with Linux 5.11.
    if answer == 0 { Ok(()) } else { inherit_only_standard_streams_one_by_one() }
}

#[expect(unsafe_code, reason = "descriptors known by their number only")]
fn inherit_only_standard_streams_one_by_one() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        let Some(number) = number.filter(|number| *number > 2) else { continue };
        // SAFETY: not -1, and a number that nothing is open under gives an error and no harm.
        // JUSTIFICATION: descriptors that were inherited have no owner here to ask.
        let _ = rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC);
    }
    Ok(())
}

/// Closes every descriptor but the three standard ones and these.
#[expect(unsafe_code, reason = "a raw system call")]
pub(crate) fn close_all_but(kept: &[RawFd]) {
    let mut kept: Vec<u32> = kept.iter().filter_map(|number| u32::try_from(*number).ok()).collect();
    kept.sort_unstable();
    let mut first = 3_u32;
    for last in kept.into_iter().chain([u32::MAX]) {
        if first < last {
            // SAFETY: the arguments are plain numbers. Whatever owns one of these descriptors is never used again: only a
            // process that leaves by `_exit` calls this.
            // JUSTIFICATION: rustix has no close_range.
            unsafe { syscall(c_long::from(CLOSE_RANGE), first, last.saturating_sub(1), 0_u32) };
        }
        first = last.saturating_add(1).max(first);
    }
}

/// Overwrites this process's environment but for these variables, where it lies and where others could see it. Only for a process with
/// one thread.
#[expect(unsafe_code, reason = "the environment has no owner")]
pub(crate) fn forget_environment(kept: &[&str]) {
    let is_kept = |variable: &CStr| {
        let name = variable.to_bytes().split(|byte| *byte == b'=').next();
        kept.iter().any(|kept| name == Some(kept.as_bytes()))
    };
    // SAFETY: the kernel put the list and its texts there, writable, with a null after the last; nobody else reads or changes them, since
    // there is no other thread, and what was read before is a copy.
    // JUSTIFICATION: to unset a variable leaves its text where it is.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            let variable = CStr::from_ptr(*next);
            let bytes = variable.count_bytes();
            if !is_kept(variable) {
                (*next).write_bytes(0, bytes);
            }
            next = next.add(1);
        }
    }
}

/// Runs `body` in a forked child and returns the code it ended with; `None` when a signal ended it.
///
/// Only for a process with one thread: a lock that another thread held would stay locked in the child.
pub(super) fn in_forked_child(body: impl FnOnce() -> u8) -> io::Result<Option<u8>> {
    let child = fork_into(body)?;
    let ended = waitpid(Some(child), WaitOptions::empty())?;
    let code = ended.and_then(|(_, status)| status.exit_status());
    Ok(code.and_then(|code| u8::try_from(code).ok()))
}

/// A forked child that does nothing until it is dropped.
#[derive(Debug)]
pub(super) struct IdleChild(Pid);

impl IdleChild {
    /// Starts one. Only for a process with one thread, as `in_forked_child`.
    pub(super) fn start() -> io::Result<Self> {
        fork_into(|| {
            loop {
                std::thread::park();
            }
        })
        .map(Self)
    }

    pub(super) fn id(&self) -> Pid {
        self.0
    }
}

impl Drop for IdleChild {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
        let _ = waitpid(Some(self.0), WaitOptions::empty());
    }
}

/// Forks; the child runs `body` and leaves by `_exit`, so that nothing of the parent is flushed or dropped twice.
///
/// Only for a process with one thread, as `in_forked_child`.
#[expect(unsafe_code, reason = "fork has no safe wrapper")]
pub(crate) fn fork_into(body: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: the callers are single threaded, so the child has a whole and consistent copy of the process.
    // JUSTIFICATION: a new PID namespace holds only children made after `unshare`, and what a guard's child does
    // before it becomes the program (its session, its groups) is nothing that a spawn can do.
    let answer = unsafe { fork() };
    if answer == 0 {
        leave_by(body);
    }
    Pid::from_raw(answer.max(0)).ok_or_else(io::Error::last_os_error)
}

/// Forks into new namespaces: the child is the first process of a new PID namespace. Otherwise as `fork_into`; a process with more than one
/// thread may call it where `body` takes neither memory nor locks.
#[expect(unsafe_code, reason = "clone has no safe wrapper")]
pub(crate) fn fork_into_namespaces(namespaces: UnshareFlags, body: impl FnOnce() -> u8) -> io::Result<Pid> {
    let flags = c_ulong::from(namespaces.bits()) | CHILD_SIGNAL;
    // SAFETY: without a stack of its own and without shared memory this is a fork; the callers are single threaded, so
    // the child has a whole and consistent copy of the process, or the child only makes system calls, with what lies on its
    // stack. The flags are those of namespaces only.
    // JUSTIFICATION: `unshare` and `fork` would make one process more, between the guard and the namespace's first.
    let answer = unsafe { syscall(CLONE, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if answer == 0 {
        leave_by(body);
    }
    let id = c_int::try_from(answer).unwrap_or(-1);
    Pid::from_raw(id.max(0)).ok_or_else(io::Error::last_os_error)
}

fn leave_by(body: impl FnOnce() -> u8) -> ! {
    let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED);
    _exit(c_int::from(code))
}
