//! The system calls that have no safe wrapper in rustix.

use std::ffi::{c_int, c_long, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::UnshareFlags;

/// From the kernel's unified table: the same on every architecture.
pub(super) const LANDLOCK_CREATE_RULESET: u32 = 444;
const LANDLOCK_RESTRICT_SELF: u32 = 446;
const CLOSE_RANGE: u32 = 436;
/// `LANDLOCK_CREATE_RULESET_VERSION` of `linux/landlock.h`.
const LANDLOCK_VERSION_FLAG: u32 = 1;
/// `CLOSE_RANGE_CLOEXEC` of `linux/close_range.h`.
const CLOSE_ON_EXEC_FLAG: u32 = 4;
/// `PR_SET_SECCOMP` of `linux/prctl.h` and `SECCOMP_MODE_FILTER` of `linux/seccomp.h`.
const SET_SECCOMP: c_int = 22;
const SECCOMP_MODE_FILTER: c_ulong = 2;

/// The code of a forked child whose body panicked; above every errno.
const PANICKED: u8 = 255;

#[expect(
    unsafe_code,
    reason = "declares four functions of the C library that the standard library links anyway"
)]
// SAFETY: the signatures are those of the C library on every Linux target.
// JUSTIFICATION: neither std nor rustix offers them, and the libc crate would be a dependency for four lines.
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn prctl(option: c_int, ...) -> c_int;
    fn fork() -> c_int;
    safe fn _exit(code: c_int) -> !;
}

/// `struct landlock_ruleset_attr` as of ABI 1; later fields may be left out by passing the shorter size.
#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
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

/// Makes a Landlock ruleset that forbids the given accesses to files everywhere.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn landlock_ruleset(handled_access_fs: u64) -> io::Result<OwnedFd> {
    let attributes = RulesetAttributes { handled_access_fs };
    let size = size_of::<RulesetAttributes>();
    // SAFETY: the pointer is valid for `size` bytes during the call, and the kernel only reads them.
    // JUSTIFICATION: rustix has no Landlock.
    let fd = unsafe { syscall(c_long::from(LANDLOCK_CREATE_RULESET), &raw const attributes, size, 0_u32) };
    let fd = c_int::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    // JUSTIFICATION: it must be closed, and `OwnedFd` does that.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Puts the calling thread under a ruleset, for good.
#[expect(unsafe_code, reason = "a raw system call")]
pub(super) fn landlock_restrict_self(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: the arguments are plain numbers, and the descriptor is open during the call.
    // JUSTIFICATION: rustix has no Landlock.
    let answer = unsafe { syscall(c_long::from(LANDLOCK_RESTRICT_SELF), ruleset.as_raw_fd(), 0_u32) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
        let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED);
        _exit(c_int::from(code));
    }
    Pid::from_raw(answer.max(0)).ok_or_else(io::Error::last_os_error)
}
