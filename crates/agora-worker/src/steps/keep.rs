//! Keeps the workspace for when the thread goes on. What is too large to be kept whole is kept without what can be spared, and that is said.

use std::io::{self, Write};
use std::path::Path;

use agora_core::wire::report::{Artifact, PatchReport, Report};

use super::capture::{chain, changed_since, write};
use super::invoke::Invoked;
use super::prepare::Before;
use crate::child::modes;
use crate::desk::Desk;
use crate::patch::root::Root;
use crate::patch::{Among, Baseline, Spare, Spared};
use crate::room::{self, Changed, Frozen};
use crate::seal::{Content, Seal};
use crate::snapshot::{self, SnapshotError};

const BASELINE: &str = "baseline.sealed";
/// How many paths that were spared are named.
const NAMED: usize = 5;

/// A tree that is to be kept.
struct Tree<'a> {
    name: &'static str,
    content: Content,
    root: &'a Path,
    /// The only paths of it that count. `None`: all.
    among: Option<&'a Among>,
    began: Began<'a>,
}

/// What is work in a tree, whatever git ignores by now.
enum Began<'a> {
    Noted(&'a Baseline),
    At(&'a Path),
    /// Nothing is, that git does not track.
    Unknown,
}

/// A tree that was kept.
struct Kept {
    artifact: Artifact,
    spare: Spare,
    /// What was spared, and how much it was.
    spared: Vec<(String, u64)>,
}

/// Keeps the workspace, and what it was when the thread began, sealed.
pub(super) fn workspace(invoked: &Invoked, desk: &mut Desk) {
    let kept = match invoked.baselines.thread.as_ref().unwrap_or(&invoked.baselines.dispatch) {
        Before::Noted(baseline) => whole(invoked, baseline, desk),
        Before::Frozen(began) => layers(invoked, began, desk),
    };
    match kept {
        Ok(kept) => {
            desk.report.workspace_saved = kept.iter().all(|kept| kept.spare != Spare::Large);
            for kept in kept {
                if let Some(said) = kept.told() {
                    desk.warn(said);
                }
                desk.report.artifacts.push(kept.artifact);
            }
        }
        Err(error) => desk.warn(format!("the workspace could not be kept: {}", chain(&error))),
    }
}

/// Keeps all that is in the workspace.
fn whole(invoked: &Invoked, baseline: &Baseline, desk: &Desk) -> io::Result<Vec<Kept>> {
    let (seal, work) = (&invoked.task.seal, desk.place.work());
    let (content, name) = (Content::Workspace, Report::WORKSPACE);
    let tree =
        keep(&Tree { name, content, root: &work, among: None, began: Began::Noted(baseline) }, seal, desk)?;
    if is_untouched(invoked, desk) {
        return Ok(vec![tree]);
    }
    let ((), artifact) = write(desk, BASELINE, |file| {
        let mut sealing = seal.seal(Content::Baseline, file)?;
        baseline.carry(&work, &mut sealing).map_err(io::Error::other)?;
        sealing.finish().map(drop)
    })?;
    Ok(vec![tree, Kept { artifact, spare: Spare::Nothing, spared: Vec::new() }])
}

/// Keeps what changed since the thread began, and what was done to the ground before that.
fn layers(invoked: &Invoked, began: &Frozen, desk: &Desk) -> io::Result<Vec<Kept>> {
    let seal = &invoked.task.seal;
    let room = desk.room.as_ref().ok_or_else(|| io::Error::other("the room is gone"))?;
    let all = |changed: Changed| match changed {
        Changed { among, whole: true } => Ok(among),
        Changed { whole: false, .. } => Err(io::Error::other("a directory of it is closed, or too deep")),
    };
    let work = desk.place.work();
    let since = all(changed_since(room, began, &work)?)?;
    let until = all(room.changed_until(began)?)?;
    let tree = Tree {
        name: Report::WORKSPACE,
        content: Content::Workspace,
        root: &work,
        among: Some(&since),
        began: Began::At(&began.tree),
    };
    let origin = Tree {
        name: BASELINE,
        content: Content::Baseline,
        root: &began.tree,
        among: Some(&until),
        began: Began::Unknown,
    };
    Ok(vec![keep(&tree, seal, desk)?, keep(&origin, seal, desk)?])
}

/// Keeps as much of a tree as there is room for.
fn keep(tree: &Tree<'_>, seal: &Seal, desk: &Desk) -> io::Result<Kept> {
    let mut failed: Option<(usize, io::Error)> = None;
    for spare in Spare::ALL {
        let spared = tree.spared(spare, desk)?;
        if failed.as_ref().is_some_and(|(count, _)| *count == spared.count()) {
            continue;
        }
        match tree.written(&spared, seal, desk) {
            Err(error) if is_too_large(&error) => failed = Some((spared.count(), error)),
            written => {
                let ((), artifact) = written?;
                let spared = spared.weighed(tree.root, tree.among, &desk.redactor);
                return Ok(Kept { artifact, spare, spared });
            }
        }
    }
    let why = failed.map(|(_, error)| error.to_string()).unwrap_or_default();
    Err(io::Error::other(format!("{why}, also without what git ignores and files of more than 64 MiB")))
}

impl Tree<'_> {
    fn spared(&self, spare: Spare, desk: &Desk) -> io::Result<Spared> {
        let at_began;
        let known = match (spare, &self.began) {
            (Spare::Nothing, _) => return Ok(Spared::nothing()),
            (_, Began::Noted(baseline)) => Some(*baseline),
            (_, Began::At(tree)) => {
                let among = self.among.cloned().unwrap_or_default();
                at_began = Baseline::of_tree(tree, among, desk.spool()?).map_err(io::Error::other)?;
                Some(&at_began)
            }
            (_, Began::Unknown) => None,
        };
        Spared::find(self.root, self.among, known, spare).map_err(io::Error::other)
    }

    /// Writes the file of it. What the agent has closed is opened for that, and only then.
    fn written(&self, spared: &Spared, seal: &Seal, desk: &Desk) -> io::Result<((), Artifact)> {
        let attempt = || write(desk, self.name, |file| self.pack(spared, seal, file));
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.among.is_none() => {
                modes::reveal(self.root);
                attempt()
            }
            written => written,
        }
    }

    fn pack(&self, spared: &Spared, seal: &Seal, file: &mut dyn Write) -> io::Result<()> {
        let sealing = seal.seal(self.content, file)?;
        let wanted = |path: &[u8]| !spared.has(path);
        let packed = match self.among {
            Some(among) => room::pack(self.root, &among.only(wanted), snapshot::WORKSPACE, sealing),
            None => {
                let root = Root::open(self.root)?;
                snapshot::pack(&root, snapshot::WORKSPACE, &|path, _| wanted(path), sealing)
            }
        };
        packed.map_err(io::Error::from)?.finish().map(drop)
    }
}

