//! Puts everything that a worker is to read into its own place, for one that sees nothing else.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agora_core::ContentHash;
use agora_core::wire::manifest::{DispatchManifest, Location};
use rustix::fs::{Gid, Uid, chown};

use super::tree;
use crate::dispatch_dir::DispatchDir;

/// A worker's place as it sees it itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placing<'a> {
    pub(super) dir: &'a DispatchDir,
    pub(super) root: &'a Path,
    pub(super) owner: Option<u32>,
}

impl Placing<'_> {
    /// Puts what the manifest names into the place, and names it there.
    pub(super) fn place(self, manifest: &mut DispatchManifest) -> io::Result<()> {
        fs::create_dir_all(self.dir.placed())?;
        for location in manifest.locations_mut() {
            *location = self.put(location)?;
        }
        let mut moved = Vec::new();
        for location in manifest.directories_mut() {
            let Location::File(from) = location.clone();
            *location = self.put(location)?;
            let Location::File(seen) = location;
            moved.push((from, seen.clone()));
        }
        if let Some(at) = &manifest.workspace {
            let Location::File(ground) = &at.ground;
            let placed = ground.file_name().map(|name| self.dir.placed().join(name));
            placed.map_or(Ok(()), |ground| tree::lead_elsewhere(&ground, &moved))?;
        }
        Ok(())
    }

    /// Says who reads the manifest. From the moment that it is there: a worker of an engine that died may be about to.
    pub(super) fn manifest_mode(self) -> u32 {
        if self.owner.is_some() { 0o444 } else { 0o600 }
    }

    /// Makes the place the worker's. Only when it is complete: an owner could change what is put there.
    pub(super) fn hand_over(self) -> io::Result<()> {
        let Some(owner) = self.owner else { return Ok(()) };
        // What the worker is given stays ours, and it may read it.
        for dir in [self.dir.root().to_owned(), self.dir.given(), self.dir.placed()] {
            fs::set_permissions(dir, PermissionsExt::from_mode(0o711))?;
        }
        for path in [self.dir.out(), self.dir.work(), self.dir.events()] {
            chown(&path, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
        }
        Ok(())
    }

    /// Names a file of the place as the worker sees it.
    pub(super) fn seen(self, path: &Path) -> io::Result<Location> {
        let below = path.strip_prefix(self.dir.root()).map_err(io::Error::other)?;
        Location::file(&self.root.join(below)).map_err(io::Error::other)
    }

    fn put(self, location: &Location) -> io::Result<Location> {
        let Location::File(from) = location;
        // Under the hash of where it was: the same file is put there once, and what is stored never changes.
        let name = ContentHash::of(from.as_os_str().as_encoded_bytes());
        let to = self.dir.placed().join(name.digits());
        if !to.exists() {
            self.bring(from, &to)?;
        }
        self.seen(&to)
    }

    /// Links a file, which costs nothing, or copies it: to another file system, or for another user, who may not read ours.
    fn bring(self, from: &Path, to: &Path) -> io::Result<()> {
        let staged: PathBuf = to.with_extension(format!("part{}", std::process::id()));
        if from.is_dir() {
            return tree::bring(from, &staged, self.owner)
                .and_then(|()| fs::rename(&staged, to))
                .inspect_err(|_| drop(fs::remove_dir_all(&staged)));
        }
        if self.owner.is_none() && fs::hard_link(from, to).is_ok() {
            return Ok(());
        }
        let _ = fs::remove_file(&staged);
        let copy = || {
            let mode = if self.owner.is_some() { 0o444 } else { 0o400 };
            let mut file = File::options().write(true).create_new(true).mode(mode).open(&staged)?;
            io::copy(&mut File::open(from)?, &mut file)?;
            fs::rename(&staged, to)
        };
        copy().inspect_err(|_| {
            let _ = fs::remove_file(&staged);
        })
    }
}
