//! Hashes what goes by, whichever way it goes.

use std::io::{self, Read, Write};

use agora_core::ContentHash;
use sha2::{Digest, Sha256};

/// Reads from, or writes to, something else, and hashes it on the way.
#[derive(Debug)]
pub(crate) struct Hashing<T> {
    inner: T,
    hash: Sha256,
    size: u64,
}

impl<T> Hashing<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, hash: Sha256::new(), size: 0 }
    }

    /// Returns the hash of all that went by so far.
    pub(crate) fn hash(&self) -> ContentHash {
        ContentHash::from_digest(self.hash.clone().finalize().into())
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn note(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.note(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.note(&into[..count]);
        Ok(count)
    }
}
