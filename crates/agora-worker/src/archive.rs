//! Files in one stream, and back: what `snapshot` keeps of a tree, and what `room` keeps of what changed in one.
//!
//! The tree is the agent's. Links are kept as links and never followed, what is neither file, directory nor link is
//! passed over, and there is a cap. Nothing is ever written through a link: links are made last.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use agora_core::ground::has_agent;
use agora_core::wall::AGENT_ID;
use rustix::fs::{FileType, Stat};
use tar::{Builder, Entry, EntryType, Header};

use crate::child::modes;
use crate::patch::root::Root;

/// How much of a tree is kept.
#[derive(Clone, Copy, Debug)]
pub struct Cap {
    pub bytes: u64,
    pub entries: u64,
}

/// Why a tree was not kept, or not put back.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("it has more than {} MiB or {} entries", cap.bytes >> 20, cap.entries)]
    TooLarge { cap: Cap },
    #[error("`{}` holds no path that could be put back", shown(path))]
    Path { path: PathBuf },
    #[error("`{}` could not be handled", shown(path))]
    Io { path: PathBuf, source: io::Error },
}

impl From<SnapshotError> for io::Error {
    fn from(error: SnapshotError) -> Self {
        let kind = match &error {
            SnapshotError::Io { source, .. } => source.kind(),
            SnapshotError::TooLarge { .. } | SnapshotError::Path { .. } => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// The characters of a path in a message, at each end.
const SHOWN: usize = 60;

/// Writes a path for a person, in one line. The agent made it: it may be as long as paths get, and its middle tells the least.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy().replace(char::is_control, "\u{fffd}");
    let characters = text.chars().count();
    if characters <= 2 * SHOWN {
        return text;
    }
    let end = text.chars().skip(characters - SHOWN);
    text.chars().take(SHOWN).chain(['…']).chain(end).collect()
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_owned();
    move |source| SnapshotError::Io { path, source }
}

/// What went through a stream so far, beside its cap.
struct Tally {
    cap: Cap,
    bytes: u64,
    entries: u64,
}

impl Tally {
    fn new(cap: Cap) -> Self {
        Self { cap, bytes: 0, entries: 0 }
    }

    fn add(&mut self, bytes: u64) -> Result<(), SnapshotError> {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let fits = self.bytes <= self.cap.bytes && self.entries <= self.cap.entries;
        if fits { Ok(()) } else { Err(SnapshotError::TooLarge { cap: self.cap }) }
    }
}

/// Writes files of a tree into a stream. All of it is reached from the open root: no link leads out of it, whenever it was made.
pub(crate) struct Packer<'a, W: Write> {
    root: &'a Root,
    builder: Builder<W>,
    tally: Tally,
}

impl<'a, W: Write> Packer<'a, W> {
    pub(crate) fn new(root: &'a Root, cap: Cap, into: W) -> Self {
        let mut builder = Builder::new(into);
        builder.mode(tar::HeaderMode::Complete);
        Self { root, builder, tally: Tally::new(cap) }
    }

    /// Writes what stands at a path, without what stands below it.
    pub(crate) fn put(&mut self, below: &Path, stat: &Stat) -> Result<(), SnapshotError> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        self.tally.add(if kind == FileType::RegularFile { size } else { 0 })?;
        let mut header = Header::new_gnu();
        header.set_mode(stat.st_mode & 0o7777);
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
        header.set_size(0);
        match kind {
            FileType::Directory => {
                header.set_entry_type(EntryType::Directory);
                self.builder.append_data(&mut header, below, io::empty())
            }
            FileType::Symlink => self.link(below, header),
            FileType::RegularFile => self.file(below, header),
            _ => Ok(()),
        }
        .map_err(at(below))
    }

    fn link(&mut self, below: &Path, mut header: Header) -> io::Result<()> {
        let target = self.root.link(below.as_os_str().as_bytes())?;
        header.set_entry_type(EntryType::Symlink);
        self.builder.append_link(&mut header, below, OsStr::from_bytes(&target))
    }

    fn file(&mut self, below: &Path, mut header: Header) -> io::Result<()> {
        let (file, stat) = self.root.file(below.as_os_str().as_bytes())?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        header.set_entry_type(EntryType::Regular);
        header.set_size(size);
        // Exactly as much as was announced: a file that still grows, or shrank, does not spoil the stream.
        let exact = file.take(size).chain(io::repeat(0)).take(size);
        self.builder.append_data(&mut header, below, exact)
    }

    /// Writes that nothing stands at a path any more: a device with the numbers 0 and 0, as in every overlay.
    pub(crate) fn put_gone(&mut self, below: &Path) -> Result<(), SnapshotError> {
        self.tally.add(0)?;
        let mut header = Header::new_gnu();
        header.set_size(0);
        header.set_mode(0);
        header.set_entry_type(EntryType::Char);
        self.builder.append_data(&mut header, below, io::empty()).map_err(at(below))
    }

    pub(crate) fn finish(self) -> Result<W, SnapshotError> {
        self.builder.into_inner().map_err(at(Path::new(".")))
    }
}

/// What a stream is put back onto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onto {
    /// An empty directory: whatever has a name twice is refused, and so is what says that something is gone.
    Nothing,
    /// What did not change and is the agent's: whatever is there makes way.
    Tree,
}

impl Onto {
    fn give(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Tree => give_away(path),
        }
    }
}

