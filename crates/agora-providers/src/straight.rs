//! Opening what somebody else may have made, by a true path: a link on the way, which leads wherever its maker likes, is not followed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

/// Opens a file, without waiting for whoever may be at the other end of a pipe. `None`: there is none.
pub(crate) fn file(path: &Path) -> io::Result<Option<File>> {
    let file = match open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(told(path, error)),
    };
    if !file.metadata()?.is_file() {
        return Err(strange(format!("`{}` is no file", path.display())));
    }
    Ok(Some(file))
}

/// Reads a whole file, unless it is larger than `limit`. `None`: there is none.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = file(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let why = format!("`{}` has more than {limit} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(Some(bytes))
}

/// Lists a directory: each name with what is there.
pub(crate) fn list(path: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    let opened = open(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|error| told(path, error))?;
    let mut dir = Dir::new(opened)?;
    let mut found = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        let kind = match entry.file_type() {
            FileType::Unknown => match statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(_) => continue,
            },
            kind => kind,
        };
        if !matches!(name.to_bytes(), b"." | b"..") {
            found.push((OsString::from_vec(name.to_bytes().to_vec()), kind));
        }
    }
    Ok(found)
}

fn told(path: &Path, error: Errno) -> io::Error {
    let name = path.display();
    match error {
        Errno::LOOP => {
            strange(format!("`{name}` is a link, or lies behind one, which agora does not follow there"))
        }
        error => error.into(),
    }
}

/// Says that something is not what it should be, whoever looks.
fn strange(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Some sandboxes do not know the call, or do not allow it.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => step_by_step(path, flags | OFlags::NOFOLLOW),
        opened => opened,
    }
}

fn step_by_step(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let start = if path.is_absolute() { "/" } else { "." };
    let mut here = openat(CWD, start, way, Mode::empty())?;
    let mut steps = path.components().filter(|step| !matches!(step, Component::RootDir)).peekable();
    while let Some(step) = steps.next() {
        let flags = if steps.peek().is_some() { way } else { flags };
        here = openat(&here, step.as_os_str(), flags, Mode::empty()).map_err(|error| {
            // The kernel calls a link that is to be a directory what it is not.
            let is_link = || {
                let stat = statat(&here, step.as_os_str(), AtFlags::SYMLINK_NOFOLLOW);
                stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
            };
            if error == Errno::NOTDIR && is_link() { Errno::LOOP } else { error }
        })?;
    }
    Ok(here)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed_and_no_pipe_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(top.join("in")).unwrap();
        fs::write(top.join("in/plain"), "text").unwrap();
        symlink("in", top.join("way")).unwrap();
        symlink("plain", top.join("in/link")).unwrap();
        let fifo = FileType::Fifo;
        rustix::fs::mknodat(CWD, top.join("fifo"), fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read(&top.join("in/plain"), 4).unwrap().as_deref(), Some(&b"text"[..]));
        assert_eq!(read(&top.join("in/none"), 4).unwrap(), None);
        assert_eq!(read(&top.join("in/plain"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        for path in ["in/link", "way/plain", "fifo", "in"] {
            assert_eq!(read(&top.join(path), 9).unwrap_err().kind(), io::ErrorKind::InvalidData, "{path}");
        }
        let mut listed = list(&top.join("in")).unwrap();
        listed.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(listed, [("link".into(), FileType::Symlink), ("plain".into(), FileType::RegularFile)]);
        assert_eq!(list(&top.join("way")).unwrap_err().kind(), io::ErrorKind::InvalidData);
        for (path, error) in [("way/plain", Errno::LOOP), ("in/link", Errno::LOOP), ("in/none", Errno::NOENT)]
        {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
            assert_eq!(step_by_step(&top.join(path), flags).unwrap_err(), error, "{path}");
        }
    }
}
