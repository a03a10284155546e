//! Where a dispatch's files are: what its worker is given, and what it leaves.

use std::fmt;

use async_trait::async_trait;

use super::Unavailable;
use super::blob::BlobKey;
use super::compute::Sight;
use crate::id::DispatchId;
use crate::wire::bootstrap::ManifestAt;
use crate::wire::manifest::{DispatchManifest, Location};

/// Who ended a dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concluded {
    Ours,
    /// Somebody else did before, with this text.
    Theirs(String),
}

/// How much of a dispatch is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// The workspace, and whatever else only the run itself needed.
    Workspace,
    /// That, and what the thread would go on with: its sealed workspace and conversation.
    Snapshots,
    /// What the worker was given and left, too.
    Everything,
}

/// Keeps a place for each dispatch.
///
/// Every implementation keeps true: an outcome is stored once, whole, and everybody reads the same one; what a worker left
/// is not trusted: only regular files, and never more of them than their cap; clearing what is gone is no error.
#[async_trait]
pub trait Shelf: fmt::Debug + Send + Sync {
    /// Says where a worker finds bytes of the store.
    fn stored(&self, key: BlobKey) -> Result<Location, Unavailable>;

    /// Says where a worker finds a file that an earlier dispatch left.
    fn left(&self, dispatch: &DispatchId, path: &str) -> Result<Location, Unavailable>;

    /// Makes a dispatch's place, with its manifest in it, and for a worker that sees nothing else with everything that the manifest
    /// names. What the manifest says of places, and what is returned, is as the worker sees it. Making it again is no error.
    async fn stage(&self, manifest: &DispatchManifest, sight: &Sight) -> Result<ManifestAt, Unavailable>;

    /// Returns what the worker has said after the first `from` bytes, in whole lines.
    async fn lines(&self, dispatch: &DispatchId, from: u64) -> Result<String, Unavailable>;

    /// Returns when there may be more than so many bytes of lines.
    async fn more_lines(&self, dispatch: &DispatchId, from: u64) -> Result<(), Unavailable>;

    /// Returns the terminal line that is stored, if one is.
    async fn outcome(&self, dispatch: &DispatchId) -> Result<Option<String>, Unavailable>;

    /// Stores a terminal line, unless there is one.
    async fn conclude(&self, dispatch: &DispatchId, line: &str) -> Result<Concluded, Unavailable>;

    /// Returns the worker's report, if it left one.
    async fn report(&self, dispatch: &DispatchId) -> Result<Option<String>, Unavailable>;

    /// Returns up to `most` bytes of a file that the worker left, from a place on. `None`: there is none that can be read.
    async fn read(
        &self,
        dispatch: &DispatchId,
        path: &str,
        from: u64,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Unavailable>;

    async fn clear(&self, dispatch: &DispatchId, what: Clearing) -> Result<(), Unavailable>;

    /// Returns how many bytes are taken by what [`Self::clear`] would take away.
    async fn size(&self, dispatch: &DispatchId, what: Clearing) -> Result<u64, Unavailable>;

    /// Returns every dispatch that has a place, in order.
    async fn list(&self) -> Result<Vec<DispatchId>, Unavailable>;
}
