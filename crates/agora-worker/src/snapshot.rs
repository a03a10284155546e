//! A whole tree in one stream: the workspace as an agent left it, or the files of its session.
//!
//! The tree is the agent's. Links are kept as links and never followed, what is neither file, directory nor link is
//! passed over, and there is a cap. Unpacking makes directories, then files, then links, so that nothing is ever
//! written through a link.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use tar::{Builder, EntryType, Header};

/// How much of a tree is kept.
#[derive(Clone, Copy, Debug)]
pub struct Cap {
    pub bytes: u64,
    pub entries: u64,
}

/// A workspace: the cap that the design names.
pub const WORKSPACE: Cap = Cap { bytes: 1024 * 1024 * 1024, entries: 1_000_000 };
/// A session: a long one has some megabytes.
pub const SESSION: Cap = Cap { bytes: 256 * 1024 * 1024, entries: 10_000 };

/// Why a tree was not kept, or not put back.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("it has more than {} MiB or {} entries", cap.bytes >> 20, cap.entries)]
    TooLarge { cap: Cap },
    #[error("`{path}` holds no path that could be put back")]
    Path { path: PathBuf },
    #[error("`{path}` could not be handled")]
    Io { path: PathBuf, source: io::Error },
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_owned();
    move |source| SnapshotError::Io { path, source }
}

/// Writes everything below `root` that `wanted` lets in. It gets paths from the root; a directory that it refuses is not
/// entered.
pub fn pack<W: Write>(
    root: &Path,
    cap: Cap,
    wanted: &dyn Fn(&Path) -> bool,
    into: W,
) -> Result<W, SnapshotError> {
    let mut packer = Packer { root, cap, wanted, builder: Builder::new(into), bytes: 0, entries: 0 };
    packer.builder.mode(tar::HeaderMode::Complete);
    packer.directory(Path::new(""))?;
    packer.builder.into_inner().map_err(at(root))
}

struct Packer<'a, W: Write> {
    root: &'a Path,
    cap: Cap,
    wanted: &'a dyn Fn(&Path) -> bool,
    builder: Builder<W>,
    bytes: u64,
    entries: u64,
}

impl<W: Write> Packer<'_, W> {
    fn directory(&mut self, below: &Path) -> Result<(), SnapshotError> {
        let path = self.root.join(below);
        let mut names: Vec<_> = fs::read_dir(&path)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect())
            .map_err(at(&path))?;
        names.sort();
        names.iter().try_for_each(|name| self.entry(&below.join(name)))
    }

    fn entry(&mut self, below: &Path) -> Result<(), SnapshotError> {
        if !(self.wanted)(below) {
            return Ok(());
        }
        let path = self.root.join(below);
        let data = fs::symlink_metadata(&path).map_err(at(&path))?;
        let kind = data.file_type();
        let size = if kind.is_file() { data.len() } else { 0 };
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.cap.bytes || self.entries > self.cap.entries {
            return Err(SnapshotError::TooLarge { cap: self.cap });
        }
        let mut header = Header::new_gnu();
        header.set_mode(data.permissions().mode() & 0o7777);
        header.set_mtime(u64::try_from(data.mtime()).unwrap_or(0));
        header.set_size(0);
        if kind.is_dir() {
            header.set_entry_type(EntryType::Directory);
            self.builder.append_data(&mut header, below, io::empty()).map_err(at(&path))?;
            self.directory(below)
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(at(&path))?;
            header.set_entry_type(EntryType::Symlink);
            self.builder.append_link(&mut header, below, target).map_err(at(&path))
        } else if kind.is_file() {
            self.file(below, &path, header)
        } else {
            Ok(())
        }
    }

    fn file(&mut self, below: &Path, path: &Path, mut header: Header) -> Result<(), SnapshotError> {
        let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let file = File::options().read(true).custom_flags(nofollow).open(path).map_err(at(path))?;
        let size = file.metadata().map_err(at(path))?.len();
        header.set_entry_type(EntryType::Regular);
        header.set_size(size);
        // Exactly as much as was announced: a file that still grows, or shrank, does not spoil the stream.
        let exact = file.take(size).chain(io::repeat(0)).take(size);
        self.builder.append_data(&mut header, below, exact).map_err(at(path))
    }
}

/// Puts a tree back below `root`, which must be empty.
pub fn unpack(from: impl Read, cap: Cap, root: &Path) -> Result<(), SnapshotError> {
    let mut archive = tar::Archive::new(from);
    let (mut bytes, mut entries) = (0_u64, 0);
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut modes: Vec<(PathBuf, u32)> = Vec::new();
    for entry in archive.entries().map_err(at(root))? {
        let mut entry = entry.map_err(at(root))?;
        let below = entry.path().map_err(at(root))?.into_owned();
        let path = root.join(plain(&below)?);
        entries += 1;
        bytes = bytes.saturating_add(entry.size());
        if bytes > cap.bytes || entries > cap.entries {
            return Err(SnapshotError::TooLarge { cap });
        }
        let mode = entry.header().mode().map_err(at(&path))? & 0o7777;
        match entry.header().entry_type() {
            EntryType::Directory => {
                fs::create_dir(&path).map_err(at(&path))?;
                // Set last: a directory that may not be written must be filled first.
                modes.push((path, mode));
            }
            EntryType::Symlink => {
                let target = entry.link_name().map_err(at(&path))?;
                let target = target.ok_or_else(|| SnapshotError::Path { path: below.clone() })?;
                links.push((path, target.into_owned()));
            }
            EntryType::Regular => {
                let mut file = File::options().write(true).create_new(true).open(&path).map_err(at(&path))?;
                io::copy(&mut entry, &mut file).map_err(at(&path))?;
                file.set_permissions(fs::Permissions::from_mode(mode)).map_err(at(&path))?;
                let mtime = entry.header().mtime().unwrap_or(0);
                let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(mtime);
                file.set_modified(then).map_err(at(&path))?;
            }
            _ => return Err(SnapshotError::Path { path: below }),
        }
    }
    for (path, target) in links {
        symlink(target, &path).map_err(at(&path))?;
    }
    for (path, mode) in modes.into_iter().rev() {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(at(&path))?;
    }
    Ok(())
}

/// Takes a path that stays below the root.
pub(crate) fn plain(below: &Path) -> Result<&Path, SnapshotError> {
    let normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    let wrong = below == OsStr::new("") || !below.components().all(normal);
    if wrong { Err(SnapshotError::Path { path: below.to_owned() }) } else { Ok(below) }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
