//! Bytes in files, named by their hash.

use std::io;
use std::path::PathBuf;

use agora_core::ContentHash;
use agora_core::provider::blob::{BlobKey, BlobStore, StoreError};
use async_trait::async_trait;

use crate::blocking::blocking;
use crate::home::{Home, read_capped};

/// Keeps blobs and packs under `$AGORA_HOME`.
#[derive(Clone, Debug)]
pub struct LocalBlobs {
    home: Home,
}

impl LocalBlobs {
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    /// Names the file of some bytes, for a worker that reads it itself.
    pub(crate) fn path(&self, key: BlobKey) -> PathBuf {
        let (folder, hash): (_, ContentHash) = match key {
            BlobKey::Blob(hash) => ("blobs", hash),
            BlobKey::Pack(hash) => ("packs", hash),
        };
        let digits = hash.digits();
        // 256 folders keep each small where a file system searches its directories.
        self.home.root().join(folder).join(&digits[..2]).join(&digits[2..])
    }

    fn write(&self, key: BlobKey, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(key);
        let dir = path.parent().unwrap_or(self.home.root());
        self.home.prepare().map_err(StoreError::Unavailable)?;
        self.home.make_dirs(dir).map_err(StoreError::Unavailable)?;
        let there = read_capped(&path, bytes.len() as u64)
            .is_ok_and(|stored| stored.is_some_and(|stored| stored == bytes));
        let stored = if there {
            // Whoever wrote it may have died before its name was on the disk.
            self.home.sync_dir(dir)
        } else {
            self.home.replace(&path, bytes)
        };
        stored.map_err(StoreError::Unavailable)
    }

    fn read(&self, key: BlobKey, limit: u64) -> Result<Vec<u8>, StoreError> {
        let path = self.path(key);
        match read_capped(&path, limit) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(StoreError::NotFound(key)),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let size = path.metadata().map_or(limit, |meta| meta.len());
                Err(StoreError::TooLarge { key, size, limit })
            }
            Err(error) => Err(StoreError::Unavailable(self.home.unavailable("read", &path, error))),
        }
    }
}

#[async_trait]
impl BlobStore for LocalBlobs {
    async fn put(&self, key: BlobKey, bytes: Vec<u8>) -> Result<(), StoreError> {
        let this = self.clone();
        blocking(move || this.write(key, &bytes)).await
    }

    async fn get(&self, key: BlobKey, limit: u64) -> Result<Vec<u8>, StoreError> {
        let this = self.clone();
        blocking(move || this.read(key, limit)).await
    }
}
