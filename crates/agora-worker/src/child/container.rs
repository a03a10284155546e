//! What the kernel did in this worker's container, when it is the first process of one: the container's limit ends whatever is
//! largest, and nobody else tells that it was the limit.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a container sees its own group, in version 2 and in version 1.
const COUNTS: [&str; 2] = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];

/// How many kills were told already. A container is new, and has none.
static TOLD: AtomicU64 = AtomicU64::new(0);

/// Tells whether something was killed for its memory since this was last asked.
pub(super) fn ran_out_of_memory() -> bool {
    if std::process::id() != 1 {
        return false;
    }
    let texts = COUNTS.iter().filter_map(|path| fs::read_to_string(path).ok());
    let kills = texts.filter_map(|text| kills(&text)).max().unwrap_or(0);
    kills > TOLD.swap(kills, Ordering::Relaxed)
}

fn kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_in_both_versions() {
        assert_eq!(kills("low 0\noom 3\noom_kill 2\noom_group_kill 1\n"), Some(2));
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), Some(1));
        assert_eq!(kills("oom_kill_disable 0\n"), None);
    }
}
