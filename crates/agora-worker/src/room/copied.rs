//! Layers by copying: the workspace is a copy, and what changed is found by looking.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{ioctl_ficlone, seek};
use rustix::io::Errno;

use super::lay::{Lower, Paths};
use crate::archive::{give_away, remove};

#[derive(Debug)]
pub(super) struct Copied {
    lower: Lower,
    dir: PathBuf,
    work: PathBuf,
    /// Whether the file system can share what two files have in common.
    clones: bool,
    /// Each with when it was done, by the clock that stamps files. What changed since then could look the same.
    frozen: Vec<(PathBuf, i128)>,
    /// When the workspace was filled.
    filled: i128,
}

impl Copied {
    pub(super) fn make(lower: Lower, dir: &Path, work: &Path) -> io::Result<Self> {
        let mut copied = Self {
            lower,
            dir: dir.to_owned(),
            work: work.to_owned(),
            clones: true,
            frozen: Vec::new(),
            filled: 0,
        };
        copied.fill()?;
        Ok(copied)
    }

    pub(super) fn via(&self) -> &'static str {
        if self.clones { "reflink" } else { "copy" }
    }

    /// Returns the trees that it was copied from, and what of them is not there.
    pub(super) fn made_from(&self) -> (&[PathBuf], &[PathBuf]) {
        (&self.lower.trees, &self.lower.gone)
    }

    pub(super) fn start_over(&mut self) -> io::Result<()> {
        for (frozen, _) in self.frozen.drain(..) {
            remove(&frozen)?;
        }
        for entry in fs::read_dir(&self.work)? {
            remove(&entry?.path())?;
        }
        self.fill()
    }

    fn fill(&mut self) -> io::Result<()> {
        give_away(&self.work)?;
        for tree in self.lower.trees.clone().iter().rev() {
            self.copy(tree, Path::new(""))?;
        }
        self.lower.remove_gone(&self.work)?;
        self.filled = self.now()?;
        Ok(())
    }

    /// Tells the time by the clock that stamps files.
    fn now(&self) -> io::Result<i128> {
        let probe = self.dir.join("clock");
        fs::write(&probe, b"")?;
        Ok(ctime(&fs::metadata(&probe)?))
    }

    /// Copies a tree over what is there. Nothing of the agent's is there yet.
    fn copy(&mut self, tree: &Path, at: &Path) -> io::Result<()> {
        for entry in fs::read_dir(tree.join(at))? {
            let entry = entry?;
            let (path, data) = (at.join(entry.file_name()), entry.metadata()?);
            let to = self.work.join(&path);
            let was_dir = fs::symlink_metadata(&to).is_ok_and(|there| there.is_dir());
            if !(was_dir && data.is_dir()) {
                remove(&to)?;
            }
            if data.is_dir() {
                if !was_dir {
                    fs::create_dir(&to)?;
                }
                give_away(&to)?;
                fs::set_permissions(&to, Permissions::from_mode(data.mode() & 0o7777))?;
                self.copy(tree, &path)?;
            } else {
                self.clones &= copy(&entry.path(), &to, &data)? != Way::Copied;
            }
        }
        Ok(())
    }

    /// Makes a tree of what is there now: links to the files that it was made from, copies of the others.
    pub(super) fn freeze(&mut self) -> io::Result<PathBuf> {
        let to = self.dir.join(format!("frozen-{}", self.frozen.len()));
        fs::create_dir(&to)?;
        let frozen = self.frozen.iter().rev().map(|(tree, since)| (tree.as_path(), *since));
        let lower = self.lower.trees.iter().map(|tree| (tree.as_path(), self.filled));
        freeze(&self.work, &to, &frozen.chain(lower).collect::<Vec<_>>(), Path::new(""))?;
        self.frozen.push((to.clone(), self.now()?));
        Ok(to)
    }

    pub(super) fn changed_since(&self, frozen: &Path) -> io::Result<Paths> {
        let mut paths = Paths::default();
        let since = self.frozen.iter().find(|(tree, _)| tree == frozen).map_or(0, |(_, since)| *since);
        let doubtful = |data: &Metadata| ctime(data) >= since;
        differ(&[frozen], Some(&self.work), Path::new(""), &doubtful, &mut paths)?;
        Ok(paths)
    }

    pub(super) fn changed_until(&self, frozen: &Path) -> io::Result<Paths> {
        let mut paths = Paths::default();
        let trees: Vec<&Path> = self.lower.trees.iter().map(PathBuf::as_path).collect();
        differ(&trees, Some(frozen), Path::new(""), &|_| false, &mut paths)?;
        Ok(paths)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Cloned,
    Copied,
    /// It has no content of its own.
    Linked,
}

fn copy(from: &Path, to: &Path, data: &Metadata) -> io::Result<Way> {
    if data.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
        give_away(to)?;
        return Ok(Way::Linked);
    }
    if !data.is_file() {
        return Ok(Way::Linked);
    }
    let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let source = File::options().read(true).custom_flags(nofollow).open(from)?;
    let target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    let cloned = content(&source, &target)?;
    give_away(to)?;
    target.set_permissions(Permissions::from_mode(data.mode() & 0o7777))?;
    target.set_modified(data.modified()?)?;
    Ok(if cloned { Way::Cloned } else { Way::Copied })
}

