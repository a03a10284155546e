//! The order of the tries: each may take away what a later one would need.

use std::fs;

use super::{Cause, Level, Probe, Refusal, cgroup, filters, namespaces};

pub(super) fn probe_in_this_process() -> Probe {
    if let Some(refusal) = several_threads() {
        return Probe::nothing(&refusal);
    }
    // First: inside a new user namespace the host's groups could no longer be made.
    let cgroup = cgroup::try_all();
    let found = namespaces::try_all();
    // After the namespaces: it forbids opening a file for writing, which the id maps need.
    let landlock = filters::try_landlock();
    // Last: it filters a system call of Landlock.
    let seccomp = filters::try_seccomp();
    let level = Level::of(&found.namespaces, &landlock, &seccomp);
    Probe {
        namespaces: found.namespaces,
        landlock,
        seccomp,
        cgroup,
        overlayfs_in_userns: found.overlayfs,
        level,
    }
}

/// Forking, and making a user namespace, are only sound in a process with one thread.
fn several_threads() -> Option<Refusal> {
    let why = match fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => return None,
        Ok(threads) => format!("the probe ran in a process with {threads} threads and wants one"),
        Err(error) => format!("`/proc` cannot be read: {error}"),
    };
    Some(Refusal { cause: Cause::SeveralThreads, why })
}
