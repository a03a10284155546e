//! Output in a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Sink;
use crate::child::modes;

/// Writes the first bytes to a file and counts the rest. A disk that is full does not disturb the child.
#[derive(Debug)]
pub struct LogFile {
    file: Place,
    room: u64,
    written: u64,
    left_out: u64,
    error: Option<io::Error>,
}

#[derive(Debug)]
enum Place {
    Open(File),
    /// Made with the first byte: a program that says nothing leaves no file.
    At(PathBuf),
}

impl LogFile {
    pub fn new(file: File, cap: u64) -> Self {
        Self::of(Place::Open(file), cap)
    }

    /// Logs to a file that must not be there yet, and is there once there is something to log.
    pub fn at(path: PathBuf, cap: u64) -> Self {
        Self::of(Place::At(path), cap)
    }

    fn of(file: Place, cap: u64) -> Self {
        Self { file, room: cap, written: 0, left_out: 0, error: None }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if let Place::At(path) = &self.file {
            self.file = Place::Open(create(path)?);
        }
        match &mut self.file {
            Place::Open(file) => Ok(file),
            Place::At(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns how many bytes are not in the file, for whichever reason.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the error that ended the writing.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Writes what it can of these bytes, and remembers why it is not all.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && self.error.is_none() {
            match self.file().and_then(|file| file.write(rest)) {
                Ok(0) => self.error = Some(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.error = Some(error),
            }
        }
        bytes.len() - rest.len()
    }
}

/// Makes the file, also in a directory that the program has closed before it said anything.
fn create(path: &Path) -> io::Result<File> {
    let create = || File::options().write(true).create_new(true).open(path);
    match (create(), path.parent()) {
        (Err(error), Some(dir)) if error.kind() == io::ErrorKind::PermissionDenied => {
            modes::mend_one(dir);
            create()
        }
        (created, _) => created,
    }
}

impl Sink for LogFile {
    fn take(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        let written = self.write(&bytes[..fits]);
        self.room -= written as u64;
        self.written += written as u64;
        self.left_out += (bytes.len() - written) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_beginning_and_the_rest_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = LogFile::new(File::create(&path).unwrap(), 5);
        for piece in ["abc", "defg", "h"] {
            log.take(piece.as_bytes());
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), "abcde");
        assert_eq!((log.written(), log.left_out(), log.error().is_none()), (5, 3, true));
    }

    #[test]
    fn silence_leaves_no_file_and_a_file_that_is_there_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = LogFile::at(path.clone(), 5);
        log.end();
        assert!(!path.exists());
        log.take(b"abc");
        log.take(b"de");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "abcde");
        let mut other = LogFile::at(path.clone(), 5);
        other.take(b"xyz");
        assert_eq!((other.left_out(), std::fs::read_to_string(&path).unwrap().as_str()), (3, "abcde"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_remembered() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut log = LogFile::new(full, 100);
        log.take(b"abc");
        log.take(b"def");
        assert_eq!((log.written(), log.left_out()), (0, 6));
        assert_eq!(log.error().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
