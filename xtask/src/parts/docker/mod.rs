//! A Docker engine: one of our own where we may start one, else the one that is there.

mod api;
mod daemon;

use std::path::{Path, PathBuf};

use super::{Context, Found, Missing, Privilege, debian::Packages};
use crate::{environment, failure::Failure};

pub(super) use daemon::Daemon;

/// Where the daemon of the machine listens, if there is one.
const SYSTEM_SOCKET: &str = "/var/run/docker.sock";

/// An engine that answers.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) found: Found,
    /// There when it is ours, and must be stopped.
    pub(super) daemon: Option<Daemon>,
}

pub(super) fn provide(context: &Context, packages: &Packages) -> Result<Engine, Missing> {
    let own = start(context, packages).or_else(|missing| {
        let there = engine_that_is_there().ok_or(missing)?;
        Ok(Engine { found: there, daemon: None })
    });
    own.map_err(|Missing { why, remedy }| {
        Missing::new(why, format!("{remedy}; or set DOCKER_HOST to the unix socket of one that runs"))
    })
}

fn start(context: &Context, packages: &Packages) -> Result<Engine, Missing> {
    if context.privilege == Privilege::None {
        return Err(Missing::new("a Docker daemon of our own needs root", "run with `--provision`"));
    }
    let program = packages.program("docker.io", "dockerd")?;
    let started = Daemon::start(context.privilege, &program).and_then(|daemon| {
        let found = describe(&daemon.socket(), "started for this run")?;
        Ok(Engine { found, daemon: Some(daemon) })
    });
    started.map_err(|failure| Missing::after(&failure, "see that `dockerd` can run on this machine"))
}

fn engine_that_is_there() -> Option<Found> {
    let chosen = environment::docker_host().and_then(|host| host.strip_prefix("unix://").map(PathBuf::from));
    let socket = chosen.unwrap_or_else(|| SYSTEM_SOCKET.into());
    describe(&socket, "it was there").ok()
}

fn describe(socket: &Path, how: &str) -> Result<Found, Failure> {
    let version = api::version(socket)?;
    let host = format!("unix://{}", socket.display());
    Ok(Found {
        version,
        place: format!("{host}, {how}"),
        variable: Some(("AGORA_TEST_DOCKER_HOST", host.into())),
    })
}
