//! A Docker engine: one of our own where we may start one, else the one that is there.

mod api;
mod daemon;

use std::path::{Path, PathBuf};

use super::{Context, Found, Missing, debian::Packages};
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
    let program = packages.program("docker.io", "dockerd")?;
    let daemon = Daemon::start(context.privilege, &program).map_err(|failure| not_started(&failure))?;
    let found =
        describe(&daemon.socket(), "started for this run").map_err(|failure| not_started(&failure))?;
    Ok(Engine { found, daemon: Some(daemon) })
}

fn not_started(failure: &Failure) -> Missing {
    Missing::new(
        failure.on_one_line(),
        "run as root or with `--provision`, in a machine where dockerd can run",
    )
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
