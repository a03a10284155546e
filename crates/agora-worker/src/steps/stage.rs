//! Step 6: lays the helper and the capabilities over the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use agora_core::bundle::EnvBundle;
use agora_core::overlay::{Helper, Layer, Owner, plan};
use agora_core::wire::bootstrap::Supplied;
use agora_core::wire::line::Said;

use super::fetch::{Fetched, FetchedCapability, Task};
use super::wall;
use crate::adapter::Runtime;
use crate::desk::Desk;
use crate::fault::{Fault, workspace};
use crate::needs_input::teach;
use crate::overlay::{Contents, Laid, lay};
use crate::room::Room;

/// A workspace with everything in it that was declared.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) task: Task,
    pub(crate) runtime: Runtime,
    pub(crate) env: Vec<EnvBundle>,
    pub(crate) supplied: BTreeMap<String, Supplied>,
    pub(crate) laid: Laid,
}

/// Lays the files, and says which of them lost to others.
pub(crate) fn stage(fetched: Fetched, desk: &mut Desk) -> Result<Staged, Fault> {
    let aids = fetched.runtime.has_aids().then(|| desk.place.aids());
    for dir in desk.place.directories().into_iter().chain(aids) {
        fs::create_dir_all(&dir).map_err(workspace("making the dispatch's directories"))?;
    }
    wall::raise(&fetched.task.manifest, &fetched.runtime, desk)?;
    let Fetched { task, runtime, capabilities, env, supplied } = fetched;
    if let Some(at) = &task.manifest.workspace {
        let furnished =
            Room::furnish(at, &desk.place).map_err(workspace("making the workspace from its ground"))?;
        desk.room = Some(furnished.room);
        desk.report.workspace = Some(furnished.report);
    }
    let helper = helper(&task, &runtime)?;
    let (layers, contents) = layers(helper.as_ref(), &capabilities);
    let plan = plan(&runtime.rules(), &layers).map_err(Fault::Conflict)?;
    for dropped in &plan.dropped {
        let (winner, loser) = (dropped.winner.to_string(), dropped.loser.to_string());
        desk.say(Said::OverlayDropped { path: dropped.path.clone(), winner, loser })?;
    }
    let laid = lay(&desk.place.work(), &plan, &contents).map_err(Fault::Overlay)?;
    let paths = || plan.files.iter().map(|file| file.path.as_str());
    if desk.room.is_some() {
        crate::room::exclude(&desk.place.work(), paths())
            .map_err(workspace("telling git what is not its own"))?;
    }
    give(paths(), desk).map_err(workspace("giving the workspace to the agent"))?;
    Ok(Staged { task, runtime, env, supplied, laid })
}

/// Gives the agent what it may write. What stands on a ground is its own already, but for what was laid over it.
fn give<'a>(laid: impl Iterator<Item = &'a str>, desk: &Desk) -> io::Result<()> {
    let place = &desk.place;
    match desk.room {
        None => place.give(&place.work())?,
        Some(_) => laid.into_iter().try_for_each(|path| place.give_along(&place.work(), Path::new(path)))?,
    }
    place.give(&place.home())?;
    place.give(&place.tmp())
}

/// Returns the skill that teaches asking, unless it is switched off.
fn helper(task: &Task, runtime: &Runtime) -> Result<Option<Helper>, Fault> {
    if !task.teaches() {
        return Ok(None);
    }
    let unusable = |error: agora_core::bundle::TreeError| Fault::Setup(error.to_string());
    Helper::new(&teach::skill(), &runtime.rules()).map(Some).map_err(unusable)
}

fn layers<'a>(
    helper: Option<&'a Helper>,
    capabilities: &'a [FetchedCapability],
) -> (Vec<Layer<'a>>, Vec<Contents<'a>>) {
    let taught = helper.map(|helper| {
        (Layer { owner: Owner::Helper, tree: &helper.tree }, Contents::Memory(helper.pack.as_slice()))
    });
    let declared = capabilities.iter().map(|capability| {
        let owner = Owner::Capability(capability.name.clone());
        (Layer { owner, tree: &capability.tree }, Contents::Pack(capability.pack.clone()))
    });
    taught.into_iter().chain(declared).unzip()
}
