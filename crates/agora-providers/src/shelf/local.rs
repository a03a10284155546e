//! A directory for each dispatch, under `$AGORA_HOME`.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agora_core::provider::blob::BlobKey;
use agora_core::provider::compute::Sight;
use agora_core::provider::shelf::{Clearing, Concluded, Shelf};
use agora_core::provider::{Outage, Unavailable};
use agora_core::wire::bootstrap::ManifestAt;
use agora_core::wire::manifest::{DispatchManifest, Location};
use agora_core::{ContentHash, DispatchId};
use async_trait::async_trait;

use super::placing::Placing;
use super::remove::remove;
use super::{size, untrusted};
use crate::blob::LocalBlobs;
use crate::blocking::blocking;
use crate::dispatch_dir::{DISPATCHES, DispatchDir};
use crate::home::{Home, Named, list_dir};
use crate::notice::Notice;

/// An outcome holds a question of at most 1 MiB, as JSON.
const OUTCOME_BYTES: u64 = 16 * 1024 * 1024;
/// A report holds an agent's output of some MiB, and lists of files.
const REPORT_BYTES: u64 = 64 * 1024 * 1024;

/// Keeps a directory for each dispatch.
///
/// Nothing but an outcome waits for the disk: after a power loss no worker is left, and the ledger says what holds.
#[derive(Clone, Debug)]
pub struct LocalShelf {
    home: Home,
    blobs: LocalBlobs,
}

impl LocalShelf {
    pub fn new(home: Home) -> Self {
        Self { blobs: LocalBlobs::new(home.clone()), home }
    }

    fn dir(&self, dispatch: &DispatchId) -> DispatchDir {
        DispatchDir::new(&self.home, dispatch)
    }

    fn location(path: &Path) -> Result<Location, Unavailable> {
        Location::file(path).map_err(|error| Unavailable {
            doing: format!("name `{}`", path.display()),
            outage: Outage::Failed,
            source: Box::new(error),
        })
    }

    fn make(&self, mut manifest: DispatchManifest, sight: &Sight) -> Result<ManifestAt, Unavailable> {
        let dir = self.dir(&manifest.dispatch_id);
        let path = dir.manifest();
        let wrong = |error: io::Error| self.home.unavailable("write", &path, error);
        self.home.prepare()?;
        self.home.make_dir_of_strangers(&self.home.root().join(DISPATCHES))?;
        dir.directories().iter().try_for_each(|dir| self.home.make_dir(dir))?;
        if manifest.workspace.is_some() {
            self.home.make_dir(&dir.layers())?;
        }
        // There from the beginning, so that whoever waits for lines has a file to watch.
        let events = dir.events();
        let touched = OpenOptions::new().append(true).create(true).mode(0o600).open(&events);
        touched.map_err(|error| self.home.unavailable("write", &events, error))?;
        let placing = match sight {
            Sight::Same => None,
            Sight::Own { root, owner } => Some(Placing { dir: &dir, root, owner: *owner }),
        };
        let placed = |error| self.home.unavailable("bring files into", &dir.placed(), error);
        placing.map_or(Ok(()), |placing| placing.place(&mut manifest)).map_err(placed)?;
        let bytes = manifest.encode().map_err(|error| wrong(io::Error::other(error)))?;
        self.home.put_for(&path, &bytes, placing.map_or(0o600, Placing::manifest_mode))?;
        let location = match placing {
            None => Self::location(&path)?,
            Some(placing) => placing.hand_over().and_then(|()| placing.seen(&path)).map_err(placed)?,
        };
        Ok(ManifestAt { location, hash: ContentHash::of(&bytes) })
    }

