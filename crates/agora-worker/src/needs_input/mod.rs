//! How an agent asks: it is taught to write a file, and whatever it wrote is read without trusting it.

pub(crate) mod file;
pub(crate) mod resume;
pub(crate) mod teach;

use std::fs;
use std::io;
use std::path::Path;

use agora_core::limits::SENTINEL_BYTES;
use agora_core::question::Question;
use agora_core::sentinel::{self, Malformed};

use crate::archive;
use crate::child::modes;
use file::Found;

/// Agora's own directory in a workspace.
pub(crate) const DIR: &str = ".agora";

/// Why what is at the sentinel's place is no question. Says what is wrong, and never quotes it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("`{path}` is {0}, not a regular file", path = sentinel::PATH)]
    NotAFile(&'static str),
    #[error("`{path}` is malformed: {0}", path = sentinel::PATH)]
    Malformed(Malformed),
    #[error("the question in the agent's output is malformed: {0}")]
    Output(Malformed),
    #[error("the state file that the agent named is {0}, not a regular file in the workspace")]
    StateFile(&'static str),
    #[error("`{path}` could not be read: {0}", path = sentinel::PATH)]
    Io(io::Error),
}

/// Reads the sentinel, if there is one.
pub(crate) fn read_sentinel(workspace: &Path) -> Result<Option<Question>, Unreadable> {
    match file::read(workspace, Path::new(sentinel::PATH), SENTINEL_BYTES).map_err(Unreadable::Io)? {
        Found::Nothing => Ok(None),
        Found::NotAFile(what) => Err(Unreadable::NotAFile(what)),
        Found::Bytes(bytes) => sentinel::parse(&bytes).map(Some).map_err(Unreadable::Malformed),
    }
}

/// Makes agora's directory anew, with nothing of an earlier question in it: neither a capability, nor a setup script, nor
/// the agent's own past may ask in its name.
pub(crate) fn clear(workspace: &Path) -> io::Result<()> {
    reopen(workspace);
    let dir = workspace.join(DIR);
    match fs::symlink_metadata(&dir) {
        Ok(data) if data.is_dir() => {}
        Ok(_) => {
            fs::remove_file(&dir)?;
            fs::create_dir(&dir)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(&dir)?,
        Err(error) => return Err(error),
    }
    for name in ["needs_input.json", "resume.json", "input.json", "channel", "control"] {
        archive::remove(&dir.join(name))?;
    }
    Ok(())
}

/// Opens the workspace and agora's directory in it again, for a worker that has the account that has closed them.
pub(crate) fn reopen(workspace: &Path) {
    modes::mend_one(workspace);
    modes::mend_all(&workspace.join(DIR));
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