fn is_too_large(error: &io::Error) -> bool {
    let why = error.get_ref().and_then(|why| why.downcast_ref());
    matches!(why, Some(SnapshotError::TooLarge { .. }))
}

impl Kept {
    /// Says what was spared.
    fn told(&self) -> Option<String> {
        let what = match self.spare {
            Spare::Nothing => return None,
            Spare::Ignored => "so that what git ignores is not kept for when the thread goes on",
            Spare::Large => {
                "so that neither what git ignores nor files of more than 64 MiB are kept for when the thread goes on, and those are in no \
                 patch either"
            }
        };
        let named =
            self.spared.iter().take(NAMED).map(|(path, bytes)| format!("`{path}` ({})", size(*bytes)));
        let named: Vec<String> = named.collect();
        let rest = self.spared.get(NAMED..).unwrap_or_default();
        let bytes = rest.iter().map(|(_, bytes)| bytes).sum();
        let more = if rest.is_empty() {
            String::new()
        } else {
            format!(" and {} more ({})", rest.len(), size(bytes))
        };
        Some(format!("more than 1 GiB changed, {what}: {}{more}", named.join(", ")))
    }
}

/// Writes a size for people.
fn size(bytes: u64) -> String {
    let tenths = |unit: u64| (bytes.saturating_mul(10) + unit / 2) / unit;
    let (tenths, unit) = match bytes {
        0..1_048_576 => (tenths(1 << 10), "KiB"),
        1_048_576..1_073_741_824 => (tenths(1 << 20), "MiB"),
        _ => (tenths(1 << 30), "GiB"),
    };
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Tells whether the workspace is what it was when the thread began. Then there is nothing to remember beside it.
fn is_untouched(invoked: &Invoked, desk: &Desk) -> bool {
    let nothing = |patch: &PatchReport| {
        patch.files == 0 && patch.left_out.is_empty() && patch.redacted_files.is_empty()
    };
    invoked.baselines.thread.is_none()
        && desk.report.verify.is_none()
        && desk.report.patch.as_ref().is_some_and(nothing)
}
