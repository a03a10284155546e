//! Whole directories for a worker that sees only its own place: what a workspace is made from.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::content;

/// Where a repository says that it reads objects from other places.
const ALTERNATES: &str = "info/alternates";

/// Brings a directory with everything below it: linked where that works, else copied with modes and times. What is neither file,
/// directory nor link is nothing that a workspace is made from.
pub(super) fn bring(from: &Path, to: &Path, owner: Option<u32>) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            bring(&from, &to, owner)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_file() && (owner.is_some() || fs::hard_link(&from, &to).is_err()) {
            copy(&from, &to, owner)?;
        }
    }
    // Another user has to be able to go in.
    let more = if owner.is_some() { 0o555 } else { 0 };
    let mode = fs::metadata(from)?.permissions().mode() & 0o7777 | more;
    fs::set_permissions(to, PermissionsExt::from_mode(mode))
}

fn copy(from: &Path, to: &Path, owner: Option<u32>) -> io::Result<()> {
    let source = File::open(from)?;
    let about = source.metadata()?;
    // Another user has to be able to read it; whether it runs stays as it is.
    let more = if owner.is_some() { 0o444 } else { 0 };
    let mode = about.permissions().mode() & 0o777 | more;
    let file = File::options().write(true).create_new(true).mode(mode).open(to)?;
    content::copy(&source, &file)?;
    file.set_permissions(PermissionsExt::from_mode(mode))?;
    file.set_modified(about.modified()?)
}

/// Lets every repository of a ground borrow where its objects are now.
pub(super) fn lead_elsewhere(ground: &Path, moved: &[(PathBuf, PathBuf)]) -> io::Result<()> {
    for objects in repositories(&ground.join("files"))? {
        let path = objects.join(ALTERNATES);
        let Ok(lines) = fs::read(&path) else { continue };
        let now = |line: &[u8]| {
            let moved = moved.iter().find(|(from, _)| from.as_os_str().as_bytes() == line);
            moved.map_or(line, |(_, to)| to.as_os_str().as_bytes()).to_vec()
        };
        let text = lines.split(|byte| *byte == b'\n').map(now).collect::<Vec<_>>().join(&b'\n');
        // Not written to: it may be a link to the one that others use.
        fs::remove_file(&path)?;
        let mut file = File::options().write(true).create_new(true).mode(0o444).open(&path)?;
        io::Write::write_all(&mut file, &text)?;
    }
    Ok(())
}

/// Returns the directories of objects of every repository below a directory: submodules have their own.
fn repositories(files: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut left) = (Vec::new(), vec![files.to_owned()]);
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let path = entry.path();
            if path.join(ALTERNATES).is_file() {
                found.push(path);
            } else if entry.file_type()?.is_dir() {
                left.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_brought_as_it_is_and_borrows_where_its_objects_are_now() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        let info = from.join("files/sub/.git/objects/info");
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("alternates"), "/old/objects\n/other\n").unwrap();
        fs::write(from.join("files/tool"), "x").unwrap();
        fs::set_permissions(from.join("files/tool"), PermissionsExt::from_mode(0o700)).unwrap();
        fs::set_permissions(&from, PermissionsExt::from_mode(0o700)).unwrap();
        symlink("tool", from.join("files/link")).unwrap();
        for owner in [None, Some(61_000)] {
            let to = dir.path().join(format!("{owner:?}"));
            bring(&from, &to, owner).unwrap();
            lead_elsewhere(&to, &[("/old/objects".into(), "/new".into())]).unwrap();
            let kept = fs::read_to_string(to.join("files/sub/.git/objects/info/alternates")).unwrap();
            assert_eq!(kept, "/new\n/other\n");
            assert_eq!(fs::read_link(to.join("files/link")).unwrap(), Path::new("tool"));
            let mode = fs::metadata(to.join("files/tool")).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if owner.is_some() { 0o744 } else { 0o700 });
            let mode = fs::metadata(&to).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if owner.is_some() { 0o755 } else { 0o700 });
        }
        let own = fs::read_to_string(info.join("alternates")).unwrap();
        assert_eq!(own, "/old/objects\n/other\n", "what others use stays as it is");
    }
}