/// Copies what a file holds, and leaves holes where it has them. Tells whether both share it now.
fn content(source: &File, target: &File) -> io::Result<bool> {
    if ioctl_ficlone(target, source).is_ok() {
        return Ok(true);
    }
    let (mut from, mut to, data) = (source, target, source.metadata()?);
    // Nearly every file has no hole, and is not asked for one.
    if data.blocks().saturating_mul(512) < data.len() {
        return pieces(source, target).map(|()| false);
    }
    io::copy(&mut from, &mut to).map(|_| false)
}

/// Copies a file piece by piece, with nothing where it has nothing.
fn pieces(mut source: &File, mut target: &File) -> io::Result<()> {
    let mut at = 0;
    loop {
        let len = source.metadata()?.len();
        let start = match seek(source, rustix::fs::SeekFrom::Data(at)) {
            // Where nobody can tell, all of it is data.
            Err(Errno::INVAL | Errno::OPNOTSUPP) if at == 0 => {
                return io::copy(&mut source, &mut target).map(drop);
            }
            // To its end there is nothing any more.
            Err(Errno::NXIO) => return target.set_len(len),
            start => start?,
        };
        at = match seek(source, rustix::fs::SeekFrom::Hole(start)) {
            // It has become shorter.
            Err(Errno::NXIO) => start,
            end => end?,
        };
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut source.take(at - start), &mut target)?;
    }
}

fn freeze(work: &Path, to: &Path, known: &[(&Path, i128)], at: &Path) -> io::Result<()> {
    for entry in fs::read_dir(work.join(at))? {
        let entry = entry?;
        let (path, data) = (at.join(entry.file_name()), entry.metadata()?);
        let target = to.join(&path);
        if data.is_dir() {
            fs::create_dir(&target)?;
            freeze(work, to, known, &path)?;
            fs::set_permissions(&target, Permissions::from_mode(data.mode() & 0o7777 | 0o700))?;
            continue;
        }
        // The first that has the path decides: another below it is hidden.
        let there = known
            .iter()
            .find_map(|(tree, since)| Some((tree, since, fs::symlink_metadata(tree.join(&path)).ok()?)));
        let same = |(_, since, there): &(_, &i128, Metadata)| {
            data.is_file() && ctime(&data) < **since && alike(there, &data)
        };
        match there.filter(same) {
            Some((tree, ..)) if fs::hard_link(tree.join(&path), &target).is_ok() => {}
            _ => drop(copy(&entry.path(), &target, &data)?),
        }
    }
    Ok(())
}

/// Names every path at which two states differ, as far as looks tell.
fn differ(
    before: &[&Path],
    after: Option<&Path>,
    at: &Path,
    doubtful: &dyn Fn(&Metadata) -> bool,
    paths: &mut Paths,
) -> io::Result<()> {
    // What lies behind a link lies somewhere else.
    let is_no_link = |tree: &&Path| !fs::symlink_metadata(tree.join(at)).is_ok_and(|data| data.is_symlink());
    let before = &*before.iter().copied().filter(is_no_link).collect::<Vec<_>>();
    let after = after.filter(is_no_link);
    let mut was: BTreeMap<OsString, Metadata> = BTreeMap::new();
    for tree in before {
        for entry in paths.list(&tree.join(at))? {
            let data = entry.metadata()?;
            was.entry(entry.file_name()).or_insert(data);
        }
    }
    for entry in after.map(|after| paths.list(&after.join(at))).transpose()?.unwrap_or_default() {
        let (path, data) = (at.join(entry.file_name()), entry.metadata()?);
        let old = was.remove(&entry.file_name());
        let same = old.as_ref().is_some_and(|old| {
            alike(old, &data)
                && (data.is_dir() || !doubtful(&data))
                && same_target(before, &entry.path(), &path, &data)
        });
        if !same {
            paths.push(&path);
        }
        if data.is_dir() || old.is_some_and(|old| old.is_dir()) {
            differ(before, after, &path, doubtful, paths)?;
        }
    }
    for (name, old) in was {
        let path = at.join(name);
        paths.push(&path);
        if old.is_dir() {
            differ(before, after, &path, doubtful, paths)?;
        }
    }
    Ok(())
}

fn alike(one: &Metadata, other: &Metadata) -> bool {
    let looks = |data: &Metadata| (data.mode(), data.len(), data.mtime(), data.mtime_nsec());
    if one.is_dir() || one.is_symlink() {
        return one.file_type() == other.file_type() && (one.is_symlink() || one.mode() == other.mode());
    }
    looks(one) == looks(other)
}

fn same_target(before: &[&Path], now: &Path, path: &Path, data: &Metadata) -> bool {
    if !data.is_symlink() {
        return true;
    }
    let was = before.iter().find_map(|tree| fs::read_link(tree.join(path)).ok());
    was.is_some() && was == fs::read_link(now).ok()
}

fn ctime(data: &Metadata) -> i128 {
    i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec())
}
