//! The processes below this one, as `/proc` shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use rustix::fs::statfs;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitStatus, getpgid, getpgrp, getpid, kill_process, kill_process_group,
    pidfd_open, pidfd_send_signal,
};

use super::spec::How;

/// More than the kernel ever puts into one of the files that are read here, but for lists of children.
const STAT_BYTES: u64 = 8 * 1024;
/// A list of children: enough for every process that Linux can have (4,194,304, of eight bytes each).
const CHILDREN_BYTES: u64 = 32 * 1024 * 1024;

/// How the kernel names the files that `memfd_create` makes.
const MEMORY_FILE: &[u8] = b"/memfd:";

/// One process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: Pid,
    /// 0 for the first process of the machine or the container.
    parent: i32,
    threads: u32,
    /// In clock ticks since the machine started: with the id, a name that is not used twice.
    started: u64,
    resident_pages: u64,
}

impl Process {
    fn read(id: Pid) -> Option<Self> {
        let stat = read_capped(&format!("/proc/{}/stat", id.as_raw_nonzero()), STAT_BYTES).ok()?;
        Self::parse(id, &stat)
    }

    /// Reads a line of `/proc/<id>/stat`. The name in it is the process' own choice and may hold anything, also
    /// parentheses; nothing after it does.
    fn parse(id: Pid, stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = str::from_utf8(stat.get(name_end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Counted as in proc_pid_stat(5), where the state, the first after the name, is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            id,
            parent: field(4)?.parse().ok()?,
            threads: field(20)?.parse().ok()?,
            started: field(22)?.parse().ok()?,
            resident_pages: field(24)?.parse().ok()?,
        })
    }

    /// Kills it, if it is still the one that was seen: its id may be somebody else's by now.
    fn kill(&self) {
        // The descriptor first: whoever it stands for stays the same while that is looked at.
        let handle = pidfd_open(self.id, PidfdFlags::empty());
        if Self::read(self.id).is_none_or(|now| now.started != self.started) {
            return;
        }
        // Kernels before 5.3 have no such descriptors, and some containers forbid them.
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, Signal::KILL),
            Err(_) => kill_process(self.id, Signal::KILL),
        };
    }
}

/// Returns the children of this process, also those that have ended and were not waited for.
pub(super) fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    listed_children().unwrap_or_else(|| {
        all().into_iter().filter(|process| process.parent == own).map(|process| process.id).collect()
    })
}

/// The quick way, so that a process that starts the next one and ends is met before it has done so. Not every kernel has it.
fn listed_children() -> Option<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let list = read_capped(&thread.ok()?.path().join("children"), CHILDREN_BYTES).ok()?;
        let ids = list.split(u8::is_ascii_whitespace).filter_map(|id| str::from_utf8(id).ok()?.parse().ok());
        children.extend(ids.filter_map(Pid::from_raw));
    }
    Some(children)
}

/// Kills a child that was not waited for, so that its id is still its own, and whatever is in its process group.
///
/// The group at once: nobody in it can start another process in between. It is the group of a session that began below
/// this process, unless the child is about to make its own.
pub(super) fn kill_child(child: Pid) {
    if let Ok(group) = getpgid(Some(child))
        && group != getpgrp()
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = kill_process(child, Signal::KILL);
}

/// Kills everything below this process, but for those to be spared and what is below them.
pub(super) fn kill_below(spared: &dyn Fn(Pid) -> bool) {
    below(getpid(), &all(), spared).iter().for_each(Process::kill);
}

/// What everything below this process uses at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Processes and threads.
    pub(super) processes: u64,
    memory_at_most: u64,
}

/// Looks at everything below this process.
pub(super) fn usage() -> (Usage, Vec<Process>) {
    let processes = below(getpid(), &all(), &|_| false);
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX);
    let sum = |usage: Usage, process: &Process| Usage {
        processes: usage.processes.saturating_add(u64::from(process.threads)),
        memory_at_most: usage.memory_at_most.saturating_add(process.resident_pages.saturating_mul(page)),
    };
    (processes.iter().fold(Usage::default(), sum), processes)
}

