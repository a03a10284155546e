//! Room on the disk: whoever fills it is ended while there is enough left to record that.

use std::path::Path;

use rustix::fs::statvfs;

/// What is left free, at most: enough for a ledger, logs and reports of many dispatches.
const RESERVE: u64 = 1 << 30;
/// On a small disk it is this part of it, but not less than one report: what an agent said last, at most 4 MiB, is in a line, in the
/// report, and twice in the ledger until that is tidied.
const PART: u64 = 20;
const LEAST: u64 = 32 << 20;
/// The same for files, of which many file systems have a fixed number: more than anybody makes between two looks.
const RESERVE_FILES: u64 = 100_000;
const LEAST_FILES: u64 = 256;

/// How much must stay free on the file system that a program writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    least: u64,
    least_files: u64,
}

impl Room {
    /// Looks at the file system of a directory. `None` when it does not tell. One that is nearly full already does not keep
    /// anybody from working: half of what is there may be used.
    pub(super) fn on(dir: &Path) -> Option<Self> {
        let about = statvfs(dir).ok()?;
        let (total, free) = (about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize);
        Some(Self {
            least: least(total, free, RESERVE, LEAST),
            // One that makes files as it needs them says 0, and is never short of them.
            least_files: least(about.f_files, about.f_favail, RESERVE_FILES, LEAST_FILES),
        })
    }

    /// Tells whether less is left than must be.
    pub(super) fn is_short(self, dir: &Path) -> bool {
        statvfs(dir).is_ok_and(|about| {
            about.f_bavail * about.f_frsize < self.least || about.f_favail < self.least_files
        })
    }
}

fn least(total: u64, free: u64, reserve: u64, least: u64) -> u64 {
    reserve.min((total / PART).max(least)).min(free / 2)
}

#[cfg(test)]
mod tests {
    use super::{LEAST, LEAST_FILES, RESERVE, RESERVE_FILES};

    #[test]
    fn a_large_disk_keeps_a_gibibyte_and_a_full_one_lets_half_be_used() {
        let (mib, gib) = (1 << 20, 1 << 30);
        let least = |total, free| super::least(total, free, RESERVE, LEAST);
        assert_eq!(least(1000 * gib, 500 * gib), gib);
        assert_eq!(least(10 * gib, 5 * gib), gib / 2);
        assert_eq!(least(100 * mib, 90 * mib), 32 * mib);
        assert_eq!(least(1000 * gib, 10 * mib), 5 * mib);
    }

    #[test]
    fn files_are_kept_too_where_their_number_is_fixed() {
        let least = |total, free| super::least(total, free, RESERVE_FILES, LEAST_FILES);
        assert_eq!([least(16_000_000, 15_000_000), least(4096, 4000)], [100_000, 256]);
        // No number is less than none.
        assert_eq!(least(0, 0), 0);
    }
}
