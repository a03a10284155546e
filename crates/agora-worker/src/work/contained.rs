//! What a worker does first in a container, where nobody prepared its streams.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::stdio::{dup2_stderr, dup2_stdout};

/// Lets this process's words go to the files that the engine reads.
pub(super) fn enter(dir: Option<PathBuf>) -> io::Result<()> {
    let dir = dir.ok_or_else(|| io::Error::other("`AGORA_DISPATCH_DIR` is not set"))?;
    let (events, words) = (dir.join("out/events.jsonl"), dir.join("out/worker.stderr"));
    dup2_stdout(open(&events)?)?;
    dup2_stderr(open(&words)?)?;
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    let no_follow = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
    let options = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(no_follow).open(path);
    let file =
        options.map_err(|error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display())))?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other(format!("`{}` is not a regular file", path.display())))
    }
}