impl Usage {
    /// Tells whether the processes, whose usage this is, have more memory of their own than that, with what they have in files of
    /// memory.
    ///
    /// A program's pages count once for each process that runs it, so only when that sum is too much, the exact and slower
    /// one is made, without pages that belong to files on a disk.
    pub(super) fn more_memory_than(&self, limit: u64, in_files: u64, processes: &[Process]) -> bool {
        if self.memory_at_most.saturating_add(in_files) <= limit {
            return false;
        }
        let own = processes.iter().map(|process| OwnMemory::of(process.id));
        own.fold(OwnMemory::default(), OwnMemory::and).with(in_files) > limit
    }
}

/// What a process has that is on no disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OwnMemory {
    anonymous: u64,
    shared: u64,
}

impl OwnMemory {
    fn of(id: Pid) -> Self {
        let status =
            read_capped(&format!("/proc/{}/status", id.as_raw_nonzero()), STAT_BYTES).unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&status))
    }

    fn parse(status: &str) -> Self {
        let bytes = |name: &str| {
            let amount = status.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes = amount.and_then(|amount| amount.trim().strip_suffix("kB")?.trim().parse().ok());
            kilobytes.map_or(0, |kilobytes: u64| kilobytes.saturating_mul(1024))
        };
        Self { anonymous: bytes("RssAnon:"), shared: bytes("RssShmem:") }
    }

    fn and(self, other: Self) -> Self {
        Self {
            anonymous: self.anonymous.saturating_add(other.anonymous),
            shared: self.shared.saturating_add(other.shared),
        }
    }

    /// Returns all of it together. Pages of a file that somebody has in view are in both counts: the larger one is never too much.
    fn with(self, in_files: u64) -> u64 {
        self.anonymous.saturating_add(self.shared.max(in_files))
    }
}

/// Returns what processes have in files of memory: those without a name that they hold open, each once, and those of their room, if they are
/// in one. Who can hide its descriptors from this process hides such files, too.
pub(super) fn in_files(processes: &[Process], in_a_room: bool) -> u64 {
    let nameless: BTreeMap<u64, u64> =
        processes.iter().flat_map(|process| nameless_files(process.id)).collect();
    let of_room = |process: &Process| {
        let about = statfs(format!("/proc/{}/root/dev/shm", process.id.as_raw_nonzero())).ok()?;
        let used = about.f_blocks.saturating_sub(about.f_bfree);
        Some(used.saturating_mul(u64::try_from(about.f_bsize).unwrap_or_default()))
    };
    let room = processes.iter().filter(|_| in_a_room).find_map(of_room).unwrap_or_default();
    nameless.into_values().fold(room, u64::saturating_add)
}

/// Returns the files of memory that a process holds: their numbers, and how many bytes they have.
fn nameless_files(id: Pid) -> Vec<(u64, u64)> {
    let held = fs::read_dir(format!("/proc/{}/fd", id.as_raw_nonzero()));
    let size = |entry: fs::DirEntry| {
        let link = entry.path();
        // Its name first: to ask a file of another kind for its size can take as long as a server likes.
        let name = fs::read_link(&link).ok()?;
        let about =
            name.as_os_str().as_encoded_bytes().starts_with(MEMORY_FILE).then(|| fs::metadata(&link))?;
        about.ok().map(|about| (about.ino(), about.blocks().saturating_mul(512)))
    };
    held.into_iter().flatten().filter_map(|entry| size(entry.ok()?)).collect()
}

/// Returns how many processes and threads a user has, as far as they can be seen.
pub(super) fn of_user(user: u32) -> u64 {
    let owner = |process: &Process| {
        fs::metadata(format!("/proc/{}", process.id.as_raw_nonzero())).map(|about| about.uid())
    };
    let own = all().into_iter().filter(|process| owner(process).is_ok_and(|owner| owner == user));
    own.map(|process| u64::from(process.threads)).fold(0, u64::saturating_add)
}

