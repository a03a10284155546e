//! Nobody in a story works on anything: workspaces begin empty. And nobody registers anything: names mean nothing.

use agora_core::ground::{Ground, GroundRequest};
use agora_core::job::Job;
use agora_core::provider::Unavailable;
use agora_core::provider::ground::{CameHome, GroundError, Grounds, GroundsSwept};
use agora_core::provider::registry::{Registry, RegistryError, RegistryKey, Version};
use agora_core::stale::Difference;
use agora_core::wire::manifest::WorkspaceAt;
use agora_core::wire::report::Report;
use agora_core::{BundleKind, DispatchId, Name, Namespace, ThreadId};
use async_trait::async_trait;

#[derive(Debug)]
pub(crate) struct NoGrounds;

#[async_trait]
impl Grounds for NoGrounds {
    async fn take(&self, request: &GroundRequest, _thread: &ThreadId) -> Result<Option<Ground>, GroundError> {
        assert_eq!(*request, GroundRequest::Empty);
        Ok(None)
    }

    fn locate(&self, _ground: &Ground, job: &Job) -> Result<WorkspaceAt, Unavailable> {
        unreachable!("`{}` has no ground", job.dispatch_id)
    }

    async fn bring_home(&self, _job: &Job, _report: &Report) -> Result<(), Unavailable> {
        Ok(())
    }

    async fn came_home(&self, _: &ThreadId, _: &DispatchId) -> Result<Option<CameHome>, Unavailable> {
        Ok(None)
    }

    async fn moved(&self, of: &[(ThreadId, Ground)]) -> Vec<Vec<Difference>> {
        of.iter().map(|_| Vec::new()).collect()
    }

    async fn forget(&self, _thread: &ThreadId) -> Result<(), Unavailable> {
        Ok(())
    }

    async fn sweep(&self, _unknown: &[ThreadId], _really: bool) -> Result<GroundsSwept, Unavailable> {
        Ok(GroundsSwept::default())
    }

    async fn list(&self) -> Result<Vec<ThreadId>, Unavailable> {
        Ok(Vec::new())
    }
}

#[derive(Debug)]
pub(crate) struct NoNames;

#[async_trait]
impl Registry for NoNames {
    async fn latest(&self, _key: &RegistryKey) -> Result<Option<Version>, RegistryError> {
        Ok(None)
    }

    async fn versions(&self, _key: &RegistryKey) -> Result<Vec<Version>, RegistryError> {
        Ok(Vec::new())
    }

    async fn names(&self, _: &Namespace, _: BundleKind) -> Result<Vec<(Name, Version)>, RegistryError> {
        Ok(Vec::new())
    }

    async fn append(&self, _key: &RegistryKey, _version: Version) -> Result<(), RegistryError> {
        Err(RegistryError::Moved)
    }
}
