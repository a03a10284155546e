//! Room on the disk: whoever fills it is ended while there is enough left to record that.

use std::path::Path;

use rustix::fs::statvfs;

/// What is left free, at most: enough for a ledger, logs and reports of many dispatches.
const RESERVE: u64 = 1 << 30;
/// On a small disk it is this part of it, but not less than a few reports.
const PART: u64 = 20;
const LEAST: u64 = 16 << 20;

/// How much must stay free on the file system that a program writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    least: u64,
}

impl Room {
    /// Looks at the file system of a directory. `None` when it does not tell. One that is nearly full already does not keep
    /// anybody from working: half of what is there may be used.
    pub(super) fn on(dir: &Path) -> Option<Self> {
        let about = statvfs(dir).ok()?;
        let (total, free) = (about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize);
        Some(Self { least: least(total, free) })
    }

    /// Tells whether less is left than must be.
    pub(super) fn is_short(self, dir: &Path) -> bool {
        statvfs(dir).is_ok_and(|about| about.f_bavail * about.f_frsize < self.least)
    }
}

fn least(total: u64, free: u64) -> u64 {
    RESERVE.min((total / PART).max(LEAST)).min(free / 2)
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn a_large_disk_keeps_a_gibibyte_and_a_full_one_lets_half_be_used() {
        let (mib, gib) = (1 << 20, 1 << 30);
        assert_eq!(least(1000 * gib, 500 * gib), gib);
        assert_eq!(least(10 * gib, 5 * gib), gib / 2);
        assert_eq!(least(64 * mib, 60 * mib), 16 * mib);
        assert_eq!(least(1000 * gib, 10 * mib), 5 * mib);
    }
}