/// Returns what a wait says about the end of a process; `None` when it did not end.
pub(super) fn how(status: WaitStatus) -> Option<How> {
    status.exit_status().map(How::Exited).or_else(|| status.terminating_signal().map(How::Killed))
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let id = |entry: io::Result<fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)
    };
    entries.filter_map(id).filter_map(Process::read).collect()
}

fn below(root: Pid, all: &[Process], spared: &dyn Fn(Pid) -> bool) -> Vec<Process> {
    let mut by_parent: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
    for process in all {
        by_parent.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::from([root.as_raw_nonzero().get()]));
    let mut next = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = next.pop() {
        for process in by_parent.get(&parent).into_iter().flatten() {
            let id = process.id.as_raw_nonzero().get();
            // The picture was not taken in one moment: ids that were used again could make a circle.
            if !spared(process.id) && seen.insert(id) {
                found.push(**process);
                next.push(id);
            }
        }
    }
    found
}

fn read_capped(path: &(impl AsRef<std::path::Path> + ?Sized), cap: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(cap).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    fn id(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    fn process(number: i32, parent: i32) -> Process {
        Process { id: id(number), parent, threads: 1, started: 0, resident_pages: 0 }
    }

    fn below_1(all: &[Process], spared: &dyn Fn(Pid) -> bool) -> Vec<i32> {
        let mut found: Vec<i32> =
            below(id(1), all, spared).iter().map(|process| process.id.as_raw_nonzero().get()).collect();
        found.sort();
        found
    }

    #[test]
    fn the_whole_tree_is_found_but_what_is_spared() {
        let all = [process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(6, 5), process(9, 0)];
        assert_eq!(below_1(&all, &|_| false), [2, 3, 4, 5, 6]);
        assert_eq!(below_1(&all, &|one| one == id(5)), [2, 3, 4]);
    }

    #[test]
    fn a_circle_ends() {
        assert_eq!(
            below_1(&[process(2, 1), process(3, 2), process(2, 3), process(1, 3)], &|_| false),
            [2, 3]
        );
    }

    #[test]
    fn this_process_can_be_read() {
        let own = Process::read(getpid()).unwrap();
        let parent = rustix::process::getppid().map(|id| id.as_raw_nonzero().get());
        assert_eq!(Some(own.parent), parent);
        assert!(own.threads >= 1 && own.resident_pages > 0 && own.started > 0, "{own:?}");
        assert!(OwnMemory::of(getpid()).anonymous > 0);
    }

    #[test]
    fn only_memory_of_its_own_counts() {
        let status =
            "Name:\tRssAnon: 9 kB\nVmRSS:\t100 kB\nRssAnon:\t  7 kB\nRssFile:\t90 kB\nRssShmem:\t 3 kB\n";
        let own = OwnMemory::parse(status);
        assert_eq!(own, OwnMemory { anonymous: 7 * 1024, shared: 3 * 1024 });
        assert_eq!([own.with(0), own.with(2 * 1024), own.with(5 * 1024)], [10, 10, 12].map(|kib| kib * 1024));
    }

    #[test]
    fn a_file_of_memory_counts_once_however_many_hold_it() {
        let file = File::from(memfd_create("held", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(&vec![1; 5 << 20], 0).unwrap();
        let again = file.try_clone().unwrap();
        let own = Process::read(getpid()).unwrap();
        let held = in_files(&[own, own], false);
        assert!((5 << 20..10 << 20).contains(&held), "{held}");
        drop((file, again));
        assert!(in_files(&[own], false) < 5 << 20);
    }

    proptest! {
        #[test]
        fn any_name_is_passed_over(name: Vec<u8>, parent: i32, started: u64) {
            let mut stat = [b"42 (", name.as_slice(), b") "].concat();
            let fields = format!("S {parent}{} 7 0 {started} 1 13 0\n", " 0".repeat(15));
            stat.extend_from_slice(fields.as_bytes());
            let expected = Process { id: id(42), parent, threads: 7, started, resident_pages: 13 };
            prop_assert_eq!(Process::parse(id(42), &stat), Some(expected));
        }

        #[test]
        fn no_bytes_make_it_panic(stat: Vec<u8>) {
            let _ = Process::parse(id(42), &stat);
        }
    }
}
