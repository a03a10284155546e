//! What changed, in one stream: whatever stands at each of some paths, and where nothing stands any more.
//!
//! The tree is the agent's, as in `snapshot`: links are kept as links and never followed, and there is a cap. What is gone is a
//! device with the numbers 0 and 0, as in every overlay.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use tar::{Builder, EntryType, Header};

use super::give_away;
use super::lay::remove;
use crate::patch::Among;
use crate::snapshot::{Cap, SnapshotError, at, plain};

/// Writes what stands at the paths of a tree.
pub(crate) fn pack<W: Write>(tree: &Path, paths: &Among, cap: Cap, into: W) -> Result<W, SnapshotError> {
    let mut builder = Builder::new(into);
    builder.mode(tar::HeaderMode::Complete);
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    for path in paths.paths() {
        let below = Path::new(OsStr::from_bytes(path));
        let full = tree.join(below);
        entries += 1;
        let data = match fs::symlink_metadata(&full) {
            Ok(data) => Some(data),
            Err(error) if is_absence(&error) => None,
            Err(error) => return Err(at(&full)(error)),
        };
        bytes =
            bytes.saturating_add(data.as_ref().filter(|data| data.is_file()).map_or(0, fs::Metadata::len));
        if bytes > cap.bytes || entries > cap.entries {
            return Err(SnapshotError::TooLarge { cap });
        }
        let mut header = Header::new_gnu();
        header.set_size(0);
        let Some(data) = data else {
            // What lies in a directory that is gone is gone with it; and nothing lies beneath a link.
            if parent_is_dir(tree, below) {
                header.set_entry_type(EntryType::Char);
                header.set_mode(0);
                builder.append_data(&mut header, below, io::empty()).map_err(at(&full))?;
            }
            continue;
        };
        if !parent_is_dir(tree, below) {
            continue;
        }
        header.set_mode(data.mode() & 0o7777);
        header.set_mtime(u64::try_from(data.mtime()).unwrap_or(0));
        if data.is_dir() {
            header.set_entry_type(EntryType::Directory);
            builder.append_data(&mut header, below, io::empty()).map_err(at(&full))?;
        } else if data.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            let target = fs::read_link(&full).map_err(at(&full))?;
            builder.append_link(&mut header, below, target).map_err(at(&full))?;
        } else if data.is_file() {
            let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
            let file = File::options().read(true).custom_flags(nofollow).open(&full).map_err(at(&full))?;
            let size = file.metadata().map_err(at(&full))?.len();
            header.set_entry_type(EntryType::Regular);
            header.set_size(size);
            // Exactly as much as was announced.
            let exact = file.take(size).chain(io::repeat(0)).take(size);
            builder.append_data(&mut header, below, exact).map_err(at(&full))?;
        }
    }
    builder.into_inner().map_err(at(tree))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Tells whether the directory of a path is one, all the way from the root.
fn parent_is_dir(tree: &Path, below: &Path) -> bool {
    let mut way = tree.to_owned();
    below.parent().into_iter().flat_map(Path::components).all(|part| {
        way.push(part);
        fs::symlink_metadata(&way).is_ok_and(|data| data.is_dir())
    })
}

/// Puts what changed back, over what did not.
pub(crate) fn unpack(from: impl Read, cap: Cap, root: &Path) -> Result<(), SnapshotError> {
    let mut archive = tar::Archive::new(from);
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut modes: Vec<(PathBuf, u32)> = Vec::new();
    let mut checked = BTreeSet::new();
    for entry in archive.entries().map_err(at(root))? {
        let mut entry = entry.map_err(at(root))?;
        let below = entry.path().map_err(at(root))?.into_owned();
        let path = root.join(plain(&below)?);
        entries += 1;
        bytes = bytes.saturating_add(entry.size());
        if bytes > cap.bytes || entries > cap.entries {
            return Err(SnapshotError::TooLarge { cap });
        }
        make_way(root, &below, &mut checked).map_err(at(&path))?;
        let mode = entry.header().mode().map_err(at(&path))? & 0o7777;
        match entry.header().entry_type() {
            EntryType::Char => {
                remove(&path).map_err(at(&path))?;
                checked.clear();
            }
            EntryType::Directory => {
                directory(&path).map_err(at(&path))?;
                modes.push((path, mode));
            }
            EntryType::Symlink => {
                let target = entry.link_name().map_err(at(&path))?;
                let target = target.ok_or_else(|| SnapshotError::Path { path: below.clone() })?;
                remove(&path).map_err(at(&path))?;
                links.push((path, target.into_owned()));
            }
            EntryType::Regular => {
                remove(&path).map_err(at(&path))?;
                let mut file = File::options().write(true).create_new(true).open(&path).map_err(at(&path))?;
                io::copy(&mut entry, &mut file).map_err(at(&path))?;
                give_away(&path).map_err(at(&path))?;
                file.set_permissions(Permissions::from_mode(mode)).map_err(at(&path))?;
                let then = std::time::Duration::from_secs(entry.header().mtime().unwrap_or(0));
                file.set_modified(std::time::UNIX_EPOCH + then).map_err(at(&path))?;
            }
            _ => return Err(SnapshotError::Path { path: below }),
        }
    }
    for (path, target) in links {
        symlink(target, &path).and_then(|()| give_away(&path)).map_err(at(&path))?;
    }
    for (path, mode) in modes.into_iter().rev() {
        // What was a directory may have become something else by a later entry.
        if fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir()) {
            fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// Makes the directories down to a path, each in place of whatever else has its name: nothing is written through a link.
fn make_way(root: &Path, below: &Path, checked: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let Some(parent) = below.parent().filter(|parent| !checked.contains(*parent)) else { return Ok(()) };
    let mut way = root.to_owned();
    for part in parent.components().filter(|part| matches!(part, Component::Normal(_))) {
        way.push(part);
        directory(&way)?;
    }
    checked.insert(parent.to_owned());
    Ok(())
}

fn directory(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => {
            // A closed one must be filled first.
            let mode = data.permissions().mode();
            if mode & 0o700 == 0o700 {
                Ok(())
            } else {
                fs::set_permissions(path, Permissions::from_mode(mode | 0o700))
            }
        }
        Ok(_) => fs::remove_file(path).and_then(|()| directory(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir(path).and_then(|()| give_away(path))
        }
        Err(error) => Err(error),
    }
}
