//! Docker and Podman: each of our own where we may start one, else the Docker that is there.

mod api;
mod daemon;

use std::path::{Path, PathBuf};

use super::{Context, Found, Missing, Privilege, debian::Packages};
use crate::{environment, failure::Failure};

pub(super) use daemon::Daemon;
use daemon::Kind;

/// Where the daemon of the machine listens, if there is one.
const SYSTEM_SOCKET: &str = "/var/run/docker.sock";

/// How tests find each.
const DOCKER_VARIABLE: &str = "AGORA_TEST_DOCKER_HOST";
const PODMAN_VARIABLE: &str = "AGORA_TEST_PODMAN_HOST";

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
    run(Kind::Docker, DOCKER_VARIABLE, context, &program)
}

/// Starts Podman, which also runs as root: what it does without root is its users' to set up.
pub(super) fn provide_podman(context: &Context, packages: &Packages) -> Result<Engine, Missing> {
    if context.privilege == Privilege::None {
        return Err(Missing::new("a Podman service of our own needs root", "run with `--provision`"));
    }
    let program = packages.program("podman", "podman")?;
    run(Kind::Podman, PODMAN_VARIABLE, context, &program)
}

fn run(kind: Kind, variable: &'static str, context: &Context, program: &Path) -> Result<Engine, Missing> {
    let started = Daemon::start(kind, context.privilege, program).and_then(|daemon| {
        let found = describe(&daemon.socket(), variable, "started for this run")?;
        Ok(Engine { found, daemon: Some(daemon) })
    });
    let remedy = format!("see that `{}` can run on this machine", program.display());
    started.map_err(|failure| Missing::after(&failure, remedy))
}

fn engine_that_is_there() -> Option<Found> {
    let chosen = environment::docker_host().and_then(|host| host.strip_prefix("unix://").map(PathBuf::from));
    let socket = chosen.unwrap_or_else(|| SYSTEM_SOCKET.into());
    describe(&socket, DOCKER_VARIABLE, "it was there").ok()
}

fn describe(socket: &Path, variable: &'static str, how: &str) -> Result<Found, Failure> {
    let version = api::version(socket)?;
    let host = format!("unix://{}", socket.display());
    Ok(Found { version, place: format!("{host}, {how}"), variable: Some((variable, host.into())) })
}
