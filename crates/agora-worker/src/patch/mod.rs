//! What an agent changed, as a patch that `git apply` takes.
//!
//! A [`Baseline`] is the workspace as it was before the agent started. Later the workspace is walked again, and what
//! differs is written down. All of it is made in process: no git program runs, and nothing of the workspace's git
//! configuration, hooks, filters or attributes counts. In reading order: `root` and `walk` look at the workspace,
//! `ignored` knows what is no part of it, `baseline` remembers, `compare` finds what differs, `source` what all of it stands on,
//! `write` with `rename`, `moved`, `section`, `text`, `binary` and `hide` writes it, `carry` and `resume` take a baseline
//! across a pause, `spared` says what a snapshot can do without.

mod among;
mod baseline;
mod binary;
mod carry;
mod compare;
mod entry;
mod hide;
mod ignored;
mod left_out;
mod moved;
mod name;
mod rename;
mod resume;
pub(crate) mod root;
mod section;
mod source;
mod spared;
mod text;
mod walk;
mod write;

use std::io;

pub use among::Among;
pub use baseline::{Baseline, Known, KnownFile};
pub use entry::Fingerprint;
pub use left_out::{LeftOut, Why};
pub use resume::CarriedError;
pub use source::Source;
pub(crate) use spared::{Spare, Spared};

/// Reads a file below a root, with no link on the way, if it has at most `most` bytes.
pub(crate) fn read_below(root: &std::path::Path, path: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let (file, stat) = root::Root::open(root)?.file(path)?;
    root::read_up_to(&file, &stat, most).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// A larger file, on either side, is left out: two of them are in memory at once.
pub const FILE_BYTES: u64 = 64 << 20;

/// A patch has at most as many bytes as this; what does not fit is left out.
pub const PATCH_BYTES: u64 = 256 << 20;

/// What was written, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchSummary {
    /// How many files the patch changes.
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
    pub bytes: u64,
    /// The files that a secret was found in, as the patch writes their names, whether they are in the patch or left
    /// out.
    pub redacted_files: Vec<String>,
    /// The files that a capability or the setup script had changed before the agent did, with only the agent's changes in the patch.
    pub merged: Vec<String>,
    /// Those that are in the patch as they ended, because the two could not be told apart.
    pub whole: Vec<String>,
    pub left_out: Vec<LeftOut>,
    /// How many more were left out than are listed.
    pub left_out_more: u64,
}

/// Why there is no baseline, or no patch.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error("could not open the workspace")]
    Root { source: io::Error },
    #[error("the workspace has more files than a baseline holds")]
    TooManyFiles,
    #[error("could not keep or read back the original files")]
    Spool { source: io::Error },
    #[error("could not write the patch")]
    Write { source: io::Error },
    #[error("could not write what goes across the pause")]
    Carry { source: io::Error },
    #[error("what came across the pause cannot be read")]
    Carried { source: CarriedError },
}
