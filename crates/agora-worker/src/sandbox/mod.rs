//! What stands between an agent and everything else on the machine.
//!
//! [`probe`] finds out what this machine offers; `wall` is built of it. The only unsafe code of the project is in `syscall`, which wraps
//! the few calls that no crate of ours offers.

pub mod preview;
pub mod probe;
#[cfg(target_os = "linux")]
pub(crate) mod syscall;
#[cfg(target_os = "linux")]
pub(crate) mod wall;

/// Moves this process into namespaces of its own. It must have one thread.
#[cfg(target_os = "linux")]
pub(crate) fn own_namespaces(which: rustix::thread::UnshareFlags) -> std::io::Result<()> {
    Ok(syscall::unshare(which)?)
}
