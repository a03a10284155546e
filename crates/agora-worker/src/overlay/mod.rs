//! Lays capabilities over the workspace: what was declared, byte for byte, and never outside of it.
//!
//! Which file comes from whom is decided by [`agora_core::overlay::plan`]. Here the files are written: each byte is read
//! once, hashed and written on the way, and a file whose hash is another is taken away again.

mod contents;
mod workspace;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use agora_core::overlay::{Conflict, Owner, Placed, Plan, Source};
use agora_core::{BundlePath, ContentHash};

pub use crate::patch::Fingerprint;
pub use contents::Contents;
use contents::Reader;
pub use workspace::Obstacle;
use workspace::Workspace;

/// What is read at once. Files are mostly smaller, and a larger one still fits beside its copy in a processor's cache.
const BUFFER_BYTES: usize = 256 * 1024;
/// How many files a thread takes at once: neighbours, which mostly share their directories.
const BATCH: usize = 32;
/// More threads would only wait for the file system.
const MOST_THREADS: usize = 4;

/// What was laid.
#[derive(Debug, Default)]
pub struct Laid {
    /// The files that are slices of a pack, ordered by path. The helper's and merged ones are not.
    pub files: Vec<LaidFile>,
}

/// A file of the workspace whose content can be read elsewhere, as long as the fingerprint is still the same.
#[derive(Clone, Debug)]
pub struct LaidFile {
    pub path: BundlePath,
    pub pack: Arc<File>,
    /// Where its bytes begin in the pack.
    pub offset: u64,
    pub len: u64,
    pub sha256: ContentHash,
    /// Taken after the last change that was made here.
    pub fingerprint: Fingerprint,
}

/// Says why the workspace is not what the capabilities make of it.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// Files of two capabilities that cannot be merged. Nothing was written.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The workspace has something where a file or its directory belongs.
    #[error("`{path}` cannot be laid: `{at}` of the workspace is {found}")]
    InTheWay { path: BundlePath, at: String, found: Obstacle },
    /// The pack is not what its manifest says. Nothing of the file was left.
    #[error("`{path}` of `{owner}` is not the file that was declared")]
    HashMismatch { path: BundlePath, owner: Owner },
    #[error("the files of `{owner}` cannot be read")]
    Pack {
        owner: Owner,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` cannot be written to the workspace")]
    Io {
        path: BundlePath,
        #[source]
        source: io::Error,
    },
    #[error("the workspace cannot be opened")]
    Root(#[source] io::Error),
}

/// Lays the files of a plan below a directory. The contents are those of the plan's layers, in the same order; what is
/// missing there is not what was declared.
///
/// Whatever is merged is merged before the first file is written, so that such a conflict changes nothing. Of several
/// faults the one of the first path is told.
pub fn lay(root: &Path, plan: &Plan, contents: &[Contents<'_>]) -> Result<Laid, OverlayError> {
    let reader = Reader { plan, contents };
    let merged = reader.merge_all()?;
    let job = Job { root, reader, merged, taken: AtomicUsize::new(0), done: Mutex::default() };
    let threads = threads_for(plan.files.len().div_ceil(BATCH));
    thread::scope(|scope| {
        for _ in 1..threads {
            // Without another thread it takes longer, and nothing else.
            let _ = thread::Builder::new().name("overlay".into()).spawn_scoped(scope, || job.work());
        }
        job.work();
    });
    job.finish()
}

/// Hashing takes about as long as writing, so that two at once are as fast as writing alone.
fn threads_for(batches: usize) -> usize {
    if batches <= 1 {
        // Most capabilities. How many processors there are is written in some files that need not be read.
        return batches;
    }
    thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(batches)
}

/// The files of a plan, which threads take batch by batch.
struct Job<'a> {
    root: &'a Path,
    reader: Reader<'a>,
    /// By their place in the plan.
    merged: HashMap<usize, Vec<u8>>,
    taken: AtomicUsize,
    /// By the place of the batch.
    done: Mutex<BTreeMap<usize, Result<Vec<LaidFile>, OverlayError>>>,
}

impl Job<'_> {
    /// Takes batches until there are none, or one failed. Those before it were taken before, and are still finished, so
    /// that the first fault does not depend on who was faster.
    fn work(&self) {
        let mut writer = None;
        while !self.done().values().any(Result::is_err) {
            let first = self.taken.fetch_add(BATCH, Ordering::Relaxed);
            if first >= self.reader.plan.files.len() {
                return;
            }
            let laid = self.lay_batch(&mut writer, first);
            self.done().insert(first, laid);
        }
    }

    fn lay_batch(&self, writer: &mut Option<Writer>, first: usize) -> Result<Vec<LaidFile>, OverlayError> {
        let writer = match writer {
            Some(writer) => writer,
            None => writer.insert(Writer::open(self.root).map_err(OverlayError::Root)?),
        };
        let files = self.reader.plan.files.iter().enumerate().skip(first).take(BATCH);
        let laid: Result<Vec<_>, _> =
            files.map(|(index, placed)| self.lay_file(writer, index, placed)).collect();
        laid.map(|laid| laid.into_iter().flatten().collect())
    }

    fn lay_file(
        &self,
        Writer { workspace, buffer }: &mut Writer,
        index: usize,
        placed: &Placed,
    ) -> Result<Option<LaidFile>, OverlayError> {
        let failed = |source| OverlayError::Io { path: placed.path.clone(), source };
        let mut file = workspace.create(&placed.path, placed.mode)?;
        let written = match &placed.source {
            Source::Layer(part) => {
                self.reader.pour(placed, part, buffer, |piece| file.write_all(piece).map_err(failed))
            }
            Source::Merged { .. } => {
                file.write_all(self.merged.get(&index).map(Vec::as_slice).unwrap_or_default()).map_err(failed)
            }
        };
        written.inspect_err(|_| workspace.remove(&placed.path))?;
        let metadata = Workspace::settle(&file, placed.mode).map_err(failed)?;
        Ok(self.reader.laid_file(placed, &metadata))
    }

    fn done(&self) -> MutexGuard<'_, BTreeMap<usize, Result<Vec<LaidFile>, OverlayError>>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(self) -> Result<Laid, OverlayError> {
        let done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let batches = done.into_values().collect::<Result<Vec<_>, _>>()?;
        Ok(Laid { files: batches.into_iter().flatten().collect() })
    }
}

/// What each thread has of its own.
struct Writer {
    workspace: Workspace,
    buffer: Vec<u8>,
}

impl Writer {
    fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { workspace: Workspace::open(root)?, buffer: vec![0; BUFFER_BYTES] })
    }
}
