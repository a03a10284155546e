//! Files of the user's tree, written all together or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agora_core::git::patch::PathBytes;

use super::super::blob::{Blob, LINK, PROGRAM, above};
use super::super::walk::at;
use super::ApplyError;

/// What is done at one path.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) path: PathBytes,
    pub(super) old: Option<Blob>,
    pub(super) new: Option<Blob>,
}

/// What was written so far. Unless it is kept, all of it is taken back.
#[derive(Debug)]
pub(super) struct Written<'a> {
    top: &'a Path,
    /// With who might use what was there.
    done: Vec<(&'a Step, Option<Permissions>)>,
    /// Directories that were not there before.
    made: Vec<PathBuf>,
    kept: bool,
}

impl<'a> Written<'a> {
    /// Writes everything.
    pub(super) fn write(top: &'a Path, steps: &'a [Step]) -> Result<Self, ApplyError> {
        let mut written = Self { top, done: Vec::new(), made: Vec::new(), kept: false };
        // What goes makes room for what comes.
        let (come, go): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.new.is_some());
        for step in go.into_iter().chain(come) {
            let shown = || String::from_utf8_lossy(&step.path).into_owned();
            let failed = |error: io::Error| match error.kind() {
                // Somebody put something else there, after it was read.
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                    ApplyError::Conflicts(vec![shown()])
                }
                _ => ApplyError::Git(format!("`{}` could not be written: {error}", shown())),
            };
            if !written.is_as_read(step).map_err(failed)? {
                return Err(ApplyError::Conflicts(vec![shown()]));
            }
            let access = access(&at(top, &step.path));
            written.done.push((step, access.clone()));
            written.put(&step.path, step.new.as_ref(), access).map_err(failed)?;
        }
        Ok(written)
    }

    /// Lets it stay.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }

    /// Tells whether a path is still as it was merged: nothing, which is not the same as no file, or the same bytes.
    fn is_as_read(&self, step: &Step) -> io::Result<bool> {
        let something = fs::symlink_metadata(at(self.top, &step.path)).is_ok();
        Ok(Blob::read(self.top, &step.path)? == step.old && (step.old.is_some() || !something))
    }

    /// Lets a path have what it should. Whoever looks sees the old or the new, whole.
    fn put(&mut self, path: &[u8], blob: Option<&Blob>, access: Option<Permissions>) -> io::Result<()> {
        let file = at(self.top, path);
        let Some(blob) = blob else {
            fs::remove_file(&file)?;
            // Git knows no empty directories.
            let above: Vec<&[u8]> = above(path).collect();
            let _ = above.iter().rev().try_for_each(|above| fs::remove_dir(at(self.top, above)));
            return Ok(());
        };
        for above in above(path) {
            let dir = at(self.top, above);
            match fs::create_dir(&dir) {
                Ok(()) => self.made.push(dir),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let beside = file.with_file_name(format!(".agora-{}", std::process::id()));
        let placed = stage(&beside, blob, access).and_then(|()| fs::rename(&beside, &file));
        if placed.is_err() {
            let _ = fs::remove_file(&beside);
        }
        placed
    }
}

fn access(file: &Path) -> Option<Permissions> {
    fs::symlink_metadata(file).ok().filter(fs::Metadata::is_file).map(|data| data.permissions())
}

/// Writes a file that is not in its place yet. Who may read it stays as it was.
fn stage(to: &Path, blob: &Blob, access: Option<Permissions>) -> io::Result<()> {
    if blob.mode == LINK {
        return symlink(std::ffi::OsStr::from_bytes(&blob.bytes), to);
    }
    let runs = blob.mode == PROGRAM;
    let mode = if runs { 0o777 } else { 0o666 };
    File::options().write(true).create_new(true).mode(mode).open(to)?.write_all(&blob.bytes)?;
    let Some(access) = access.map(|access| access.mode() & 0o777) else { return Ok(()) };
    // Whoever may read a program may run it.
    let mode = if runs { access | ((access & 0o444) >> 2) } else { access & !0o111 };
    fs::set_permissions(to, Permissions::from_mode(mode))
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let (done, made) = (std::mem::take(&mut self.done), self.made.len());
        for (step, access) in done.into_iter().rev() {
            // Best effort: whatever was in the way of the work may be in the way of this.
            if !matches!(self.is_as_read(step), Ok(true)) {
                let _ = self.put(&step.path, step.old.as_ref(), access);
            }
        }
        for dir in self.made[..made].iter().rev() {
            let _ = fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn blob(mode: &str, bytes: &str) -> Option<Blob> {
        Some(Blob { mode: mode.to_owned(), bytes: bytes.into() })
    }

    fn step(path: &str, old: Option<Blob>, new: Option<Blob>) -> Step {
        Step { path: path.into(), old, new }
    }

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().to_owned();
        fs::create_dir(top.join("d")).unwrap();
        fs::write(top.join("d/gone"), "gone").unwrap();
        fs::write(top.join("a"), "a").unwrap();
        fs::set_permissions(top.join("a"), Permissions::from_mode(0o640)).unwrap();
        (dir, top)
    }

    fn steps() -> Vec<Step> {
        vec![
            step("d", None, blob(LINK, "a")),
            step("d/gone", blob("100644", "gone"), None),
            step("a", blob("100644", "a"), blob("100755", "b")),
            step("new/deep/file", None, blob("100644", "x")),
        ]
    }

    #[test]
    fn everything_is_written_and_who_may_read_it_stays() {
        let (_dir, top) = tree();
        Written::write(&top, &steps()).unwrap().keep();
        assert_eq!(fs::read(top.join("a")).unwrap(), b"b");
        assert_eq!(fs::metadata(top.join("a")).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(fs::read_link(top.join("d")).unwrap(), Path::new("a"));
        assert_eq!(fs::read(top.join("new/deep/file")).unwrap(), b"x");
        assert_eq!(fs::read_dir(&top).unwrap().count(), 3);
    }

    #[test]
    fn what_is_not_kept_or_fails_half_way_leaves_no_trace() {
        for fails in [false, true] {
            let (_dir, top) = tree();
            let mut steps = steps();
            if fails {
                // Not what was read: the user was quicker.
                steps.push(step("a", blob("100644", "other"), blob("100644", "c")));
            }
            let written = Written::write(&top, &steps);
            assert_eq!(written.is_err(), fails);
            drop(written);
            assert_eq!(fs::read(top.join("a")).unwrap(), b"a");
            assert_eq!(fs::metadata(top.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
            assert_eq!(fs::read(top.join("d/gone")).unwrap(), b"gone");
            assert_eq!(fs::read_dir(&top).unwrap().count(), 2, "{fails}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_written_over() {
        let (_dir, top) = tree();
        fs::write(top.join("d/users"), "x").unwrap();
        let steps = steps();
        let written = Written::write(&top, &steps);
        assert!(matches!(written, Err(ApplyError::Conflicts(paths)) if paths == ["d"]));
        assert_eq!(fs::read_dir(top.join("d")).unwrap().count(), 2);
    }
}
