//! What of a work is refused, and what a person must have seen before it is in their tree.

use std::fs;
use std::path::Path;

use agora_core::git::patch::{PathBytes, is_refused};
use agora_core::git::sight::{Coming, acts_on_sight, leads_out};

use super::super::blob::{LINK, above};
use super::super::own::{Entry, Own};
use super::super::walk::at;
use super::{ApplyError, OnSight};

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn is_link(entry: &Entry) -> bool {
    entry.object.as_ref().is_some_and(|(mode, _)| mode == LINK)
}

/// Sees that every path stays in the tree.
pub(super) fn names<'a>(paths: impl IntoIterator<Item = &'a PathBytes>) -> Result<(), ApplyError> {
    match paths.into_iter().find(|path| is_refused(path)) {
        Some(path) => Err(ApplyError::Refused { path: text(path), why: "leaves the tree, or is git's own" }),
        None => Ok(()),
    }
}

/// Sees that nothing is written through a link: not of the tree, and not of the work's own making. What goes because a link comes in its
/// directory's place is not written at all.
pub(super) fn links(brought: &[Entry], top: &Path) -> Result<(), ApplyError> {
    let becomes = |path: &[u8]| brought.iter().find(|entry| entry.path == path);
    for entry in brought {
        for above in above(&entry.path) {
            let becomes = becomes(above);
            let made = becomes.is_some_and(is_link);
            let goes = becomes.is_some_and(|above| above.object.is_none());
            let there = fs::symlink_metadata(at(top, above)).is_ok_and(|data| data.is_symlink());
            let makes_room = made && entry.object.is_none();
            if (made || (there && !goes)) && !makes_room {
                return Err(ApplyError::Refused {
                    path: text(&entry.path),
                    why: "lies behind a symbolic link",
                });
            }
        }
    }
    Ok(())
}

/// Names what tools act upon as soon as it is there, and links that lead out of the tree.
pub(super) fn on_sight(own: Own<'_>, brought: &[Entry], on_sight: OnSight) -> Result<(), ApplyError> {
    if on_sight == OnSight::Take {
        return Ok(());
    }
    let links: Vec<Entry> = brought.iter().filter(|entry| is_link(entry)).cloned().collect();
    let links = own.blobs(&links).map_err(ApplyError::Git)?;
    let says = |path: &[u8]| {
        let link = links.iter().find(|(link, _)| link == path);
        link.and_then(|(_, blob)| blob.as_ref()).map(|blob| &*blob.bytes)
    };
    let (mut acted_upon, mut leading_out) = (Vec::new(), Vec::new());
    for entry in brought.iter().filter(|entry| entry.object.is_some()) {
        let says = says(&entry.path);
        if acts_on_sight(&entry.path, says.map_or(Coming::File, Coming::Link)) {
            acted_upon.push(text(&entry.path));
        }
        if says.is_some_and(|says| leads_out(&entry.path, says)) {
            leading_out.push(text(&entry.path));
        }
    }
    let nothing = acted_upon.is_empty() && leading_out.is_empty();
    if nothing { Ok(()) } else { Err(ApplyError::OnSight { acted_upon, leading_out }) }
}
