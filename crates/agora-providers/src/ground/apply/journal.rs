//! What is about to be written, until it is: whoever is killed in between leaves it to the next one, who takes it back.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use agora_core::git::patch::PathBytes;

use super::super::blob::Blob;
use super::super::keeping::listed;
use super::super::own::{Own, Why, listed_entries, said};
use super::super::walk::at;
use super::merged::Merged;
use super::written::{Step, Written, beside};
use crate::home::read_capped;

const NOTE: &str = "writing";
const NOTE_BYTES: u64 = 64 << 20;
/// What a commit would have that there is none of.
const NONE: &str = "-";

/// What else changes with the files, if they are committed.
#[derive(Debug)]
pub(super) struct Committing {
    pub(super) commit: String,
    /// Trees of what the index had at these paths, and what it is to have.
    pub(super) before: String,
    pub(super) after: String,
}

/// A note in the repository of our own, which has all that it speaks of.
#[derive(Debug)]
pub(super) struct Journal(PathBuf);

impl Journal {
    /// Says what is about to be written.
    pub(super) fn write(
        own: Own<'_>,
        top: &Path,
        merged: &Merged,
        committing: Option<&Committing>,
    ) -> Result<Self, Why> {
        let (commit, before, after) = committing.map_or((NONE, NONE, NONE), |committing| {
            (&committing.commit, &committing.before, &committing.after)
        });
        let (ours, pid) = (&merged.ours, std::process::id());
        let mut note = format!("{pid} {ours} {} {commit} {before} {after}\0", merged.tree).into_bytes();
        for step in merged.steps.iter().filter(|step| step.old.is_some()) {
            let mode = fs::symlink_metadata(at(top, &step.path)).map(|data| data.permissions().mode());
            note.extend(format!("{:o} ", mode.unwrap_or(0) & 0o777).bytes());
            note.extend(step.path.iter().copied().chain([0]));
        }
        let (file, staged) = (own.dir.join(NOTE), own.dir.join("writing.new"));
        let written = fs::write(&staged, note).and_then(|()| fs::rename(&staged, &file));
        written.map_err(|error| format!("`{}` could not be written: {error}", file.display()))?;
        Ok(Self(file))
    }
}

impl Drop for Journal {
    /// All of it was written, or taken back.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Takes back what somebody wrote who was killed before all of it was there. Returns what a person should know of it.
pub(super) fn recover(own: Own<'_>, top: &Path) -> Option<String> {
    let note = read_capped(&own.dir.join(NOTE), NOTE_BYTES).ok()??;
    let left = Left::parse(&note)?;
    let killed = "an `agora apply` before this one was killed while it wrote";
    Some(match left.take_back(own, top) {
        Ok(None) => return None,
        Ok(Some(changed)) if changed.is_empty() => {
            format!("{killed}: what it had written was taken back first")
        }
        Ok(Some(changed)) => format!(
            "{killed}: what it had written was taken back first, but for {}, which changed since",
            listed(&changed)
        ),
        Err(why) => format!("{killed}, and that could not be taken back: {why}"),
    })
}

/// What somebody left who was killed.
struct Left<'a> {
    pid: &'a str,
    ours: &'a str,
    merged: &'a str,
    committing: Option<[&'a str; 3]>,
    modes: Vec<(u32, &'a [u8])>,
}

impl<'a> Left<'a> {
    fn parse(note: &'a [u8]) -> Option<Self> {
        let mut parts = note.split(|&byte| byte == 0);
        let words: Vec<&str> = str::from_utf8(parts.next()?).ok()?.split(' ').collect();
        let [pid, ours, merged, commit, before, after] = words[..] else { return None };
        let modes = parts.filter_map(|part| {
            let cut = part.iter().position(|&byte| byte == b' ')?;
            Some((u32::from_str_radix(str::from_utf8(&part[..cut]).ok()?, 8).ok()?, &part[cut + 1..]))
        });
        let committing = (commit != NONE).then_some([commit, before, after]);
        Some(Self { pid, ours, merged, committing, modes: modes.collect() })
    }

    /// Takes it back. Returns what cannot be, because somebody changed it since. `None`: all of it was there.
    fn take_back(&self, own: Own<'_>, top: &Path) -> Result<Option<Vec<String>>, Why> {
        if let Some([commit, ..]) = self.committing {
            let done = own.git.call(top, "merge-base").try_run(["--is-ancestor", commit, "HEAD"]);
            if done.map_err(said)?.0 == Some(0) {
                return Ok(None);
            }
        }
        let (was, is) =
            (own.differing(Some(self.merged), self.ours)?, own.differing(Some(self.ours), self.merged)?);
        let (mut steps, mut changed) = (Vec::new(), Vec::new());
        for ((path, was), (_, is)) in own.blobs(&was)?.into_iter().zip(own.blobs(&is)?) {
            let _ = fs::remove_file(beside(&at(top, &path), self.pid));
            let here = Blob::read(top, &path).map_err(|error| unread(&path, &error))?;
            if here == is {
                let mode = self.modes.iter().find(|(_, known)| *known == path).map(|(mode, _)| *mode);
                let access = mode.filter(|mode| *mode != 0).map(Permissions::from_mode);
                steps.push(Step { path, old: is, new: was, access });
            } else if here != was {
                changed.push(text(&path));
            }
        }
        let never = AtomicBool::new(false);
        Written::write(top, &steps, &never).map_err(|error| error.to_string())?.keep();
        self.take_back_index(own, top)?;
        Ok(Some(changed))
    }

    fn take_back_index(&self, own: Own<'_>, top: &Path) -> Result<(), Why> {
        let Some([_, before, after]) = self.committing else { return Ok(()) };
        let (was, is) = (own.differing(Some(after), before)?, own.differing(Some(before), after)?);
        let listed = own.git.call(top, "ls-files").run(["-s", "-z", "--full-name"]).map_err(said)?;
        let staged = listed_entries(&listed);
        let changed = was.into_iter().zip(is).filter(|(_, is)| {
            staged.iter().find(|entry| entry.path == is.path).map(|entry| &entry.object)
                == Some(&is.object).filter(|object| object.is_some())
        });
        let entries: Vec<_> = changed.map(|(was, _)| was).collect();
        let call = own.git.call_disarmed(top, "update-index").map_err(said)?;
        call.input(own.info(&entries)).run(["-z", "--index-info"]).map(drop).map_err(said)
    }
}

fn unread(path: &PathBytes, error: &io::Error) -> Why {
    format!("`{}` could not be read: {error}", text(path))
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
