//! Which process a worker is, so that no other is ever taken for it.
//!
//! An id alone is given to another process later. With the time of its start, and the boot that this is counted from, it
//! means one process for ever.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::dispatch_dir::DispatchDir;
use crate::home::read_capped;

/// An identity is some hundred bytes.
const LONGEST: u64 = 4096;
/// The field of `/proc/PID/stat` that is the time of the start, counted from the state, which follows the name.
const START_TIME: usize = 22 - 3;

/// Returns what tells this boot of the machine from every other.
pub fn boot_id() -> io::Result<String> {
    // No process outlives its boot.
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(KNOWN.get_or_init(|| read.trim_end().to_owned()).clone())
}

/// One process among all that ever were on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Identity {
    pid: i32,
    /// In ticks since the boot.
    start_time: u64,
    boot_id: String,
}

impl Identity {
    /// Identifies a child that was not waited for yet.
    pub(super) fn of(child: u32) -> io::Result<Self> {
        let pid = i32::try_from(child).map_err(io::Error::other)?;
        Ok(Self { pid, start_time: start_time(pid)?, boot_id: boot_id()? })
    }

    /// Reads what was stored. What is not an identity names nobody.
    pub(super) fn read(dir: &DispatchDir) -> io::Result<Option<Self>> {
        let bytes = read_capped(&dir.worker(), LONGEST)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(io::Error::other)
    }

    pub(super) fn is_of_this_boot(&self) -> io::Result<bool> {
        Ok(self.boot_id == boot_id()?)
    }

    /// Finds the process, if it lives.
    pub(super) fn find(&self) -> io::Result<Option<Process>> {
        let Some(pid) = Pid::from_raw(self.pid.max(0)) else { return Ok(None) };
        if !self.is_of_this_boot()? {
            return Ok(None);
        }
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Process(descriptor),
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Only now: from here on the descriptor means the process that was looked at.
        match start_time(self.pid) {
            Ok(time) => Ok((time == self.start_time).then_some(process)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A process that was found, whatever becomes of its id.
#[derive(Debug)]
pub(super) struct Process(OwnedFd);

impl Process {
    /// Sends a signal. One that has ended gets none.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.0, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its end.
    pub(super) fn wait(&self) -> io::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn start_time(pid: i32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name is in parentheses and may hold some.
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
    if fields.is_some_and(|fields| fields.starts_with('Z')) {
        // It has ended, and only waits for whoever started it to hear of it.
        return Err(io::ErrorKind::NotFound.into());
    }
    let time = fields.and_then(|fields| fields.split(' ').nth(START_TIME)).and_then(|time| time.parse().ok());
    time.ok_or_else(|| io::Error::other("the time of its start is not where it should be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_and_one_that_has_its_id_now_is_not() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.find().unwrap().is_some());
        let earlier = Identity { start_time: own.start_time - 1, ..own.clone() };
        assert!(earlier.find().unwrap().is_none());
        for pid in [0, -1, i32::MAX] {
            assert!(Identity { pid, ..own.clone() }.find().unwrap().is_none(), "{pid}");
        }
        let before = Identity { boot_id: "another".into(), ..own };
        assert!(before.find().unwrap().is_none());
    }
}
