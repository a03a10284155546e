//! Where the bytes of bundles are kept.

use std::fmt;

use async_trait::async_trait;

use super::Unavailable;
use crate::hash::ContentHash;

/// What bytes are stored under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlobKey {
    /// The bytes with this hash.
    Blob(ContentHash),
    /// The files of the bundle with this hash, one after another in the order of its manifest.
    Pack(ContentHash),
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blob(hash) => write!(f, "blob {hash}"),
            Self::Pack(hash) => write!(f, "pack {hash}"),
        }
    }
}

/// Says why bytes could not be stored or had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the {0} is not in the store")]
    NotFound(BlobKey),
    /// The bytes are not what was stored.
    #[error("the {0} is not what was stored: its hash does not match")]
    Altered(BlobKey),
    #[error("the {key} has {size} bytes, more than the {limit} that it may have")]
    TooLarge { key: BlobKey, size: u64, limit: u64 },
    #[error(transparent)]
    Unavailable(Unavailable),
}

/// Keeps bytes. Not trusted: [`crate::blobs::Blobs`] checks every byte that comes back.
///
/// Every implementation keeps true: after `put` returns, the bytes survive a crash of the machine; at no moment does
/// `get` return a part of them; putting the same key again, also from another process at the same time, is no error,
/// and mends a stored copy that was damaged.
#[async_trait]
pub trait BlobStore: fmt::Debug + Send + Sync {
    /// Stores bytes durably.
    async fn put(&self, key: BlobKey, bytes: Vec<u8>) -> Result<(), StoreError>;

    /// Returns what is stored, unless it is larger than `limit`, in which case nothing of it is read.
    async fn get(&self, key: BlobKey, limit: u64) -> Result<Vec<u8>, StoreError>;
}
