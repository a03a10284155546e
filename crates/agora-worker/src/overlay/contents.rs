//! The contents of the layers, checked as they are read.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use agora_core::ContentHash;
use agora_core::overlay::{Owner, Part, Placed, Plan, Source, merge};
use sha2::{Digest, Sha256};

use super::{Fingerprint, LaidFile, OverlayError};

/// The contents of one layer: all its files, one after another in the order of its manifest.
#[derive(Clone, Debug)]
pub enum Contents<'a> {
    /// A fetched pack.
    Pack(Arc<File>),
    /// The helper's.
    Memory(&'a [u8]),
}

/// Reads the parts of a plan, and gives out nothing but what was declared.
pub(super) struct Reader<'a> {
    pub(super) plan: &'a Plan,
    pub(super) contents: &'a [Contents<'a>],
}

impl Reader<'_> {
    /// Merges what is made of several files. Returns it by its place in the plan.
    pub(super) fn merge_all(&self) -> Result<HashMap<usize, Vec<u8>>, OverlayError> {
        let mut merged = HashMap::new();
        for (index, placed) in self.plan.files.iter().enumerate() {
            let Source::Merged { kind, parts } = &placed.source else { continue };
            let contents = parts.iter().map(|part| self.read(placed, part)).collect::<Result<Vec<_>, _>>()?;
            let owned: Vec<(&Owner, &[u8])> =
                parts.iter().zip(&contents).map(|(part, bytes)| (self.plan.owner(part), &**bytes)).collect();
            merged.insert(index, merge(*kind, &owned)?);
        }
        Ok(merged)
    }

    /// Reads a part that is merged; the plan has none that is large.
    fn read(&self, placed: &Placed, part: &Part) -> Result<Vec<u8>, OverlayError> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 * 1024];
        self.pour(placed, part, &mut buffer, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Gives a part away piece by piece, and then says whether it was the declared one.
    pub(super) fn pour(
        &self,
        placed: &Placed,
        part: &Part,
        buffer: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), OverlayError>,
    ) -> Result<(), OverlayError> {
        let owner = || self.plan.owner(part).clone();
        let mismatch = || OverlayError::HashMismatch { path: placed.path.clone(), owner: owner() };
        let contents = self.contents.get(part.layer).ok_or_else(mismatch)?;
        let mut hash = Sha256::new();
        let (mut place, mut left) = (part.offset, part.size);
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let read = contents.read_at(&mut buffer[..most], place);
            let piece = &buffer[..read.map_err(|source| OverlayError::Pack { owner: owner(), source })?];
            if piece.is_empty() {
                return Err(mismatch());
            }
            hash.update(piece);
            take(piece)?;
            place += piece.len() as u64;
            left -= piece.len() as u64;
        }
        if is_hash(part.sha256, hash) { Ok(()) } else { Err(mismatch()) }
    }

    pub(super) fn laid_file(&self, placed: &Placed, metadata: &Metadata) -> Option<LaidFile> {
        let Source::Layer(part) = &placed.source else { return None };
        let Some(Contents::Pack(pack)) = self.contents.get(part.layer) else { return None };
        Some(LaidFile {
            path: placed.path.clone(),
            pack: Arc::clone(pack),
            offset: part.offset,
            len: part.size,
            sha256: part.sha256,
            fingerprint: Fingerprint::from(metadata),
        })
    }
}

impl Contents<'_> {
    /// Reads some bytes from a place; none at the end.
    fn read_at(&self, buffer: &mut [u8], place: u64) -> io::Result<usize> {
        match self {
            Self::Pack(file) => loop {
                match file.read_at(buffer, place) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            },
            Self::Memory(bytes) => {
                let rest =
                    usize::try_from(place).ok().and_then(|place| bytes.get(place..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
        }
    }
}

fn is_hash(expected: ContentHash, hash: Sha256) -> bool {
    ContentHash::from_digest(hash.finalize().into()) == expected
}
