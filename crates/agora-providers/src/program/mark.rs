//! What a program started, found again wherever it went: by a mark in the environment, which every process passes on to those that it
//! starts. One that left its session, or whose parent is gone, still has it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::entropy;

/// The variable that holds the mark. What agora itself starts from within a command, to outlive it, goes without.
pub const VARIABLE: &str = "AGORA_ROUTE_COMMAND";

/// What of a process' environment is looked at: Linux' own limit for all of it is 6 MiB, and ours stands where its starter put it.
const ENVIRONMENT_BYTES: u64 = 6 << 20;

/// The mark of one run of a program.
#[derive(Clone, Debug)]
pub(super) struct Mark(String);

impl Mark {
    /// Makes one that no other run has: without chance there is none, for it would mark the processes of others as well.
    pub(super) fn draw() -> io::Result<Self> {
        let mut bytes = [0; 16];
        entropy::draw(&mut bytes)?;
        Ok(Self(format!("{:032x}", u128::from_be_bytes(bytes))))
    }

    pub(super) fn value(&self) -> &OsStr {
        self.0.as_ref()
    }

    /// Kills every process that has it. Those may start others until they are gone, so it looks until there is nobody new.
    pub(super) fn kill_all(&self) {
        let entry = format!("{VARIABLE}={}", self.0);
        let mut killed = BTreeSet::new();
        loop {
            let found: Vec<i32> =
                ids().filter(|id| !killed.contains(id) && kill_if(*id, entry.as_bytes())).collect();
            if found.is_empty() {
                return;
            }
            killed.extend(found);
        }
    }
}

fn ids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Kills a process if its environment has an entry, and tells whether it had.
fn kill_if(id: i32, entry: &[u8]) -> bool {
    // The descriptor first: whoever it stands for stays the same while its environment is read.
    let Some(handle) = Pid::from_raw(id).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else {
        return false;
    };
    let mut environment = Vec::new();
    let read = File::open(format!("/proc/{id}/environ"))
        .and_then(|file| file.take(ENVIRONMENT_BYTES).read_to_end(&mut environment));
    let has_it = read.is_ok() && environment.split(|byte| *byte == 0).any(|one| one == entry);
    has_it && pidfd_send_signal(handle, Signal::KILL).is_ok()
}
