//! Workers in containers, of Docker or Podman. They outlive the engine: what they say goes to files of their place, which is mounted,
//! and their life is their container's.
//!
//! ```text
//!  turn ─▶ nothing said? ─▶ create, by the dispatch's name ─▶ attach ─▶ start ─▶ bootstrap ─▶ it says its first line
//!                                 └──── the starter dies in here: the worker's input ends, it does nothing
//!  over ─▶ how it ended is written down ─▶ the container is removed
//! ```

mod client;
mod config;
mod container;
pub mod image;
mod life;
mod start;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use agora_core::provider::Unavailable;
use agora_core::provider::compute::{Compute, ComputeError, ImageId, Launch, Sight, WorkerLife};
use agora_core::{ContentHash, DispatchId};
use async_trait::async_trait;
use bollard::query_parameters::{
    InspectContainerOptions, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder, WaitContainerOptions,
};
use futures_util::StreamExt;

use super::turn::Turn;
use crate::dispatch_dir::DispatchDir;
use crate::home::Home;
use container::{DISPATCH_LABEL, HOME_LABEL, ROOT, User};
use life::Stage;

pub use client::{Daemon, DaemonError};
pub use config::ContainerSettings;

/// How long a daemon may be away in the middle of a run: it is being restarted. After that whoever waits is told.
const AWAY: Duration = Duration::from_secs(30);
/// How often it is looked for meanwhile.
const GLANCE: Duration = Duration::from_millis(250);

/// Runs workers in containers.
#[derive(Clone, Debug)]
pub struct Containers {
    home: Home,
    /// Which home this is, among all that share a daemon.
    home_id: String,
    settings: ContainerSettings,
    daemon: Daemon,
}

impl Containers {
    pub fn new(home: Home, settings: ContainerSettings) -> Self {
        let root = std::path::absolute(home.root()).unwrap_or_else(|_| home.root().to_owned());
        let home_id = ContentHash::of(root.as_os_str().as_encoded_bytes()).digits()[..12].to_owned();
        let daemon = Daemon::at(settings.sockets.clone());
        Self { home, home_id, settings, daemon }
    }

    fn dir(&self, dispatch: &DispatchId) -> DispatchDir {
        DispatchDir::new(&self.home, dispatch)
    }

    /// Names the container of a dispatch. A daemon has each name once, so that a dispatch has one container.
    fn name(&self, dispatch: &DispatchId) -> String {
        format!("agora-{}-{dispatch}", self.home_id)
    }

    fn unusable(&self, dir: &DispatchDir, error: io::Error) -> ComputeError {
        ComputeError::Unreachable(self.home.unavailable("look at the worker in", dir.root(), error))
    }

    async fn find(&self, dispatch: &DispatchId) -> Result<Option<Stage>, DaemonError> {
        let api = &self.daemon.connect().await?.api;
        match api.inspect_container(&self.name(dispatch), None::<InspectContainerOptions>).await {
            Ok(found) => Ok(Some(Stage::of(&found.state.unwrap_or_default()))),
            Err(error) => match (Stage::of_podman(&error), DaemonError::from(error)) {
                (Some(stage), _) => Ok(Some(stage)),
                (None, error) if error.is_not_found() => Ok(None),
                (None, error) => Err(error),
            },
        }
    }

