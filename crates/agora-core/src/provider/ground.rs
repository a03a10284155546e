//! Where workspaces come from, and where the work goes when it is done.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Unavailable;
use crate::ground::{Ground, GroundRequest};
use crate::id::{DispatchId, ThreadId};
use crate::job::Job;
use crate::stale::Difference;
use crate::wire::manifest::WorkspaceAt;
use crate::wire::report::Report;

/// Why nothing was taken.
#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    /// What was named cannot be worked on.
    #[error("{what}")]
    Refused { what: String, hint: Option<String> },
    /// A program that is needed is not there, or did not do its work.
    #[error("{what}")]
    Git { what: String, hint: Option<String> },
    #[error(transparent)]
    Unavailable(Unavailable),
}

/// How the work of a dispatch came home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CameHome {
    /// The ref in the source's repository that has the work.
    pub git_ref: Option<String>,
    pub commit: Option<String>,
    /// How many commits of the agent's own are in it.
    pub own_commits: u64,
    /// Something was in the way that may go: trying again can bring it.
    pub unfinished: bool,
    pub warnings: Vec<String>,
}

/// How much was swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroundsSwept {
    pub bases: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// Takes grounds, keeps them while their thread is there, and brings work home.
///
/// Every implementation keeps true: the source is only read, but for the refs of a thread; taking and bringing home may be
/// interrupted at any moment and done again.
#[async_trait]
pub trait Grounds: fmt::Debug + Send + Sync {
    /// Takes the source as it is now. `None` for an empty one.
    async fn take(&self, request: &GroundRequest, thread: &ThreadId) -> Result<Option<Ground>, GroundError>;

    /// Says where a worker finds it.
    fn locate(&self, ground: &Ground, job: &Job) -> Result<WorkspaceAt, Unavailable>;

    /// Brings the work of a dispatch home, as far as there is a home. Again is no error, and changes nothing.
    async fn bring_home(&self, job: &Job, report: &Report) -> Result<(), Unavailable>;

    /// Returns how it came home, if it did.
    async fn came_home(
        &self,
        thread: &ThreadId,
        dispatch: &DispatchId,
    ) -> Result<Option<CameHome>, Unavailable>;

    /// Returns, for each of some grounds and their threads, what of its source is another now. Cheap, and only what can be told for
    /// certain: what cannot be looked at has not moved.
    async fn moved(&self, of: &[(ThreadId, Ground)]) -> Vec<Vec<Difference>>;

    /// Takes a thread's ground away. Again is no error.
    async fn forget(&self, thread: &ThreadId) -> Result<(), Unavailable>;

    /// Takes away bases that no thread needs and that are not the newest of their source, and what was taken for threads that
    /// never came to be.
    async fn sweep(&self, unknown: &[ThreadId], really: bool) -> Result<GroundsSwept, Unavailable>;

    /// Returns every thread that has a ground.
    async fn list(&self) -> Result<Vec<ThreadId>, Unavailable>;
}
