//! Between steps 9 and 10: the workspace as the agent finds it, and what it is told.
//!
//! A thread that goes on gets its workspace back exactly as it was left. Overlay and setup script have run before that on fresh
//! ground: what they did outside the workspace is needed again, what they did inside is in the snapshot.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use agora_core::template::PromptData;
use agora_core::wire::manifest::{Prior, PriorSession, SealedAt};
use agora_core::wire::report::ResumedWith;
use serde_json::Value;

use super::environment::Equipped;
use super::fetch;
use super::setup::SetUp;
use crate::adapter::{Environment, Runtime, version};
use crate::archive;
use crate::child::modes;
use crate::desk::Desk;
use crate::fault::{Fault, FetchFault, workspace};
use crate::hashing::Hashing;
use crate::needs_input::resume::Occasion;
use crate::needs_input::{self, teach};
use crate::overlay::{Laid, LaidFile};
use crate::patch::{Baseline, Known, KnownFile};
use crate::room::{self, Frozen, Room};
use crate::seal::{Content, Seal};
use crate::snapshot;
use crate::steps::fetch::Task;

/// Everything is in its place. The agent may start.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) task: Task,
    pub(crate) runtime: Runtime,
    pub(crate) environment: Environment,
    pub(crate) baselines: Baselines,
    pub(crate) words: Words,
    /// The conversation whose files were put back.
    pub(crate) session: Option<agora_core::wire::report::SessionMark>,
}

/// What the workspace was.
#[derive(Debug)]
pub(crate) struct Baselines {
    /// When this dispatch began.
    pub(crate) dispatch: Before,
    /// When the thread began, if that is another moment.
    pub(crate) thread: Option<Before>,
}

/// How a state of the workspace is remembered.
#[derive(Debug)]
pub(crate) enum Before {
    /// By what was in it.
    Noted(Baseline),
    /// As a tree that can be read.
    Frozen(Frozen),
}

/// What the agent is told.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) prompt: String,
    pub(crate) follow_up: String,
    pub(crate) teaching: Option<String>,
}

pub(crate) fn prepare(set_up: SetUp, desk: &mut Desk) -> Result<Ready, Fault> {
    let SetUp(Equipped { task, runtime, laid, environment }) = set_up;
    let words = words(&task, desk)?;
    let prior = &task.manifest.prior;
    let thread = match desk.room.take() {
        Some(room) => restore_room(room, prior, &task.seal, desk)?,
        None => {
            if let Some(sealed) = &prior.workspace {
                restore_workspace(sealed, &task.seal, desk)?;
            }
            None
        }
    };
    needs_input::clear(&desk.place.work()).map_err(workspace("making agora's directory in the workspace"))?;
    write_inputs(&task, desk).map_err(workspace("writing the input"))?;
    // What stands on a ground is the agent's already.
    let whole = prior.workspace.is_some() && desk.room.is_none();
    let given = if whole { desk.place.work() } else { desk.place.in_agora("") };
    desk.place.give(&given).map_err(workspace("giving the workspace to the agent"))?;
    let baselines = match &mut desk.room {
        Some(room) => {
            let dispatch = room.freeze().map_err(workspace("keeping the workspace as it is"))?;
            Baselines { dispatch: Before::Frozen(dispatch), thread: thread.map(Before::Frozen) }
        }
        None => baselines(prior.baseline.as_ref(), &laid, &task.seal, desk)?,
    };
    let session = match &prior.session {
        Some(session) => {
            let installed = version::installed(&runtime, &environment);
            restore_session(session, (&runtime, installed.as_deref()), &task.seal, desk)?
        }
        None => None,
    };
    if let Some(lacks) = &prior.lacks {
        desk.report.lacks = Some(lacks.clone());
        desk.warn(format!("it began without what `{lacks}` did, whose workspace could not be kept"));
    }
    if !matches!(task.occasion, Occasion::First) {
        desk.report.resumed_with = Some(ResumedWith {
            workspace: prior.workspace.is_some(),
            session: session.is_some(),
            partial_state: !task.occasion.partial_state(&task.manifest).is_null(),
        });
    }
    Ok(Ready { task, runtime, environment, baselines, words, session })
}

