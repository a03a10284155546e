//! The room of a worker whose agent works on something: the workspace as layers over files that are only read.
//!
//! ```text
//!   work    ─┐   what is written now
//!   frozen   │   what was there when the agent began; before a pause, and when the thread began
//!   ground   │   what of the source differed from the base
//!   base    ─┘   a cached copy that threads share
//! ```
//!
//! With overlayfs each of them is a layer, in a mount namespace that ends with the worker: what changed is what the upper layers
//! hold, and nobody looks at the rest. Without it the workspace is a copy, a frozen state is a tree of links to files that did not
//! change, and what changed is found by looking. Everything else is the same for both.

mod changes;
pub(crate) mod commits;
mod copied;
mod enter;
mod exclude;
mod lay;
mod layered;
mod packed;

use std::fs;
use std::io;
use std::path::PathBuf;

use agora_core::wire::manifest::{Layers, Location, WorkspaceAt};
use agora_core::wire::report::WorkspaceReport;

pub(crate) use changes::{pack, unpack};
pub(crate) use enter::enter;
pub(crate) use exclude::{exclude, not_laid};

use crate::patch::{Among, Source};
use crate::place::Place;
use copied::Copied;
use lay::Lower;
use layered::Layered;

/// Makes the directory for layers and frozen states.
fn layers(place: &Place) -> io::Result<PathBuf> {
    let dir = match fs::create_dir_all(place.layers()) {
        // In a container, where only what was mounted can be written: the agent sees nothing of this either.
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => place.out().join(LAYERS),
        made => return made.map(|()| place.layers()),
    };
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Where layers and frozen states are, in a dispatch's directory. The engine makes it for a dispatch that has a ground.
pub(crate) const LAYERS: &str = "layers";

/// A workspace that was not empty when the thread began.
#[derive(Debug)]
pub(crate) struct Room {
    how: How,
    frozen: Vec<Frozen>,
}

#[derive(Debug)]
enum How {
    Layered(Layered),
    Copied(Copied),
}

/// A state of the workspace that stays readable.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    /// Where it can be read.
    pub(crate) tree: PathBuf,
    level: usize,
}

/// The paths at which two states can differ.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) among: Among,
    /// Those are all: no directory was closed to us, or deeper than any program opens.
    pub(crate) whole: bool,
}

/// A room that is furnished, and how that was done.
#[derive(Debug)]
pub(crate) struct Furnished {
    pub(crate) room: Room,
    pub(crate) report: WorkspaceReport,
}

impl Room {
    /// Makes the workspace what its ground says.
    pub(crate) fn furnish(at: &WorkspaceAt, place: &Place) -> io::Result<Furnished> {
        let Location::File(ground) = &at.ground;
        let base = at.base.as_ref().map(|Location::File(base)| base.clone());
        let lower = Lower::new(ground, base)?;
        let (layers, work) = (layers(place)?, place.work());
        let layered = match at.layers {
            Layers::Auto => Layered::mount(&lower, &layers, &work),
            Layers::Never => Err(io::Error::other("`store.overlay` is `never`")),
        };
        let (how, report) = match layered {
            Ok(layered) => {
                (How::Layered(layered), WorkspaceReport { via: "overlayfs".to_owned(), why: None })
            }
            Err(error) => {
                let copied = Copied::make(lower, &layers, &work)?;
                let report = WorkspaceReport { via: copied.via().to_owned(), why: Some(error.to_string()) };
                (How::Copied(copied), report)
            }
        };
        Ok(Furnished { room: Self { how, frozen: Vec::new() }, report })
    }

    /// Makes the workspace again what its ground says: whatever was done to it is gone.
    pub(crate) fn start_over(&mut self) -> io::Result<()> {
        self.frozen.clear();
        match &mut self.how {
            How::Layered(layered) => layered.start_over(),
            How::Copied(copied) => copied.start_over(),
        }
    }

    /// Keeps the workspace as it is now, readable for as long as this worker lives.
    pub(crate) fn freeze(&mut self) -> io::Result<Frozen> {
        let tree = match &mut self.how {
            How::Layered(layered) => layered.freeze()?,
            How::Copied(copied) => copied.freeze()?,
        };
        let frozen = Frozen { tree, level: self.frozen.len() };
        self.frozen.push(frozen.clone());
        Ok(frozen)
    }

    /// Returns every path that can differ between a frozen state and the workspace now.
    pub(crate) fn changed_since(&self, frozen: &Frozen) -> io::Result<Changed> {
        let paths = match &self.how {
            How::Layered(layered) => layered.changed_since(frozen.level)?,
            How::Copied(copied) => copied.changed_since(&frozen.tree)?,
        };
        Ok(Changed { whole: paths.whole, among: Among::new(paths.found) })
    }

    /// Returns what the workspace was made from.
    pub(crate) fn source(&self) -> io::Result<Source> {
        let (trees, gone) = match &self.how {
            How::Layered(layered) => layered.made_from(),
            How::Copied(copied) => copied.made_from(),
        };
        Source::open(trees, gone)
    }

    /// Returns every path that can differ between the ground and a frozen state.
    pub(crate) fn changed_until(&self, frozen: &Frozen) -> io::Result<Changed> {
        let paths = match &self.how {
            How::Layered(layered) => layered.changed_until(frozen.level)?,
            How::Copied(copied) => copied.changed_until(&frozen.tree)?,
        };
        Ok(Changed { whole: paths.whole, among: Among::new(paths.found) })
    }
}

#[cfg(test)]
mod tests;
