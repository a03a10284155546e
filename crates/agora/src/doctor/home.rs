//! The directory where agora keeps its state.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::{Finding, Status};

const TOPIC: &str = "home";
/// One dispatch with a middling workspace and its snapshots fits into this; below it, things fail half-way.
const LITTLE_SPACE: u64 = GIB;
const GIB: u64 = 1 << 30;
/// A whole block, so that a full disk is noticed here and not at the first dispatch.
const TRIAL: [u8; 4096] = [0; 4096];

pub(super) fn examine(home: &Path) -> Finding {
    let shown = home.display();
    match fs::metadata(home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let detail = format!("`{shown}` does not exist yet ({})", free_text(home));
            Finding::bad(TOPIC, Status::Missing, detail, "agora init")
        }
        Err(error) => unusable(home, &error),
        Ok(metadata) if !metadata.is_dir() => {
            let detail = format!("`{shown}` is not a directory");
            Finding::bad(TOPIC, Status::Broken, detail, "move it away, or set `AGORA_HOME` to another place")
        }
        Ok(_) => match try_writing(home) {
            Err(error) => unusable(home, &error),
            Ok(()) => usable(home),
        },
    }
}

/// Writes to a file that has no name, so that nothing stays even if we are killed.
fn try_writing(home: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(home)?;
    file.write_all(&TRIAL)?;
    file.sync_all()
}

fn unusable(home: &Path, error: &io::Error) -> Finding {
    let shown = home.display();
    let fix = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("if it is yours, chmod u+rwx '{shown}'; else set `AGORA_HOME` to a directory of your own")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there, or set `AGORA_HOME` to another disk".to_owned()
        }
        _ => "set `AGORA_HOME` to a directory that can be written".to_owned(),
    };
    let detail = format!("`{shown}` cannot be written: {error}");
    Finding::bad(TOPIC, Status::Broken, detail, fix)
}

fn usable(home: &Path) -> Finding {
    let shown = home.display();
    let detail = format!("`{shown}` can be written ({})", free_text(home));
    if let Some(kind) = network_file_system(home) {
        let detail = format!("{detail}, but is on {kind}, where locks and the ledger are not safe");
        return Finding::bad(TOPIC, Status::Note, detail, "set `AGORA_HOME` to a local disk");
    }
    match free_space(home) {
        Some(free) if free < LITTLE_SPACE => {
            let fix = "free some space there, or set `AGORA_HOME` to another disk";
            Finding::bad(TOPIC, Status::Note, detail, fix)
        }
        _ => Finding::ok(TOPIC, detail),
    }
}

fn free_text(place: &Path) -> String {
    match free_space(place) {
        Some(free) => {
            let tenths = free.saturating_mul(10) / GIB;
            format!("{}.{} GiB free", tenths / 10, tenths % 10)
        }
        None => "free space not known".to_owned(),
    }
}

/// Returns what an ordinary user may still write at the nearest directory that exists.
fn free_space(place: &Path) -> Option<u64> {
    let place = place.ancestors().find(|dir| dir.is_dir())?;
    let there = rustix::fs::statvfs(place).ok()?;
    Some(there.f_bavail.saturating_mul(there.f_frsize))
}

/// Names the file system when it is one that another machine serves. FUSE is left out: it may be anything.
#[cfg(target_os = "linux")]
fn network_file_system(place: &Path) -> Option<&'static str> {
    // From `linux/magic.h`; the type's width and sign differ between architectures.
    let kind = rustix::fs::statfs(place).ok()?.f_type as u32;
    match kind {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x5346_414f => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        0x0102_1997 => Some("9P (a folder of the host)"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn network_file_system(_place: &Path) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_works_shows_its_space_and_stays_empty() {
        let home = tempfile::tempdir().unwrap();
        let finding = examine(home.path());
        assert!(matches!(finding.status, Status::Ok | Status::Note), "{finding:?}");
        assert!(finding.detail.contains(" GiB free)"), "{finding:?}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_home_that_is_not_there_is_one_command_away() {
        let dir = tempfile::tempdir().unwrap();
        let finding = examine(&dir.path().join("a/b"));
        assert_eq!((finding.status, finding.fix.as_deref()), (Status::Missing, Some("agora init")));
        assert!(finding.detail.contains("GiB free"), "{finding:?}");
    }

    #[test]
    fn a_file_in_its_place_is_broken() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("home");
        fs::write(&file, "").unwrap();
        assert_eq!(examine(&file).status, Status::Broken);
        // Below a file there can be no directory either, and that is no "not found".
        assert_eq!(examine(&file.join("below")).status, Status::Broken);
    }

    #[test]
    fn each_error_has_its_own_fix() {
        let fix = |kind: io::ErrorKind| unusable(Path::new("/h"), &kind.into()).fix.unwrap();
        assert!(fix(io::ErrorKind::PermissionDenied).contains("chmod u+rwx '/h'"));
        assert!(fix(io::ErrorKind::StorageFull).contains("free some space"));
        assert!(fix(io::ErrorKind::ReadOnlyFilesystem).contains("AGORA_HOME"));
    }
}