fn words(task: &Task, desk: &Desk) -> Result<Words, Fault> {
    let (manifest, input) = (&task.manifest, task.manifest.input());
    let resumption = task.occasion.answered().map(|answered| answered.resumption());
    let state = task.occasion.partial_state(manifest);
    let data =
        PromptData::new(&input, manifest.thread_id.as_str(), manifest.dispatch_id.as_str(), resumption);
    let data = match &task.occasion {
        Occasion::Continued { message, .. } => data.continued(message.as_deref()).with_partial_state(state),
        Occasion::TakenOver => data.continued(None).with_partial_state(state),
        Occasion::First => data.with_partial_state(state),
        Occasion::Answered(_) => data,
    };
    let template = task.subagent.prompt_template.as_ref();
    Ok(Words {
        prompt: data.prompt(template).map_err(Fault::Prompt)?,
        follow_up: data.follow_up(template).map_err(Fault::Prompt)?,
        teaching: if task.teaches() { teach::lines(task.subagent.ask, &desk.place.inside()) } else { None },
    })
}

/// Writes what the agent may look up: its input, the answer it waited for, and what was worked out before.
fn write_inputs(task: &Task, desk: &Desk) -> io::Result<()> {
    let write = |name: &str, value: &Value| fs::write(desk.place.in_agora(name), format!("{value:#}\n"));
    write("input.json", &task.manifest.input.0)?;
    task.occasion.file(&task.manifest).map_or(Ok(()), |file| write("resume.json", &file))
}

/// Reads a sealed file to its end, and sees that it is the one that the manifest names: the seal itself would also open an
/// older one of the same thread.
fn with_sealed<T>(
    what: &str,
    sealed: &SealedAt,
    seal: &Seal,
    content: Content,
    read: impl FnOnce(&mut dyn Read) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut hashing = Hashing::new(fetch::open(what, &sealed.location)?);
    let mut opening = seal.open(content, &mut hashing).map_err(unopened(what))?;
    let value = read(&mut opening)?;
    io::copy(&mut opening, &mut io::sink()).map_err(unopened(what))?;
    if hashing.hash() == sealed.sha256 {
        Ok(value)
    } else {
        Err(FetchFault::Mismatch { what: what.to_owned() }.into())
    }
}

/// Makes a fault of a sealed file that does not open: it was changed, or it cannot be read.
fn unopened(what: &str) -> impl FnOnce(io::Error) -> Fault {
    let what = what.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::InvalidData => FetchFault::Mismatch { what }.into(),
        _ => FetchFault::Unreachable { what, path: std::path::PathBuf::new(), source: error }.into(),
    }
}

fn restore_workspace(sealed: &SealedAt, seal: &Seal, desk: &Desk) -> Result<(), Fault> {
    let work = desk.place.work();
    with_sealed("the thread's workspace", sealed, seal, Content::Workspace, |opening| {
        empty(&work).map_err(workspace("clearing the workspace"))?;
        snapshot::unpack(opening, snapshot::WORKSPACE, &work).map_err(Fault::Snapshot)
    })
}

/// Puts a workspace back that stands on a ground: as it was when the thread began, and what changed since then over it. Returns the
/// state that the thread began with, if this is not its beginning.
fn restore_room(
    mut room: Room,
    prior: &Prior,
    seal: &Seal,
    desk: &mut Desk,
) -> Result<Option<Frozen>, Fault> {
    let (Some(sealed), Some(origin)) = (&prior.workspace, &prior.baseline) else {
        desk.room = Some(room);
        return Ok(None);
    };
    let work = desk.place.work();
    let put_back = |what: &str, sealed: &SealedAt, content: Content| {
        with_sealed(what, sealed, seal, content, |opening| {
            room::unpack(opening, snapshot::WORKSPACE, &work).map_err(Fault::Snapshot)
        })
    };
    room.start_over().map_err(workspace("clearing the workspace"))?;
    put_back("the workspace as the thread began", origin, Content::Baseline)?;
    let began = room.freeze().map_err(workspace("keeping the workspace as the thread began"))?;
    put_back("the thread's workspace", sealed, Content::Workspace)?;
    desk.room = Some(room);
    Ok(Some(began))
}

