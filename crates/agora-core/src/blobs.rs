//! The checked door to blob storage: the only way the rest of the program reads a bundle.

use std::sync::Arc;

use crate::bundle::{Bundle, Capability, Encoded, Manifest, ManifestError};
use crate::hash::ContentHash;
use crate::limits::{CAPABILITY_BYTES, MANIFEST_BYTES};
use crate::provider::blob::{BlobKey, BlobStore, StoreError};

/// Reads and writes bundles, and checks every byte that is read.
#[derive(Clone, Debug)]
pub struct Blobs {
    store: Arc<dyn BlobStore>,
}

/// A capability's files, checked, one after another in the order of its manifest.
#[derive(Clone, PartialEq, Eq)]
pub struct Pack(Vec<u8>);

impl std::fmt::Debug for Pack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pack({} bytes)", self.0.len())
    }
}

/// Says why a bundle could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the bundle {hash} cannot be read")]
    Store {
        hash: ContentHash,
        #[source]
        source: StoreError,
    },
    #[error("the bundle {hash} is malformed")]
    Manifest {
        hash: ContentHash,
        #[source]
        source: ManifestError,
    },
}

impl Pack {
    /// Takes bytes as the files of a capability, if they are.
    pub fn check(capability: &Capability, bytes: Vec<u8>) -> Option<Self> {
        let mut rest = bytes.as_slice();
        for file in capability.files() {
            let size = usize::try_from(file.size).ok().filter(|size| *size <= rest.len())?;
            let (content, after) = rest.split_at(size);
            if ContentHash::of(content) != file.sha256 {
                return None;
            }
            rest = after;
        }
        rest.is_empty().then_some(Self(bytes))
    }

    /// Takes bytes that the caller has hashed file by file as it read them.
    pub fn just_read(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of all files.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Returns the contents, in the order of the capability's files.
    pub fn contents<'a>(&'a self, capability: &'a Capability) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.0.as_slice();
        capability.files().iter().map(move |file| {
            let size = usize::try_from(file.size).unwrap_or(usize::MAX).min(rest.len());
            let (content, after) = rest.split_at(size);
            rest = after;
            content
        })
    }
}

impl Blobs {
    pub fn new(store: Arc<dyn BlobStore>) -> Self {
        Self { store }
    }

    /// Stores a manifest under its hash.
    pub async fn write_manifest(&self, manifest: &Encoded) -> Result<(), StoreError> {
        self.store.put(BlobKey::Blob(manifest.hash), manifest.bytes.clone()).await
    }

    /// Stores the files of a bundle. They come from [`Pack::check`], so that nothing unreadable is stored.
    pub async fn write_pack(&self, bundle: ContentHash, pack: Pack) -> Result<(), StoreError> {
        self.store.put(BlobKey::Pack(bundle), pack.0).await
    }

    /// Reads the bundle with a hash.
    pub async fn read(&self, hash: ContentHash) -> Result<Bundle, ReadError> {
        let failed = |source| ReadError::Store { hash, source };
        let key = BlobKey::Blob(hash);
        let bytes = self.store.get(key, MANIFEST_BYTES).await.map_err(failed)?;
        if ContentHash::of(&bytes) != hash {
            return Err(failed(StoreError::Altered(key)));
        }
        let manifest = Manifest::decode(&bytes).map_err(|source| ReadError::Manifest { hash, source })?;
        Ok(manifest.into_bundle())
    }

    /// Reads the files of a capability.
    pub async fn read_pack(&self, hash: ContentHash, capability: &Capability) -> Result<Pack, ReadError> {
        let failed = |source| ReadError::Store { hash, source };
        let key = BlobKey::Pack(hash);
        let bytes = self.store.get(key, CAPABILITY_BYTES).await.map_err(failed)?;
        Pack::check(capability, bytes).ok_or_else(|| failed(StoreError::Altered(key)))
    }
}
