//! The control groups of one child.
//!
//! What a group can do is seen by the files in it, so that worker and guard need to agree on nothing but its directories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::cgroup::{self, move_into, set};
use super::deadline::Deadline;
use super::spec::Limits;
use crate::sandbox::probe::Cgroup;

/// How long a group may take to be empty once its last process was waited for. The kernel needs microseconds.
const EMPTYING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(2);
/// An agent that may write groups could nest them; nobody nests them deeper for a good reason.
const DEEPEST: usize = 16;

/// Where a keeper makes its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    limits: Cgroup,
    /// On a host with both versions the limits are in version 1, which cannot kill a whole group at once.
    kill: Option<PathBuf>,
}

impl Places {
    pub(super) fn find() -> Self {
        Self::with(cgroup::find(&|_| Ok(())))
    }

    pub(super) fn with(limits: Cgroup) -> Self {
        let kill = match limits {
            Cgroup::V1 { .. } => cgroup::find_kill(),
            Cgroup::V2 { .. } | Cgroup::No { .. } => None,
        };
        Self { limits, kill }
    }

    pub(super) fn can_limit(&self) -> bool {
        !matches!(self.limits, Cgroup::No { .. })
    }

    /// Makes a group with these limits. `None` when there can be none: then the limits must be watched.
    pub(super) fn make(&self, name: &str, limits: &Limits) -> Option<Group> {
        let mut group = Group::default();
        let memory = limits.memory_bytes.map(|bytes| bytes.to_string());
        let processes = limits.processes.map(|count| count.to_string());
        let made = match &self.limits {
            Cgroup::No { .. } => return None,
            Cgroup::V2 { parent } => group.add(&parent.join(name)).and_then(|dir| {
                memory.map_or(Ok(()), |bytes| limit_memory_v2(&dir, &bytes))?;
                processes.map_or(Ok(()), |count| set(&dir, "pids.max", &count))
            }),
            Cgroup::V1 { memory: memory_parent, pids } => memory
                .map_or(Ok(()), |bytes| limit_memory_v1(&group.add(&memory_parent.join(name))?, &bytes))
                .and_then(|()| {
                    processes.map_or(Ok(()), |count| set(&group.add(&pids.join(name))?, "pids.max", &count))
                }),
        };
        if made.is_err() {
            group.remove();
            return None;
        }
        if let Some(parent) = &self.kill {
            let _ = group.add(&parent.join(name));
        }
        Some(group)
    }
}

fn limit_memory_v2(dir: &Path, bytes: &str) -> io::Result<()> {
    set(dir, "memory.max", bytes)?;
    // Both are younger than the limit itself. Without the first, the limit is only where swapping begins.
    let _ = set(dir, "memory.swap.max", "0");
    let _ = set(dir, "memory.oom.group", "1");
    Ok(())
}

fn limit_memory_v1(dir: &Path, bytes: &str) -> io::Result<()> {
    set(dir, "memory.limit_in_bytes", bytes)?;
    // Only there on a kernel that counts swap.
    let _ = set(dir, "memory.memsw.limit_in_bytes", bytes);
    Ok(())
}

/// The groups of one child: one in each hierarchy that has a part in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) dirs: Vec<PathBuf>,
}

impl Group {
    fn add(&mut self, dir: &Path) -> io::Result<PathBuf> {
        fs::create_dir(dir)?;
        self.dirs.push(dir.to_owned());
        Ok(dir.to_owned())
    }

    /// Moves the calling process into the groups, and tells whether all that have a limit took it.
    pub(super) fn enter(&self) -> bool {
        let limits = |dir: &Path| {
            ["memory.max", "memory.limit_in_bytes", "pids.max"].iter().any(|file| dir.join(file).exists())
        };
        self.dirs.iter().all(|dir| move_into(dir, 0).is_ok() || !limits(dir))
    }

    /// Kills everything in the groups.
    pub(super) fn kill(&self) {
        for dir in &self.dirs {
            if set(dir, "cgroup.kill", "1").is_err() {
                kill_listed(dir);
            }
        }
    }

    /// Tells whether somebody has to look for what the memory limit did: version 1 kills one process, not all.
    pub(super) fn needs_watching(&self) -> bool {
        self.dirs.iter().any(|dir| dir.join("memory.oom_control").exists())
    }

    /// Tells whether something was killed because of the memory limit.
    pub(super) fn was_out_of_memory(&self) -> bool {
        self.counts("memory.events", "oom_kill") || self.counts("memory.oom_control", "oom_kill")
    }

    /// Tells whether a process was not started because of the limit.
    pub(super) fn was_full(&self) -> bool {
        self.counts("pids.events", "max")
    }

    fn counts(&self, file: &str, key: &str) -> bool {
        let texts = self.dirs.iter().filter_map(|dir| fs::read_to_string(dir.join(file)).ok());
        texts.into_iter().any(|text| counted(&text, key))
    }

    /// Takes the groups away; nothing is said about one that is not there.
    pub(super) fn remove(&self) {
        let deadline = Deadline::after(EMPTYING);
        for dir in &self.dirs {
            while remove_nested(dir, DEEPEST).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
                && !deadline.passed()
            {
                thread::sleep(PAUSE);
            }
        }
    }
}

fn counted(text: &str, key: &str) -> bool {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse::<u64>().ok();
    text.lines().filter_map(value).any(|count| count > 0)
}

fn kill_listed(dir: &Path) {
    let list = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for id in list.lines().filter_map(|id| Pid::from_raw(id.parse().ok()?)) {
        let _ = kill_process(id, Signal::KILL);
    }
}

fn remove_nested(dir: &Path, deeper: usize) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && deeper > 0 => {
            for entry in fs::read_dir(dir)?.flatten().filter(|entry| entry.path().is_dir()) {
                remove_nested(&entry.path(), deeper - 1)?;
            }
            fs::remove_dir(dir)
        }
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_cannot_be_limited_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = || dir.path().to_owned();
        let limits = Limits { memory_bytes: Some(1 << 30), processes: Some(9), ..Limits::default() };
        for limits_at in [Cgroup::V2 { parent: path() }, Cgroup::V1 { memory: path(), pids: path() }] {
            let places = Places { limits: limits_at, kill: Some(path()) };
            assert_eq!(places.make("some", &limits), None);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_the_kernel_counted_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group { dirs: vec![dir.path().to_owned()] };
        let found = || (group.was_out_of_memory(), group.was_full());
        assert_eq!(found(), (false, false));
        fs::write(dir.path().join("memory.events"), "low 3\nmax 7\noom 1\noom_kill 0\noom_group_kill 2\n")
            .unwrap();
        fs::write(dir.path().join("pids.events"), "max 0\n").unwrap();
        assert_eq!(found(), (false, false));
        fs::write(dir.path().join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
            .unwrap();
        fs::write(dir.path().join("pids.events"), "max 12\n").unwrap();
        assert_eq!(found(), (true, true));
    }
}