fn empty(dir: &Path) -> io::Result<()> {
    modes::mend_one(dir);
    for entry in fs::read_dir(dir)? {
        archive::remove(&entry?.path())?;
    }
    Ok(())
}

fn known_file(file: &LaidFile) -> KnownFile {
    KnownFile {
        pack: Arc::clone(&file.pack),
        offset: file.offset,
        len: file.len,
        sha256: file.sha256.digest(),
        fingerprint: file.fingerprint,
    }
}

fn baselines(carried: Option<&SealedAt>, laid: &Laid, seal: &Seal, desk: &Desk) -> Result<Baselines, Fault> {
    let mut known = Known::default();
    for file in &laid.files {
        known.add(file.path.as_str(), known_file(file));
    }
    let spool = desk.spool().map_err(workspace("making room for the baseline"))?;
    let dispatch = Baseline::take(&desk.place.work(), spool, &known).map_err(Fault::Patch)?;
    let Some(sealed) = carried else {
        return Ok(Baselines { dispatch: Before::Noted(dispatch), thread: None });
    };
    let thread = with_sealed("the thread's baseline", sealed, seal, Content::Baseline, |mut opening| {
        dispatch.resume(&mut opening).map_err(Fault::Patch)
    })?;
    Ok(Baselines { dispatch: Before::Noted(dispatch), thread: Some(Before::Noted(thread)) })
}

/// Makes a directory below the agent's home, with nothing in it. The setup script ran before, and may have put a link on the way: nothing
/// is written through one.
fn make_anew(home: &Path, below: &Path) -> io::Result<()> {
    archive::make_way(home, below)?;
    let path = home.join(below);
    archive::remove(&path)?;
    fs::create_dir(&path)
}

/// Puts the runtime's conversation back, if this runtime can go on with it.
fn restore_session(
    session: &PriorSession,
    (runtime, installed): (&Runtime, Option<&str>),
    seal: &Seal,
    desk: &mut Desk,
) -> Result<Option<agora_core::wire::report::SessionMark>, Fault> {
    let Some(below) = runtime.session_files().filter(|_| session.mark.runtime == runtime.word()) else {
        desk.warn(format!("the conversation was `{}`'s; this is `{}`", session.mark.runtime, runtime.word()));
        return Ok(None);
    };
    let kept_by = session.mark.version.as_deref();
    if !version::is_compatible(kept_by, installed) {
        let (kept_by, installed) = (kept_by.unwrap_or_default(), installed.unwrap_or_default());
        desk.warn(format!(
            "the conversation was kept by `{}` {kept_by}, and {installed} is installed: it begins anew, with the workspace and the \
             partial state",
            runtime.word()
        ));
        return Ok(None);
    }
    let dir = desk.place.home().join(below);
    make_anew(&desk.place.home(), below).map_err(workspace("making room for the session"))?;
    with_sealed("the thread's session", &session.files, seal, Content::Session, |opening| {
        snapshot::unpack(opening, snapshot::SESSION, &dir).map_err(Fault::Snapshot)
    })?;
    desk.place.give(&desk.place.home()).map_err(workspace("giving the session to the agent"))?;
    Ok(Some(session.mark.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_through_a_link_that_a_setup_script_left() {
        let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let below = Path::new(".claude/projects");
        std::os::unix::fs::symlink(elsewhere.path(), home.path().join(".claude")).unwrap();
        make_anew(home.path(), below).unwrap();
        assert!(home.path().join(below).is_dir() && !home.path().join(".claude").is_symlink());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        fs::write(home.path().join(below).join("old"), "x").unwrap();
        make_anew(home.path(), below).unwrap();
        assert_eq!(fs::read_dir(home.path().join(below)).unwrap().count(), 0);
    }
}
