//! Starts a worker in its container, so that at no moment a crash leaves a second one possible or a first one unknown.

use std::io;
use std::pin::pin;

use agora_core::provider::Outage;
use agora_core::provider::Unavailable;
use agora_core::provider::compute::{Compute, ComputeError, Launch, WorkerLife};
use agora_core::provider::shelf::Shelf;
use bollard::container::AttachContainerResults;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, StartContainerOptions,
};
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;

use super::client::{Connected, DaemonError};
use super::{Containers, container, not_started};
use crate::aside::aside;
use crate::compute::turn::Turn;
use crate::shelf::LocalShelf;

/// How much is kept of what a worker says that cannot open its files.
const WORDS: usize = 4096;

pub(super) async fn start(containers: &Containers, launch: Launch) -> Result<(), ComputeError> {
    if launch.terminal.is_some() {
        return Err(ComputeError::NoTerminal);
    }
    let dir = containers.dir(&launch.dispatch_id);
    let unusable = |error: io::Error| {
        ComputeError::NotStarted(containers.home.unavailable("start the worker in", dir.root(), error))
    };
    let daemon = containers.daemon.connect().await.map_err(DaemonError::unreachable)?;
    let at = dir.clone();
    // On a thread of its own: whoever has the turn may need this one to go on.
    let _turn = aside("worker-turn", move || Turn::take(&at)).await.flatten().map_err(unusable)?;
    if dir.has_past().map_err(unusable)? {
        return Err(ComputeError::StartedAlready);
    }
    match containers.find(&launch.dispatch_id).await.map_err(DaemonError::unreachable)? {
        None => {}
        Some(super::Stage::Running) => return Err(ComputeError::StartedAlready),
        // It was not started, or ended without a word, and the turn is ours.
        Some(super::Stage::Made | super::Stage::Over(_)) => {
            let settled = containers.settle(&launch.dispatch_id, &dir, WorkerLife::Ended).await?;
            if settled != WorkerLife::Never {
                return Err(ComputeError::StartedAlready);
            }
        }
    }
    let image = match &launch.image {
        Some(image) => image.0.clone(),
        None => containers.prepare().await?.map(|image| image.0).unwrap_or_default(),
    };
    create(containers, daemon, &launch, &image).await?;
    let begun = begin(containers, daemon, &launch).await;
    if begun.is_err() {
        // A container that stays is found by its label.
        let _ = containers.remove(&launch.dispatch_id).await;
    }
    begun
}

async fn create(
    containers: &Containers,
    daemon: &Connected,
    launch: &Launch,
    image: &str,
) -> Result<(), ComputeError> {
    let dir = containers.dir(&launch.dispatch_id);
    let body = container::describe(launch, &dir, image, &containers.home_id, &containers.settings, daemon);
    let options = CreateContainerOptionsBuilder::new().name(&containers.name(&launch.dispatch_id)).build();
    let created = daemon.api.create_container(Some(options), body).await;
    created.map(drop).map_err(|error| match DaemonError::from(error) {
        error if error.is_not_found() => ComputeError::ImageMissing(image.to_owned()),
        // Somebody else has the name, on another machine that shares the daemon.
        DaemonError::Refused { status: 409, .. } => ComputeError::StartedAlready,
        error => not_started(error),
    })
}

/// Starts the container, hands the worker its line, and stays until it has said something or is over.
async fn begin(containers: &Containers, daemon: &Connected, launch: &Launch) -> Result<(), ComputeError> {
    let name = containers.name(&launch.dispatch_id);
    let refused = |error| not_started(DaemonError::from(error));
    let attach =
        AttachContainerOptionsBuilder::new().stdin(true).stdout(true).stderr(true).stream(true).build();
    let attached = daemon.api.attach_container(&name, Some(attach)).await.map_err(refused)?;
    daemon.api.start_container(&name, None::<StartContainerOptions>).await.map_err(refused)?;
    let AttachContainerResults { mut output, mut input } = attached;
    let shelf = LocalShelf::new(containers.home.clone());
    let mut said = pin!(shelf.more_lines(&launch.dispatch_id, 0));
    let mut words = Vec::new();
    let mut handed = pin!(async {
        input.write_all(launch.bootstrap.expose().as_bytes()).await?;
        // Ends the worker's input, as closing does for a process: Docker and Podman pass it on.
        input.shutdown().await
    });
    let mut given = false;
    loop {
        tokio::select! {
            biased;
            told = &mut said => return told.map_err(ComputeError::NotStarted),
            done = &mut handed, if !given => {
                // One that ended before it had read everything says why.
                given = done.is_ok();
                if !given {
                    break;
                }
            }
            heard = output.next() => match heard {
                Some(Ok(heard)) => {
                    let room = WORDS.saturating_sub(words.len());
                    words.extend(heard.into_bytes().iter().take(room));
                }
                Some(Err(_)) | None => break,
            },
        }
    }
    // It may have spoken and ended at once.
    match containers.dir(&launch.dispatch_id).has_past() {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(ended_at_once(&words)),
    }
}

/// Says that a worker ended before it said anything, in its own words.
fn ended_at_once(words: &[u8]) -> ComputeError {
    let words = String::from_utf8_lossy(words);
    let last = words.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
    ComputeError::NotStarted(Unavailable {
        doing: "start the worker in its container".to_owned(),
        outage: Outage::Failed,
        source: io::Error::other(format!("it ended at once: {last}")).into(),
    })
}
