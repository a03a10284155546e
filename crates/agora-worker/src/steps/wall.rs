//! Before step 6 lays anything: which wall everything that runs will stand behind, and how things look from there.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use agora_core::wall::Level;
use agora_core::wire::manifest::{DispatchManifest, Location};

use crate::adapter::Runtime;
use crate::desk::Desk;
use crate::fault::{Fault, workspace};
use crate::sandbox::wall::{Ground, Trial, View, WallError, say_uncounted};

/// Decides, and writes down what was decided.
pub(crate) fn raise(manifest: &DispatchManifest, runtime: &Runtime, desk: &mut Desk) -> Result<(), Fault> {
    let (wish, workspace_at) = (&manifest.wall, manifest.workspace.as_ref());
    let own = desk.place.own();
    let lent = workspace_at.map(|at| at.borrowed.as_slice()).unwrap_or_default();
    let lent: Vec<PathBuf> = lent.iter().map(|Location::File(dir)| dir.clone()).collect();
    let trial = Trial::of(wish.isolation, desk.outer);
    let ground = Ground {
        wish,
        trial: &trial,
        home: desk.place.users_home.as_deref(),
        path: desk.place.base().get("PATH".as_ref() as &std::ffi::OsStr).map(AsRef::as_ref),
        own: &own,
        has_aids: runtime.has_aids(),
        lent: &lent,
        closed: desk.place.closed(),
    };
    let View { plan, inside, mut built, home_links } = View::choose(&ground).map_err(Fault::Wall)?;
    let agent = plan.as_ref().and_then(|plan| plan.agent);
    if built.level == Level::Landlock {
        if let Some(agent) = agent {
            open_the_way(desk, &lent, agent)?;
        }
        link_tools(&own.home, &home_links).map_err(workspace("making the agent's home"))?;
    }
    say_uncounted(&mut built, manifest.limits.memory_bytes, || desk.keeper.kernel_keeps_limits());
    for grant in &built.missing {
        desk.warn(format!("the grant `{grant}` names nothing on this machine, and shows nothing"));
    }
    if let Some(because) = &built.because {
        desk.warn(format!("the wall is made of Landlock and seccomp, without namespaces: {because}"));
    }
    desk.place.settle(inside, agent);
    desk.report.wall = built;
    desk.keeper.build(plan);
    Ok(())
}

/// Where the agent is another user and sees the true paths, it must be able to get to them. What is in agora's home stays closed to it,
/// and the way to everybody else.
fn open_the_way(desk: &Desk, lent: &[PathBuf], agent: u32) -> Result<(), Fault> {
    let (work, closed) = (desk.place.work(), desk.place.closed());
    for dir in work.ancestors().skip(1) {
        let about = fs::metadata(dir).map_err(workspace("looking at the dispatch's directory"))?;
        let goes_through = about.mode() & 0o001 != 0 || (about.gid() == agent && about.mode() & 0o010 != 0);
        if about.uid() == agent || goes_through {
            continue;
        }
        if !dir.starts_with(closed) {
            return Err(Fault::Wall(WallError::Closed(dir.to_owned())));
        }
        let_through(dir, agent).map_err(workspace("opening the dispatch's directory to the agent"))?;
    }
    for dir in lent.iter().flat_map(|lent| lent.ancestors().skip(1)).filter(|dir| dir.starts_with(closed)) {
        let_through(dir, agent).map_err(workspace("opening what was fetched to the agent"))?;
    }
    let closed = Permissions::from_mode(0o700);
    fs::set_permissions(desk.place.out(), closed).map_err(workspace("closing `out` to the agent"))
}

/// Lets the agent go through a directory of ours, by a group that nobody else is in.
fn let_through(dir: &Path, agent: u32) -> io::Result<()> {
    chown(dir, None, Some(agent))?;
    let mode = fs::metadata(dir)?.mode() & 0o7700;
    fs::set_permissions(dir, Permissions::from_mode(mode | 0o010))
}

/// Lets the agent's own home lead to the tools of the user's.
fn link_tools(home: &Path, links: &[(PathBuf, PathBuf)]) -> io::Result<()> {
    for (below, real) in links {
        let link = home.join(below);
        if let Some(parent) = link.parent() {
            fs::create_dir_all(parent)?;
        }
        match symlink(real, link) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
