//! Between steps 13 and 14: keeps what the agent did. On every ending, and before anything else can change it.
//!
//! Nothing here fails a dispatch: what could not be kept is said in the report.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agora_core::wire::line::Said;
use agora_core::wire::report::{
    Artifact, CommitsReport, LeftOut, Output, PatchReport, VerifyReport, Versions,
};
use rustix::fs::FileType;
use rustix::process::geteuid;

use super::invoke::{Invoked, millis, shell_code};
use super::keep;
use super::prepare::Before;
use crate::adapter::Runtime;
use crate::child::modes;
use crate::child::{GRACE, How, Input, Limits, SoftSignal, Spec};
use crate::desk::Desk;
use crate::hashing::Hashing;
use crate::outputs;
use crate::patch::root::Root;
use crate::patch::{Baseline, PatchSummary};
use crate::progress::Step;
use crate::room::{Changed, Frozen, Room, commits};
use crate::seal::Content;
use crate::snapshot;

const PATCH: &str = "patch.diff";
const COMMITS: &str = "commits";
const PATCH_SINCE_PAUSE: &str = "patch-since-pause.diff";
/// What of a verify command's output is in the result.
const VERIFY_REPORT_BYTES: usize = 64 * 1024;

/// Keeps everything.
pub(crate) fn capture(invoked: &Invoked, desk: &mut Desk) {
    note(invoked, desk);
    patches(invoked, desk);
    commits(invoked, desk);
    verify(invoked, desk);
    let (files, left_out) = outputs::collect(&desk.place.work(), &desk.place.out(), &desk.redactor);
    (desk.report.outputs, desk.report.outputs_left_out) = (files, left_out);
    session(invoked, desk);
    keep::workspace(invoked, desk);
    logs(desk);
}

/// Notes what the runtime said.
fn note(invoked: &Invoked, desk: &mut Desk) {
    let exit = &invoked.exit;
    let report = &mut desk.report;
    report.exit_code = Some(shell_code(invoked.ended.how));
    report.output = Output { text: exit.text.clone(), structured: exit.structured.clone() };
    report.usage = exit.usage.clone().map(|mut usage| {
        usage.duration_ms = millis(invoked.ended.duration);
        usage
    });
    report.versions = Versions {
        agora: env!("CARGO_PKG_VERSION").to_owned(),
        manifest: invoked.task.manifest.schema(),
        adapter: invoked.runtime.word().to_owned(),
        runtime: exit.runtime_version.clone(),
    };
    report.warnings.extend(exit.warnings.iter().cloned());
    if invoked.ended.leftovers {
        desk.warn("something that the agent started could not be ended".to_owned());
    }
}

fn patches(invoked: &Invoked, desk: &mut Desk) {
    let baselines = &invoked.baselines;
    match &baselines.thread {
        Some(thread) => {
            desk.report.patch = patch(thread, Fits::Source, PATCH, desk);
            desk.report.patch_since_pause =
                patch(&baselines.dispatch, Fits::Workspace, PATCH_SINCE_PAUSE, desk);
        }
        None => desk.report.patch = patch(&baselines.dispatch, Fits::Source, PATCH, desk),
    }
}

/// What a patch can be applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    /// What the workspace was made from, without what was laid over it.
    Source,
    /// The workspace as it was when the dispatch began.
    Workspace,
}

fn patch(before: &Before, fits: Fits, name: &str, desk: &mut Desk) -> Option<PatchReport> {
    let work = desk.place.work();
    let mut whole = true;
    let written = write(desk, name, |file| {
        let make = |baseline: &Baseline, file: &mut dyn Write| {
            baseline.patch(&work, &desk.redactor, file).map_err(|error| io::Error::other(Box::new(error)))
        };
        match (before, &desk.room) {
            (Before::Noted(baseline), _) => make(baseline, file),
            (Before::Frozen(frozen), Some(room)) => {
                let changed = changed_since(room, frozen, &work)?;
                whole = changed.whole;
                let baseline = Baseline::of_tree(&frozen.tree, changed.among, desk.spool()?);
                let baseline = baseline.map_err(|error| io::Error::other(Box::new(error)))?;
                match fits {
                    Fits::Source => make(&baseline.standing_on(room.source()?), file),
                    Fits::Workspace => make(&baseline, file),
                }
            }
            (Before::Frozen(_), None) => Err(io::Error::other("the room is gone")),
        }
    });
    if !whole && fits == Fits::Source {
        desk.warn("a directory is closed, or too deep: what is in it is not in the patch".to_owned());
    }
    match written {
        Ok((summary, artifact)) => Some(report(summary, artifact)),
        Err(error) => {
            desk.warn(format!("the patch could not be kept: {}", chain(&error)));
            None
        }
    }
}

/// Finds what changed, also in what the agent has closed.
pub(super) fn changed_since(room: &Room, frozen: &Frozen, work: &Path) -> io::Result<Changed> {
    let changed = room.changed_since(frozen)?;
    if changed.whole || geteuid().is_root() {
        return Ok(changed);
    }
    modes::reveal(work);
    room.changed_since(frozen)
}