    fn read_outcome(&self, dispatch: &DispatchId) -> Result<Option<String>, Unavailable> {
        let path = self.dir(dispatch).outcome();
        let text = self.read(&path, |path| untrusted::text(path, OUTCOME_BYTES))?;
        Ok(text.map(|text| text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)))
    }

    fn store_outcome(&self, dispatch: &DispatchId, line: &str) -> Result<Concluded, Unavailable> {
        let dir = self.dir(dispatch);
        let path = dir.outcome();
        self.home.prepare()?;
        // A dispatch may end before it was staged.
        self.home.make_dirs(&dir.out())?;
        loop {
            match self.home.put_new(&path, format!("{line}\n").as_bytes())? {
                Named::Now => return Ok(Concluded::Ours),
                Named::Before => {
                    // `None`: it was cleared in between.
                    if let Some(theirs) = self.read_outcome(dispatch)? {
                        return Ok(Concluded::Theirs(theirs));
                    }
                }
            }
        }
    }

    fn take_away(&self, dispatch: &DispatchId, what: Clearing) -> Result<(), Unavailable> {
        let remove =
            |path: &PathBuf| remove(path).map_err(|error| self.home.unavailable("remove", path, error));
        self.dir(dispatch).cleared(what).iter().try_for_each(remove)
    }

    fn read<T>(&self, path: &Path, read: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, Unavailable> {
        read(path).map_err(|error| self.home.unavailable("read", path, error))
    }
}

#[async_trait]
impl Shelf for LocalShelf {
    fn stored(&self, key: BlobKey) -> Result<Location, Unavailable> {
        Self::location(&self.blobs.path(key))
    }

    fn left(&self, dispatch: &DispatchId, path: &str) -> Result<Location, Unavailable> {
        let out = self.dir(dispatch).out();
        // Not `join`, for which an absolute path is another place. A location has no `..` and no empty part.
        let path = format!("{}/{path}", out.display());
        Self::location(Path::new(&path))
    }

    async fn stage(&self, manifest: &DispatchManifest, sight: &Sight) -> Result<ManifestAt, Unavailable> {
        let (this, manifest, sight) = (self.clone(), manifest.clone(), sight.clone());
        blocking(move || this.make(manifest, &sight)).await
    }

    async fn lines(&self, dispatch: &DispatchId, from: u64) -> Result<String, Unavailable> {
        self.read(&self.dir(dispatch).events(), |path| untrusted::lines(path, from))
    }

    async fn more_lines(&self, dispatch: &DispatchId, from: u64) -> Result<(), Unavailable> {
        let path = self.dir(dispatch).events();
        // Listening begins before looking: what comes in between is heard.
        let mut notice = match Notice::of(&path) {
            // In a container the agent may be the user who owns the directory, and close it. Its worker opens it again at the end.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Notice::Looking,
            heard => self.read(&path, |_| heard)?,
        };
        loop {
            // Not by the size: half a line, of a worker that was killed, would be more for ever.
            if self.read(&path, |path| untrusted::has_line(path, from))? {
                return Ok(());
            }
            notice.next().await;
        }
    }

    async fn outcome(&self, dispatch: &DispatchId) -> Result<Option<String>, Unavailable> {
        self.read_outcome(dispatch)
    }

    async fn conclude(&self, dispatch: &DispatchId, line: &str) -> Result<Concluded, Unavailable> {
        let (this, dispatch, line) = (self.clone(), dispatch.clone(), line.to_owned());
        blocking(move || this.store_outcome(&dispatch, &line)).await
    }

    async fn report(&self, dispatch: &DispatchId) -> Result<Option<String>, Unavailable> {
        let (this, path) = (self.clone(), self.dir(dispatch).report());
        blocking(move || this.read(&path, |path| untrusted::text(path, REPORT_BYTES))).await
    }

    async fn clear(&self, dispatch: &DispatchId, what: Clearing) -> Result<(), Unavailable> {
        let (this, dispatch) = (self.clone(), dispatch.clone());
        blocking(move || this.take_away(&dispatch, what)).await
    }

    async fn read(
        &self,
        dispatch: &DispatchId,
        path: &str,
        from: u64,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Unavailable> {
        let Location::File(path) = self.left(dispatch, path)?;
        let this = self.clone();
        blocking(move || this.read(&path, |path| untrusted::piece(path, from, most))).await
    }

    async fn size(&self, dispatch: &DispatchId, what: Clearing) -> Result<u64, Unavailable> {
        let paths = self.dir(dispatch).cleared(what);
        let this = self.clone();
        blocking(move || paths.iter().map(|path| this.read(path, size::of)).sum()).await
    }

    async fn list(&self) -> Result<Vec<DispatchId>, Unavailable> {
        let (this, dir) = (self.clone(), self.home.root().join(DISPATCHES));
        let names = blocking(move || this.read(&dir, list_dir)).await?;
        Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }
}
