//! A home, a daemon, and an image that was made from this machine's programs.

use std::path::PathBuf;

use agora_core::DispatchId;
use agora_core::provider::compute::{Compute, WorkerLife};
use agora_providers::Home;
use agora_providers::compute::image::{self, Recipe};
use agora_providers::compute::{ContainerSettings, Containers, Daemon, Network};
use agora_providers::shelf::LocalShelf;
use agora_testkit::part;
use agora_testkit::worker::Dispatch;
use tempfile::TempDir;

pub(super) const DOCKER: &str = "AGORA_TEST_DOCKER_HOST";
pub(super) const PODMAN: &str = "AGORA_TEST_PODMAN_HOST";
pub(super) const IMAGE: &str = "agora/test:latest";

/// A home, and what runs workers of it in containers.
pub(super) struct Place {
    pub(super) root: TempDir,
    pub(super) socket: PathBuf,
    pub(super) shelf: LocalShelf,
    pub(super) compute: Containers,
}

/// Finds a daemon, or says that the test goes without it.
pub(super) fn socket(variable: &str) -> Option<PathBuf> {
    let host = part::find(variable)?;
    Some(host.to_str().unwrap().trim_start_matches("unix://").into())
}

impl Place {
    /// Makes the image, which takes no time when it is there.
    pub(super) async fn new(variable: &str) -> Option<Self> {
        let socket = socket(variable)?;
        let recipe = Recipe {
            name: IMAGE.into(),
            worker: env!("CARGO_BIN_EXE_agora").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            with: vec!["tools".into()],
            path: "/usr/local/bin:/usr/bin:/bin".into(),
        };
        image::build(&Daemon::at(vec![socket.clone()]), recipe).await.unwrap();
        Some(Self::at(socket, IMAGE))
    }

    /// A home of its own at a daemon, with an image that may not be there.
    pub(super) fn at(socket: PathBuf, image: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = Home::new(root.path());
        let compute = Containers::new(home.clone(), settings(&socket, image));
        Self { shelf: LocalShelf::new(home), compute, socket, root }
    }

    /// Another engine of the same home.
    pub(super) fn again(&self) -> Containers {
        Containers::new(Home::new(self.root.path()), settings(&self.socket, IMAGE))
    }

    /// Starts a worker. What is returned has its bundles.
    #[must_use]
    pub(super) async fn start(&self, dispatch: Dispatch) -> Dispatch {
        self.compute.start(dispatch.launch(&self.compute, &self.shelf).await).await.unwrap();
        dispatch
    }

    /// Waits for a dispatch, and sees that nothing of it is left.
    pub(super) async fn ended(&self) -> WorkerLife {
        let life = self.compute.wait(&id()).await.unwrap();
        assert_eq!(self.compute.leftovers().await.unwrap(), [], "the container is gone");
        life
    }

    /// Runs a script to its end, and returns what it printed.
    pub(super) async fn run(&self, script: &str) -> String {
        let _dispatch = self.start(Dispatch::script("", script)).await;
        assert_eq!(self.ended().await, WorkerLife::Ended);
        std::fs::read_to_string(self.root.path().join("dispatches/d_1/out/agent.stdout.log"))
            .unwrap_or_default()
    }
}

fn settings(socket: &std::path::Path, image: &str) -> ContainerSettings {
    ContainerSettings {
        sockets: vec![socket.to_owned()],
        image: image.into(),
        network: Network::Open,
        milli_cpus: None,
    }
}

pub(super) fn id() -> DispatchId {
    "d_1".parse().unwrap()
}