/// Puts files back below `root`.
pub(crate) fn unpack(from: impl Read, cap: Cap, root: &Path, onto: Onto) -> Result<(), SnapshotError> {
    let mut archive = tar::Archive::new(from);
    let mut tally = Tally::new(cap);
    let mut unpacker = Unpacker { root, onto, ways: BTreeSet::new(), links: Vec::new(), modes: Vec::new() };
    for entry in archive.entries().map_err(at(root))? {
        let entry = entry.map_err(at(root))?;
        tally.add(entry.size())?;
        unpacker.put_back(entry)?;
    }
    unpacker.finish()
}

struct Unpacker<'a> {
    root: &'a Path,
    onto: Onto,
    /// Parents that are directories, all the way from the root.
    ways: BTreeSet<PathBuf>,
    links: Vec<(PathBuf, PathBuf)>,
    /// Set last: a directory that may not be written must be filled first.
    modes: Vec<(PathBuf, u32)>,
}

impl Unpacker<'_> {
    fn put_back(&mut self, entry: Entry<'_, impl Read>) -> Result<(), SnapshotError> {
        let below = entry.path().map_err(at(self.root))?.into_owned();
        let path = self.root.join(plain(&below)?);
        let mode = entry.header().mode().map_err(at(&path))? & 0o7777;
        let kind = entry.header().entry_type();
        if self.onto == Onto::Tree {
            self.make_way(&below).map_err(at(&path))?;
            if kind != EntryType::Directory {
                remove(&path).map_err(at(&path))?;
            }
        }
        match (kind, self.onto) {
            (EntryType::Char, Onto::Tree) => self.ways.clear(),
            (EntryType::Directory, onto) => {
                match onto {
                    Onto::Nothing => fs::create_dir(&path),
                    Onto::Tree => make_dir(&path),
                }
                .map_err(at(&path))?;
                self.modes.push((path, mode));
            }
            (EntryType::Symlink, _) => {
                let target = entry.link_name().map_err(at(&path))?;
                let target = target.ok_or_else(|| SnapshotError::Path { path: below.clone() })?;
                self.links.push((path, target.into_owned()));
            }
            (EntryType::Regular, _) => self.write_file(&path, entry, mode).map_err(at(&path))?,
            _ => return Err(SnapshotError::Path { path: below }),
        }
        Ok(())
    }

    /// Makes the directories down to a path, each in place of whatever else has its name.
    fn make_way(&mut self, below: &Path) -> io::Result<()> {
        let Some(parent) = below.parent().filter(|parent| !self.ways.contains(*parent)) else {
            return Ok(());
        };
        let mut way = self.root.to_owned();
        for part in parent.components().filter(|part| matches!(part, Component::Normal(_))) {
            way.push(part);
            make_dir(&way)?;
        }
        self.ways.insert(parent.to_owned());
        Ok(())
    }

    fn write_file(&self, path: &Path, mut entry: Entry<'_, impl Read>, mode: u32) -> io::Result<()> {
        let mut file = File::options().write(true).create_new(true).open(path)?;
        io::copy(&mut entry, &mut file)?;
        self.onto.give(path)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.set_modified(UNIX_EPOCH + Duration::from_secs(entry.header().mtime().unwrap_or(0)))
    }

    fn finish(self) -> Result<(), SnapshotError> {
        for (path, target) in self.links {
            symlink(target, &path).and_then(|()| self.onto.give(&path)).map_err(at(&path))?;
        }
        for (path, mode) in self.modes.into_iter().rev() {
            // What was a directory may have become something else by a later entry.
            if fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir()) {
                fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(at(&path))?;
            }
        }
        Ok(())
    }
}

/// Makes a directory that can be filled, in place of whatever else has its name.
fn make_dir(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => match data.permissions().mode() {
            mode if mode & 0o700 == 0o700 => Ok(()),
            mode => fs::set_permissions(path, Permissions::from_mode(mode | 0o700)),
        },
        Ok(_) => fs::remove_file(path).and_then(|()| make_dir(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir(path).and_then(|()| give_away(path))
        }
        Err(error) => Err(error),
    }
}

/// Makes the directories on the way down to a path. What programs behind the wall put in the way goes: nothing is made through a link.
pub(crate) fn make_way(root: &Path, below: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for part in below.components() {
        path.push(part);
        make_dir(&path)?;
    }
    Ok(())
}

/// Removes whatever has a name. Nothing need have it.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let done = match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => modes::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match done {
        Err(error) if is_absence(&error) => Ok(()),
        done => done,
    }
}

/// Tells whether nothing is there.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Takes a path that stays below the root.
fn plain(below: &Path) -> Result<&Path, SnapshotError> {
    let normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    let wrong = below == OsStr::new("") || !below.components().all(normal);
    if wrong { Err(SnapshotError::Path { path: below.to_owned() }) } else { Ok(below) }
}

/// Gives a file to whoever runs behind the wall, when this worker is root and there is such a user.
pub(crate) fn give_away(path: &Path) -> io::Result<()> {
    static KNOWN: LazyLock<bool> = LazyLock::new(|| {
        let known = || fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| has_agent(&map));
        rustix::process::geteuid().is_root() && known()
    });
    if *KNOWN {
        std::os::unix::fs::lchown(path, Some(AGENT_ID), Some(AGENT_ID))?;
    }
    Ok(())
}
