//! Reading what a worker left, which may be anything: a link to elsewhere, a pipe that nobody writes to, a file without end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// How much of the lines is read at a time.
const PIECE: usize = 64 * 1024;
/// A call's lines end within this, unless its first line alone is longer.
pub(crate) const LINES_BYTES: u64 = 16 * 1024 * 1024;
/// No line is longer: a program's output is capped at 4 MiB, of which JSON can make six times as much.
const LINE_BYTES: u64 = 64 * 1024 * 1024;

/// What is under a name.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    /// Not a regular file that we may read.
    Strange,
    File(File),
}

/// Opens a file without following a link to it, and without waiting for whoever may be at the other end of a pipe.
pub(crate) fn open(path: &Path) -> io::Result<Found> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        Err(Errno::LOOP | Errno::NXIO | Errno::ACCESS | Errno::NODEV) => return Ok(Found::Strange),
        Err(error) => return Err(error.into()),
    };
    Ok(if file.metadata()?.is_file() { Found::File(file) } else { Found::Strange })
}

/// Reads a text whole. Whatever is there and is no text of at most so many bytes reads as the empty one, which nothing
/// accepts: it is malformed, and no reason to ask again.
pub(crate) fn text(path: &Path, most: u64) -> io::Result<Option<String>> {
    let file = match open(path)? {
        Found::Nothing => return Ok(None),
        Found::Strange => return Ok(Some(String::new())),
        Found::File(file) => file,
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Ok(Some(String::new()));
    }
    Ok(Some(String::from_utf8(bytes).unwrap_or_default()))
}

/// Reads the whole lines after the first `from` bytes.
///
/// Its length is that of the bytes, which is how a reader knows where it is: a byte that belongs to no text is a `?`.
pub(crate) fn lines(path: &Path, from: u64) -> io::Result<String> {
    let Found::File(file) = open(path)? else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    let mut whole = 0;
    let mut piece = vec![0; PIECE];
    loop {
        let had = bytes.len() as u64;
        if had >= LINES_BYTES && whole > 0 {
            break;
        }
        if had >= LINE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a line is longer than any worker's"));
        }
        let read = match file.read_at(&mut piece, from.saturating_add(had)) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if let Some(last) = piece[..read].iter().rposition(|byte| *byte == b'\n') {
            whole = bytes.len() + last + 1;
        }
        bytes.extend_from_slice(&piece[..read]);
    }
    bytes.truncate(whole);
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| same_length(error.as_bytes())))
}

fn same_length(bytes: &[u8]) -> String {
    bytes.utf8_chunks().fold(String::with_capacity(bytes.len()), |mut text, chunk| {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
        text
    })
}

/// Reads a piece of a file. `None`: there is none that can be read.
pub(crate) fn piece(path: &Path, from: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
    let Found::File(mut file) = open(path)? else { return Ok(None) };
    // Behind the end there is nothing, also where no file could ever reach: there the kernel refuses to look.
    if from >= file.metadata()?.len() {
        return Ok(Some(Vec::new()));
    }
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Tells whether a whole line follows the first `from` bytes.
pub(crate) fn has_line(path: &Path, from: u64) -> io::Result<bool> {
    let Found::File(file) = open(path)? else { return Ok(false) };
    let mut piece = vec![0; PIECE];
    let mut at = from;
    loop {
        match file.read_at(&mut piece, at) {
            Ok(0) => return Ok(false),
            Ok(read) if piece[..read].contains(&b'\n') => return Ok(true),
            Ok(read) => at += read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_whole_lines_and_every_byte_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        assert_eq!(lines(&path, 0).unwrap(), "");
        fs::write(&path, b"one\ntw\xffo\nthr").unwrap();
        assert_eq!(lines(&path, 0).unwrap(), "one\ntw?o\n");
        assert_eq!(lines(&path, 4).unwrap(), "tw?o\n");
        assert_eq!(lines(&path, 9).unwrap(), "");
        assert_eq!(lines(&path, 1000).unwrap(), "", "a file that became shorter has nothing more");
        assert!(has_line(&path, 4).unwrap() && !has_line(&path, 9).unwrap());
    }

    #[test]
    fn behind_the_end_there_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert_eq!(piece(&path, 0, 10).unwrap(), None);
        fs::write(&path, "0123456789").unwrap();
        let read = |from: u64| piece(&path, from, 5).unwrap().unwrap();
        assert_eq!((read(0), read(8)), (b"01234".to_vec(), b"89".to_vec()));
        for behind in [10, 11, u64::MAX] {
            assert_eq!(read(behind), b"", "{behind}");
        }
    }

    #[test]
    fn one_call_returns_so_much_and_a_long_line_is_still_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let line = format!("{}\n", "x".repeat(1 << 20));
        fs::write(&path, line.repeat(20)).unwrap();
        let first = lines(&path, 0).unwrap();
        assert!(first.len() as u64 <= LINES_BYTES + PIECE as u64 && first.len() > 15 << 20);
        assert_eq!(lines(&path, first.len() as u64).unwrap().len() + first.len(), 20 * line.len());
        let long = format!("{}\n", "x".repeat(20 << 20));
        fs::write(&path, &long).unwrap();
        assert_eq!(lines(&path, 0).unwrap().len(), long.len());
        File::create(&path).unwrap().set_len(LINE_BYTES + 1).unwrap();
        assert_eq!(lines(&path, 0).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_is_no_file_reads_as_what_nothing_accepts() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("plain"), "text").unwrap();
        symlink("plain", path("link")).unwrap();
        symlink("nowhere", path("broken")).unwrap();
        fs::create_dir(path("dir")).unwrap();
        fs::write(path("bytes"), b"\xff").unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, path("fifo"), fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for name in ["link", "broken", "dir", "fifo", "socket", "bytes"] {
            assert_eq!(text(&path(name), 10).unwrap().as_deref(), Some(""), "{name}");
            assert_eq!(lines(&path(name), 0).unwrap(), "", "{name}");
        }
        assert_eq!(text(&path("plain"), 4).unwrap().as_deref(), Some("text"));
        assert_eq!(text(&path("plain"), 3).unwrap().as_deref(), Some(""), "too long");
        assert_eq!(text(&path("none"), 3).unwrap(), None);
    }
}
