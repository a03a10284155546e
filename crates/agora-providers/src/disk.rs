//! The few operations that change the directory. Everything durable is built from these, so that a test can stop the
//! world, or fill the disk, after each of them in turn.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

/// Changes files. Reading needs no seam: it cannot leave anything half done.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes a directory, for this user only; that it exists already is no error.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// Writes a new file, for this user only, and waits until its bytes are on the disk.
    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file end at `offset`, writes there, and waits until the bytes are on the disk.
    fn write_tail(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Gives a file its final name, in place of what had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file one more name, which nothing may have.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Waits until a directory's names are on the disk.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The real thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            other => other,
        }
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn write_tail(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.set_len(offset)?;
        file.write_all_at(bytes, offset)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}