/// Keeps the commits that the agent made, where it worked in a repository.
fn commits(invoked: &Invoked, desk: &mut Desk) {
    let in_repository = invoked.task.manifest.workspace.as_ref().is_some_and(|at| at.people.is_some());
    if !in_repository {
        return;
    }
    let work = desk.place.work();
    let kept = commits::head(&work).and_then(|head| {
        let Some(head) = head else { return Ok(None) };
        // Written through: what is wrong with them is told apart from what is wrong with the disk.
        let mut wrong = None;
        let written = write(desk, COMMITS, |file| {
            commits::pack(&work, &desk.redactor, &head, file).map_err(|error| {
                wrong = Some(error);
                io::ErrorKind::Other.into()
            })
        });
        match (written, wrong) {
            (Ok((own, artifact)), _) => {
                let others = commits::others(&work, &own, &head, &desk.redactor);
                Ok(Some(CommitsReport { head, others, artifact }))
            }
            (Err(_), Some(wrong)) => Err(wrong),
            (Err(error), None) => Err(error.into()),
        }
    });
    match kept {
        Ok(kept) => desk.report.commits = kept,
        Err(why) => {
            desk.warn(format!("the agent's commits are not kept, its work is one commit: {}", chain(&why)));
        }
    }
}

fn report(summary: PatchSummary, artifact: Artifact) -> PatchReport {
    let left_out =
        summary.left_out.iter().map(|left| LeftOut { path: left.path.clone(), why: left.why.to_string() });
    PatchReport {
        artifact,
        files: summary.files,
        insertions: summary.insertions,
        deletions: summary.deletions,
        left_out: left_out.collect(),
        redacted_files: summary.redacted_files,
        merged: summary.merged,
        whole: summary.whole,
    }
}

pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

/// Runs the verify command. It reports, and changes nothing about the outcome.
fn verify(invoked: &Invoked, desk: &mut Desk) {
    let Some(verify) = &invoked.task.subagent.verify else { return };
    if desk.cancel.is_asked() {
        return;
    }
    let spec = Spec {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".into(), verify.command.clone().into()],
        directory: desk.place.inside().work,
        environment: invoked.environment.0.clone().into_iter().collect(),
        stdin: Input::Closed,
        limits: Limits {
            time: Some(Duration::from_secs(u64::from(verify.timeout_seconds))),
            ..invoked.task.limits()
        },
        soft: SoftSignal::Terminate,
        grace: GRACE,
    };
    desk.show(Step::Verify);
    let ran = match desk.run_briefly(spec, "verify") {
        Ok(ran) => ran,
        Err(error) => return desk.warn(format!("the verify command was not started: {}", chain(&error))),
    };
    let passed = ran.ended.how == How::Exited(0) && ran.ended.stopped.is_none();
    let mut text = format!("{}{}", ran.stdout, ran.stderr);
    if ran.ended.stopped.is_some() {
        text = format!("{text}\nit did not end within {} seconds\n", verify.timeout_seconds);
    }
    let duration_ms = millis(ran.ended.duration);
    desk.report.verify = Some(VerifyReport { passed, report: tail(&text), duration_ms });
    let dispatch_id = desk.place.dispatch_id.clone();
    if let Err(fault) = desk.say(Said::VerifyRan { dispatch_id, passed, duration_ms }) {
        desk.warn(fault.to_string());
    }
}

/// Keeps the end of a long report: failures stand there.
fn tail(text: &str) -> String {
    let from = text.len().saturating_sub(VERIFY_REPORT_BYTES);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    if from == 0 { text.to_owned() } else { format!("…{}", &text[from..]) }
}

/// Keeps the runtime's conversation, sealed.
fn session(invoked: &Invoked, desk: &mut Desk) {
    let (Some(mark), Some(files)) = (&invoked.exit.session, session_files(&invoked.runtime, desk)) else {
        return;
    };
    let seal = &invoked.task.seal;
    let kept = write(desk, "session.sealed", |file| {
        let sealing = seal.seal(Content::Session, file)?;
        let sealing =
            snapshot::pack(&files, snapshot::SESSION, &|_, kind| kind != FileType::Symlink, sealing);
        sealing.map_err(|error| io::Error::other(Box::new(error)))?.finish().map(drop)
    });
    match kept {
        Ok(((), artifact)) => {
            desk.report.session = Some(mark.clone());
            desk.report.artifacts.push(artifact);
        }
        Err(error) => desk.warn(format!("the conversation could not be kept: {}", chain(&error))),
    }
}

fn session_files(runtime: &Runtime, desk: &Desk) -> Option<Root> {
    let below = runtime.session_files()?.as_os_str();
    // The agent may have made a link of it, or of what is on the way to it.
    Root::open(&desk.place.home()).and_then(|home| home.enter(below.as_bytes())).ok()
}

/// Lists the logs.
fn logs(desk: &mut Desk) {
    for name in ["setup", "agent", "verify"] {
        for stream in ["stdout", "stderr"] {
            let name = format!("{name}.{stream}.log");
            if let Ok(artifact) = artifact_of(&desk.place.out(), &name) {
                desk.report.artifacts.push(artifact);
            }
        }
    }
}

fn artifact_of(out: &Path, name: &str) -> io::Result<Artifact> {
    let mut hashing = Hashing::new(io::sink());
    io::copy(&mut File::open(out.join(name))?, &mut hashing)?;
    Ok(artifact(name, &hashing))
}

fn artifact<T>(name: &str, hashing: &Hashing<T>) -> Artifact {
    Artifact { path: name.to_owned(), size: hashing.size(), sha256: hashing.hash() }
}

/// Writes a file of the worker's. One that could not be written whole is taken away again.
pub(super) fn write<T>(
    desk: &Desk,
    name: &str,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<(T, Artifact)> {
    let path = desk.place.out().join(name);
    let file = File::options().write(true).create_new(true).open(&path)?;
    let mut hashing = Hashing::new(BufWriter::new(file));
    let filled = fill(&mut hashing).and_then(|value| hashing.flush().map(|()| value));
    match filled {
        Ok(value) => Ok((value, artifact(name, &hashing))),
        Err(error) => {
            let _ = fs::remove_file(&path);
            Err(error)
        }
    }
}
