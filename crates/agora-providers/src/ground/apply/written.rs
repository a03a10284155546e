//! Files of the user's tree, written all together or not at all.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Who may use what comes, if that is not who might use what is there.
    pub(super) access: Option<Permissions>,
}

/// What was written so far. Unless it is kept, all of it is taken back.
#[derive(Debug)]
pub(super) struct Written<'a> {
    top: &'a Path,
    /// With who might use what was there.
    done: Vec<(&'a Step, Option<Permissions>)>,
    /// Directories that were not there before.
    made: Vec<PathBuf>,
    /// Empty ones that made room, with who might use them.
    emptied: Vec<(PathBuf, Permissions)>,
    kept: bool,
}

impl<'a> Written<'a> {
    /// Writes everything, unless somebody wants it stopped: then nothing.
    pub(super) fn write(top: &'a Path, steps: &'a [Step], stop: &AtomicBool) -> Result<Self, ApplyError> {
        let mut written = Self { top, done: Vec::new(), made: Vec::new(), emptied: Vec::new(), kept: false };
        // What goes makes room for what comes.
        let (come, go): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.new.is_some());
        for step in go.into_iter().chain(come) {
            if stop.load(Ordering::Relaxed) {
                return Err(ApplyError::Interrupted);
            }
            let shown = || String::from_utf8_lossy(&step.path).into_owned();
            let failed = |error: io::Error| match error.kind() {
                // Somebody put something else there, after it was read.
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                    ApplyError::Conflicts(vec![shown()])
                }
                _ => ApplyError::Git(format!("`{}` could not be written: {error}", shown())),
            };
            written.make_room(step);
            if !written.is_as_read(step).map_err(failed)? {
                return Err(ApplyError::Conflicts(vec![shown()]));
            }
            let access = access(&at(top, &step.path));
            written.done.push((step, access.clone()));
            written.put(&step.path, step.new.as_ref(), step.access.clone().or(access)).map_err(failed)?;
        }
        Ok(written)
    }

    /// Lets it stay. Git knows no empty directories: those that are by now go, too.
    pub(super) fn keep(mut self) {
        self.kept = true;
        for dir in self.left() {
            let _ = fs::remove_dir(at(self.top, &dir));
        }
    }

    /// Returns the directories that files went from, the innermost first.
    fn left(&self) -> impl Iterator<Item = PathBytes> + use<> {
        let gone = self.done.iter().filter(|(step, _)| step.new.is_none());
        let dirs: BTreeSet<PathBytes> =
            gone.flat_map(|(step, _)| above(&step.path)).map(<[u8]>::to_vec).collect();
        dirs.into_iter().rev()
    }

    /// Takes away directories that everything went from and that a file comes in the place of.
    fn make_room(&mut self, step: &Step) {
        let is_dir = |dir: &Path| fs::symlink_metadata(dir).ok().filter(fs::Metadata::is_dir);
        if step.new.is_none() || is_dir(&at(self.top, &step.path)).is_none() {
            return;
        }
        let below = [&step.path[..], b"/"].concat();
        for dir in self.left().filter(|dir| *dir == step.path || dir.starts_with(&below)) {
            let dir = at(self.top, &dir);
            if let Some(data) = is_dir(&dir)
                && fs::remove_dir(&dir).is_ok()
            {
                self.emptied.push((dir, data.permissions()));
            }
        }
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
            return fs::remove_file(&file);
        };
        for above in above(path) {
            let dir = at(self.top, above);
            match fs::create_dir(&dir) {
                Ok(()) => self.made.push(dir),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let beside = beside(&file, &std::process::id().to_string());
        let placed = stage(&beside, blob, access).and_then(|()| fs::rename(&beside, &file));
        if placed.is_err() {
            let _ = fs::remove_file(&beside);
        }
        placed
    }
}

/// Names the file that becomes another one, in a process.
pub(super) fn beside(file: &Path, pid: &str) -> PathBuf {
    file.with_file_name(format!(".agora-{pid}"))
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
        for (dir, access) in &self.emptied {
            let _ = fs::create_dir(dir);
            let _ = fs::set_permissions(dir, access.clone());
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
        Step { path: path.into(), old, new, access: None }
    }

    static GO_ON: AtomicBool = AtomicBool::new(false);

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().to_owned();
        fs::create_dir(top.join("d")).unwrap();
        fs::write(top.join("d/gone"), "gone").unwrap();
        fs::write(top.join("a"), "a").unwrap();
        fs::set_permissions(top.join("a"), Permissions::from_mode(0o640)).unwrap();
        fs::create_dir(top.join("e")).unwrap();
        fs::write(top.join("e/old"), "old").unwrap();
        for dir in ["d", "e"] {
            fs::set_permissions(top.join(dir), Permissions::from_mode(0o710)).unwrap();
        }
        (dir, top)
    }

    fn steps() -> Vec<Step> {
        vec![
            step("d", None, blob(LINK, "a")),
            step("d/gone", blob("100644", "gone"), None),
            step("a", blob("100644", "a"), blob("100755", "b")),
            step("new/deep/file", None, blob("100644", "x")),
            step("e/old", blob("100644", "old"), None),
            step("e/new", None, blob("100644", "new")),
        ]
    }

    #[test]
    fn everything_is_written_and_who_may_read_it_stays() {
        let (_dir, top) = tree();
        Written::write(&top, &steps(), &GO_ON).unwrap().keep();
        assert_eq!(fs::read(top.join("a")).unwrap(), b"b");
        assert_eq!((mode(&top.join("a")), mode(&top.join("e"))), (0o750, 0o710));
        assert_eq!(fs::read_link(top.join("d")).unwrap(), Path::new("a"));
        assert_eq!(fs::read(top.join("new/deep/file")).unwrap(), b"x");
        assert_eq!(fs::read_dir(&top).unwrap().count(), 4);
        // What is empty by now goes.
        let steps = [step("new/deep/file", blob("100644", "x"), None)];
        Written::write(&top, &steps, &GO_ON).unwrap().keep();
        assert!(!top.join("new").exists());
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
            let written = Written::write(&top, &steps, &GO_ON);
            assert_eq!(written.is_err(), fails);
            drop(written);
            assert_eq!(fs::read(top.join("a")).unwrap(), b"a");
            let modes = ["a", "d", "e"].map(|path| mode(&top.join(path)));
            assert_eq!(modes, [0o640, 0o710, 0o710]);
            assert_eq!(fs::read(top.join("d/gone")).unwrap(), b"gone");
            assert_eq!(fs::read_dir(&top).unwrap().count(), 3, "{fails}");
        }
    }

    #[test]
    fn whoever_wants_it_stopped_finds_nothing_written() {
        let (_dir, top) = tree();
        let steps = steps();
        let stopped = Written::write(&top, &steps, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(ApplyError::Interrupted)));
        assert_eq!(fs::read(top.join("a")).unwrap(), b"a");
    }

    #[test]
    fn what_is_no_file_is_not_written_over() {
        let (_dir, top) = tree();
        fs::write(top.join("d/users"), "x").unwrap();
        let steps = steps();
        let written = Written::write(&top, &steps, &GO_ON);
        assert!(matches!(written, Err(ApplyError::Conflicts(paths)) if paths == ["d"]));
        assert_eq!(fs::read_dir(top.join("d")).unwrap().count(), 2);
    }
}
