//! Finds an adapter's program, and refuses one that somebody else could have put there.
//!
//! It is read whole, once, from the file that was checked: what runs later are these bytes. So neither a swap after the
//! check nor a setup script changes it, and what is behind the wall need not see where it was installed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agora_core::Name;
use agora_core::limits::CAPABILITY_BYTES;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

/// The bytes of a program.
#[derive(Clone)]
pub(super) struct Program(Arc<[u8]>);

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} bytes)", self.0.len())
    }
}

impl Program {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Why an adapter is there and does not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("`{}` {wrong}", path.display())]
    Installed { path: PathBuf, wrong: Wrong },
    #[error("`{path}` of the capability `{capability}` {wrong}")]
    Packed { path: String, capability: Name, wrong: Wrong },
}

/// What is wrong, and what mends it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("is a symbolic link: put there what it points to")]
    Link,
    #[error("is not a directory")]
    NotADirectory,
    #[error("is not a regular file")]
    NotAFile,
    #[error("belongs to the user {0}: it must be root's, or the worker's own")]
    Owner(u32),
    #[error("can be written by its group or by others: `chmod go-w` it")]
    Writable,
    #[error("is not executable: `chmod +x` it")]
    NotExecutable,
    #[error("has more than {} MiB", CAPABILITY_BYTES >> 20)]
    TooLarge,
    #[error("is neither a program nor a script: a script begins with `#!` and the path of what runs it")]
    NotAProgram,
    #[error("cannot be read: {0}")]
    Io(io::Error),
}

/// Reads an adapter that was installed in a directory, if there is one of that name.
pub(super) fn installed(dir: &Path, name: &Name) -> Result<Option<Program>, Unfit> {
    let path = dir.join(name.as_str());
    let unfit = |path: &Path, wrong| Unfit::Installed { path: path.to_owned(), wrong };
    // By its components: with a slash at its end, a link would be followed.
    let plain: PathBuf = dir.components().collect();
    let Some((opened, about_dir)) = open(CWD, &plain).map_err(|wrong| unfit(dir, wrong))? else {
        return Ok(None);
    };
    if FileType::from_raw_mode(about_dir.st_mode) != FileType::Directory {
        return Err(unfit(dir, Wrong::NotADirectory));
    }
    let Some((file, about)) = open(&opened, name.as_str()).map_err(|wrong| unfit(&path, wrong))? else {
        return Ok(None);
    };
    check_owner(&about_dir).map_err(|wrong| unfit(dir, wrong))?;
    check_file(&about)
        .and_then(|()| read(file))
        .and_then(program)
        .map(Some)
        .map_err(|wrong| unfit(&path, wrong))
}

/// Takes an adapter from a capability. Its bytes were checked, and what mode they have there does not matter.
pub(super) fn packed(path: &str, capability: &Name, bytes: Vec<u8>) -> Result<Program, Unfit> {
    let unfit = |wrong| Unfit::Packed { path: path.to_owned(), capability: capability.clone(), wrong };
    program(bytes).map_err(unfit)
}

/// Opens what is at a path and looks at it. No link is followed, and nobody waits for a FIFO's other end.
fn open(dir: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> Result<Option<(File, Stat)>, Wrong> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(dir, path, flags, Mode::empty()) {
        Ok(opened) => {
            let about = fstat(&opened).map_err(|error| Wrong::Io(error.into()))?;
            Ok(Some((File::from(opened), about)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP) => Err(Wrong::Link),
        // What a socket says.
        Err(Errno::NXIO) => Err(Wrong::NotAFile),
        Err(error) => Err(Wrong::Io(error.into())),
    }
}

fn check_owner(about: &Stat) -> Result<(), Wrong> {
    if about.st_uid != rustix::process::geteuid().as_raw() && about.st_uid != 0 {
        Err(Wrong::Owner(about.st_uid))
    } else if about.st_mode & 0o022 != 0 {
        Err(Wrong::Writable)
    } else {
        Ok(())
    }
}

fn check_file(about: &Stat) -> Result<(), Wrong> {
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(Wrong::NotAFile);
    }
    check_owner(about)?;
    if about.st_mode & 0o111 == 0 { Err(Wrong::NotExecutable) } else { Ok(()) }
}

/// Reads as much as a capability could bring.
fn read(file: File) -> Result<Vec<u8>, Wrong> {
    let mut bytes = Vec::new();
    file.take(CAPABILITY_BYTES + 1).read_to_end(&mut bytes).map_err(Wrong::Io)?;
    if bytes.len() as u64 > CAPABILITY_BYTES { Err(Wrong::TooLarge) } else { Ok(bytes) }
}

/// Says now what the kernel would say as "exec format error".
fn program(bytes: Vec<u8>) -> Result<Program, Wrong> {
    let runs = bytes.starts_with(b"#!") || bytes.starts_with(b"\x7fELF");
    if runs { Ok(Program(bytes.into())) } else { Err(Wrong::NotAProgram) }
}
