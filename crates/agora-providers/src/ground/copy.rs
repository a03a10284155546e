//! Copies single things of a source, which may change or vanish meanwhile.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use agora_core::ground::has_agent;
use agora_core::wall::AGENT_ID;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, fstat, futimens, openat, statat, utimensat,
};
use rustix::io::Errno;

use super::index::{Entry, Kind};
use super::pick::{Picker, SMALL};
use super::walk::entry_of;
use crate::content;

/// How often a file is copied that changes while it is copied. Then what was read counts.
const ROUNDS: u32 = 3;

/// What became of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// It is there, and looked like this when it was read.
    Copied(Entry),
    /// It could be a secret, or is closed to us.
    LeftOut(Entry),
    /// It is gone, or of another kind by now.
    Gone,
}

/// Who owns what is copied: whoever runs behind the wall, when we are root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner(Option<u32>);

impl Owner {
    pub(super) fn of_this_process() -> Self {
        let known = || fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| has_agent(&map));
        Self((rustix::process::geteuid().is_root() && known()).then_some(AGENT_ID))
    }

    pub(super) fn set(self, path: &Path) -> io::Result<()> {
        self.0.map_or(Ok(()), |id| lchown(path, Some(id), Some(id)))
    }
}

/// Takes what stands at a path, to a path where nothing is.
pub(super) fn take(from: &Path, to: &Path, entry: &Entry, picker: &Picker, owner: Owner) -> io::Result<Took> {
    match entry.kind {
        Kind::Directory => {
            directory(to, entry.mode, owner)?;
            Ok(Took::Copied(entry.clone()))
        }
        Kind::Link => link(from, to, entry, owner),
        Kind::File => file(from, to, entry, picker, owner),
    }
}

/// Makes a directory, which its owner can fill.
pub(super) fn directory(to: &Path, mode: u32, owner: Owner) -> io::Result<()> {
    match fs::create_dir(to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    fs::set_permissions(to, Permissions::from_mode(mode | 0o700))?;
    owner.set(to)
}

fn link(from: &Path, to: &Path, entry: &Entry, owner: Owner) -> io::Result<Took> {
    let Ok(target) = fs::read_link(from) else { return Ok(Took::Gone) };
    symlink(target, to)?;
    owner.set(to)?;
    let stamps = times(entry);
    utimensat(CWD, to, &stamps, AtFlags::SYMLINK_NOFOLLOW)?;
    let now = statat(CWD, from, AtFlags::SYMLINK_NOFOLLOW);
    Ok(Took::Copied(
        now.map_or_else(|_| entry.clone(), |stat| entry_of(entry.path.clone(), Kind::Link, &stat)),
    ))
}

fn times(entry: &Entry) -> Timestamps {
    let (seconds, rest) =
        (entry.mtime_ns.div_euclid(1_000_000_000), entry.mtime_ns.rem_euclid(1_000_000_000));
    let then = Timespec { tv_sec: seconds, tv_nsec: rest };
    Timestamps { last_access: then, last_modification: then }
}

fn file(from: &Path, to: &Path, entry: &Entry, picker: &Picker, owner: Owner) -> io::Result<Took> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Not even the time of reading is changed, where that is ours to say.
    let opened = match openat(CWD, from, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => openat(CWD, from, flags, Mode::empty()),
        opened => opened,
    };
    let mut source = match opened.map(File::from) {
        Ok(source) => source,
        Err(Errno::ACCESS) => return Ok(Took::LeftOut(Entry { kept: false, ..entry.clone() })),
        Err(_) => return Ok(Took::Gone),
    };
    let mut round = 1;
    loop {
        let before = entry_of(entry.path.clone(), Kind::File, &fstat(&source)?);
        if FileType::from_raw_mode(fstat(&source)?.st_mode) != FileType::RegularFile {
            return Ok(Took::Gone);
        }
        if picker.doubts(&before) {
            let mut content = Vec::new();
            (&source).take(SMALL + 1).read_to_end(&mut content)?;
            if !Picker::clears(&content) {
                return Ok(Took::LeftOut(Entry { kept: false, ..before }));
            }
            // What was cleared is what is copied.
            let mut target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
            target.write_all(&content)?;
            finish(&target, &before, owner)?;
        } else {
            let target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
            content::copy(&source, &target)?;
            finish(&target, &before, owner)?;
        }
        let after = entry_of(entry.path.clone(), Kind::File, &fstat(&source)?);
        if after == before || round == ROUNDS {
            return Ok(Took::Copied(before));
        }
        fs::remove_file(to)?;
        source.rewind()?;
        round += 1;
    }
}

/// Gives a copy its owner, its mode and its time. The mode last: an owner that changes takes bits of it away.
fn finish(target: &File, entry: &Entry, Owner(owner): Owner) -> io::Result<()> {
    if let Some(id) = owner {
        std::os::unix::fs::fchown(target, Some(id), Some(id))?;
    }
    // Set-user-id would be somebody else's by now; and its owner must be able to read it.
    target.set_permissions(Permissions::from_mode(entry.mode & 0o777 | 0o400))?;
    Ok(futimens(target, &times(entry))?)
}

/// Copies a file of agora's own making.
pub(super) fn plain(from: &Path, to: &Path, owner: Owner) -> io::Result<()> {
    opened(&File::open(from)?, to, owner)
}

/// Copies a file that is open.
pub(super) fn opened(source: &File, to: &Path, owner: Owner) -> io::Result<()> {
    let meta = source.metadata()?;
    let target = File::options().write(true).create_new(true).mode(0o644).open(to)?;
    content::copy(source, &target)?;
    if let Ok(time) = meta.modified() {
        target.set_modified(time)?;
    }
    drop(target);
    match owner.0 {
        Some(id) => chown(to, Some(id), Some(id)),
        None => Ok(()),
    }
}
