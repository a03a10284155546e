//! Where the versions of names are kept.

use std::fmt;

use async_trait::async_trait;

use super::Unavailable;
use crate::bundle::BundleKind;
use crate::hash::ContentHash;
use crate::name::{Name, Namespace};
use crate::time::Timestamp;

/// Whose, of which kind, by which name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryKey {
    pub namespace: Namespace,
    pub kind: BundleKind,
    pub name: Name,
}

impl fmt::Display for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}

/// One version of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Counted from 1 without gaps.
    pub seq: u64,
    pub content_hash: ContentHash,
    /// Never earlier than the version before it, whatever the clock did.
    pub registered_at: Timestamp,
}

/// Says why a version could not be added or had.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Somebody else was first; look again and decide again.
    #[error("another version of the name was registered meanwhile")]
    Moved,
    /// The registry's own files are not as it wrote them.
    #[error("the registry file `{file}` is damaged: {why}")]
    Damaged { file: String, why: String },
    #[error(transparent)]
    Unavailable(Unavailable),
}

/// Keeps an append-only list of versions for each name.
///
/// Every implementation keeps true: a version that `append` returned from is never lost or changed; of several
/// appends with the same expectation, in any number of processes, one succeeds; `latest` costs the same however many
/// versions there are; a crash at any moment leaves the state before or after an append.
#[async_trait]
pub trait Registry: fmt::Debug + Send + Sync {
    async fn latest(&self, key: &RegistryKey) -> Result<Option<Version>, RegistryError>;

    /// Returns every version, oldest first; none for a name that does not exist.
    async fn versions(&self, key: &RegistryKey) -> Result<Vec<Version>, RegistryError>;

    /// Returns every name of a kind with its latest version, ordered by name.
    async fn names(
        &self,
        namespace: &Namespace,
        kind: BundleKind,
    ) -> Result<Vec<(Name, Version)>, RegistryError>;

    /// Adds a version after exactly the one that the caller saw as the latest: `version.seq` is one more than that,
    /// or 1 for a new name. Else nothing changes and the error is [`RegistryError::Moved`].
    async fn append(&self, key: &RegistryKey, version: Version) -> Result<(), RegistryError>;
}