    /// Takes a container away, whatever it does. One that is gone is no error, nor one that somebody else is taking away.
    async fn remove(&self, dispatch: &DispatchId) -> Result<(), DaemonError> {
        let api = &self.daemon.connect().await?.api;
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        match api.remove_container(&self.name(dispatch), Some(options)).await.map_err(DaemonError::from) {
            Err(DaemonError::Refused { status: 404 | 409, .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes down how a worker ended, and takes its container away. One that never said anything has done nothing.
    async fn settle(
        &self,
        dispatch: &DispatchId,
        dir: &DispatchDir,
        life: WorkerLife,
    ) -> Result<WorkerLife, ComputeError> {
        let life = match dir.has_past() {
            Ok(true) => life,
            Ok(false) => WorkerLife::Never,
            Err(error) => return Err(self.unusable(dir, error)),
        };
        if life != WorkerLife::Never {
            life::write(&self.home, dir, life).map_err(ComputeError::Unreachable)?;
        }
        self.remove(dispatch).await.map_err(DaemonError::unreachable)?;
        Ok(life)
    }

    /// Looks at a container that was made and not started: somebody is about to, or died.
    async fn settle_made(
        &self,
        dispatch: &DispatchId,
        dir: &DispatchDir,
    ) -> Result<WorkerLife, ComputeError> {
        match Turn::try_take(dir) {
            Ok(None) => Ok(WorkerLife::Running),
            Ok(Some(_turn)) => self.settle(dispatch, dir, WorkerLife::Ended).await,
            // Its place was cleared: nobody starts it any more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.remove(dispatch).await.map_err(DaemonError::unreachable)?;
                Ok(WorkerLife::Never)
            }
            Err(error) => Err(self.unusable(dir, error)),
        }
    }

    /// Returns when the container may be over, or the daemon may be gone: the next look tells.
    async fn until_it_moves(&self, dispatch: &DispatchId) {
        let Ok(daemon) = self.daemon.connect().await else { return };
        let mut ends = daemon.api.wait_container(&self.name(dispatch), None::<WaitContainerOptions>);
        match ends.next().await {
            // An end with another code than 0 comes as an error.
            None | Some(Ok(_) | Err(bollard::errors::Error::DockerContainerWaitError { .. })) => {}
            // So that a daemon that refuses to wait is not asked without end.
            Some(Err(_)) => tokio::time::sleep(GLANCE).await,
        }
    }

    async fn ping(&self) -> Result<(), DaemonError> {
        self.daemon.connect().await?.api.ping().await.map(drop).map_err(DaemonError::from)
    }

    async fn signal(&self, dispatch: &DispatchId, signal: &str) -> Result<(), ComputeError> {
        let api = &self.daemon.connect().await.map_err(DaemonError::unreachable)?.api;
        let options = KillContainerOptionsBuilder::new().signal(signal).build();
        match api.kill_container(&self.name(dispatch), Some(options)).await.map_err(DaemonError::from) {
            // One that has ended gets none: Docker says 409, Podman 500.
            Ok(()) | Err(DaemonError::Refused { status: 404 | 409 | 500, .. }) => Ok(()),
            Err(error) => Err(error.unreachable()),
        }
    }
}

#[async_trait]
impl Compute for Containers {
    async fn prepare(&self) -> Result<Option<ImageId>, ComputeError> {
        image::resolve(&self.daemon, &self.settings.image).await.map(Some)
    }

    fn sight(&self) -> Sight {
        Sight::Own { root: PathBuf::from(ROOT), owner: User::of_this_process().other_than_us() }
    }

    /// A worker may run on without its daemon, and what it says is in files: whoever waits has lost nothing.
    async fn reach(&self) -> Result<(), ComputeError> {
        let mut away = None;
        let back = async {
            while let Err(error) = self.ping().await {
                away = Some(error);
                tokio::time::sleep(GLANCE).await;
            }
        };
        match (tokio::time::timeout(AWAY, back).await, away) {
            (Err(_), Some(error)) => Err(error.unreachable()),
            // It did not even refuse.
            (Err(_), None) => Err(DaemonError::Mute.unreachable()),
            (Ok(()), _) => Ok(()),
        }
    }

    async fn start(&self, launch: Launch) -> Result<(), ComputeError> {
        start::start(self, launch).await
    }

    async fn look(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError> {
        let dir = self.dir(dispatch);
        if let Some(life) = life::read(&dir).map_err(|error| self.unusable(&dir, error))? {
            return Ok(life);
        }
        match self.find(dispatch).await.map_err(DaemonError::unreachable)? {
            Some(Stage::Running) => Ok(WorkerLife::Running),
            Some(Stage::Made) => self.settle_made(dispatch, &dir).await,
            Some(Stage::Over(life)) => self.settle(dispatch, &dir, life).await,
            None => match dir.has_past() {
                Ok(true) => Ok(WorkerLife::Ended),
                Ok(false) => Ok(WorkerLife::Never),
                Err(error) => Err(self.unusable(&dir, error)),
            },
        }
    }

    async fn wait(&self, dispatch: &DispatchId) -> Result<WorkerLife, ComputeError> {
        loop {
            match self.look(dispatch).await {
                Ok(WorkerLife::Running) => self.until_it_moves(dispatch).await,
                Ok(life) => return Ok(life),
                Err(ComputeError::Unreachable(_)) => self.reach().await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn stop(&self, dispatch: &DispatchId, grace: Duration) -> Result<(), ComputeError> {
        if self.look(dispatch).await? != WorkerLife::Running {
            // Somebody may have written down its end and died before the container went.
            return self.remove(dispatch).await.map_err(DaemonError::unreachable);
        }
        self.signal(dispatch, "SIGTERM").await?;
        if let Ok(ended) = tokio::time::timeout(grace, self.wait(dispatch)).await {
            return ended.map(drop);
        }
        self.signal(dispatch, "SIGKILL").await?;
        self.wait(dispatch).await.map(drop)
    }

    async fn leftovers(&self) -> Result<Vec<DispatchId>, ComputeError> {
        let ours = [("label".to_owned(), vec![format!("{HOME_LABEL}={}", self.home_id)])].into();
        let options = ListContainersOptionsBuilder::new().all(true).filters(&ours).build();
        let api = &self.daemon.connect().await.map_err(DaemonError::unreachable)?.api;
        let listed = api.list_containers(Some(options)).await;
        let listed = listed.map_err(|error| DaemonError::from(error).unreachable())?;
        let labels = listed.into_iter().filter_map(|container| container.labels);
        Ok(labels.filter_map(|labels| labels.get(DISPATCH_LABEL)?.parse().ok()).collect())
    }
}

/// Says that a worker was not started.
fn not_started(error: DaemonError) -> ComputeError {
    let doing: Unavailable = error.doing("start the worker's container");
    ComputeError::NotStarted(doing)
}
