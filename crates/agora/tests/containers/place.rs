//! A home, a daemon, and an image that was made from this machine's programs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use agora_core::provider::compute::{Compute, WorkerLife};
use agora_core::provider::shelf::Shelf;
use agora_core::wall::Network;
use agora_core::{ContentHash, DispatchId};
use agora_providers::Home;
use agora_providers::compute::image::{self, Recipe};
use agora_providers::compute::{ContainerSettings, Containers, Daemon};
use agora_providers::shelf::LocalShelf;
use agora_testkit::part;
use agora_testkit::worker::Dispatch;
use rustix::fs::{FileType, Mode};
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
        let place = Self::at(socket, IMAGE);
        place.build(IMAGE, env!("CARGO_BIN_EXE_agora")).await;
        Some(place)
    }

    pub(super) async fn build(&self, name: &str, worker: &str) {
        let recipe = Recipe {
            name: name.into(),
            worker: worker.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            with: ["tools", "mount", "prlimit"].map(Into::into).to_vec(),
            path: "/usr/local/bin:/usr/bin:/bin".into(),
        };
        image::build(&Daemon::at(vec![self.socket.clone()]), recipe).await.unwrap();
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

    /// Starts a worker, and returns when its agent has begun.
    #[must_use]
    pub(super) async fn begun(&self, script: &str) -> Dispatch {
        self.with_pipe("began", &format!("echo > began; {script}")).await
    }

    /// Starts a worker whose agent writes to a pipe in its workspace, and returns when it has.
    #[must_use]
    pub(super) async fn with_pipe(&self, name: &str, script: &str) -> Dispatch {
        let dispatch = Dispatch::script("", script);
        let launch = dispatch.launch(&self.compute, &self.shelf).await;
        let pipe = self.dir().join("work").join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        // Whoever made it may have a mask.
        std::fs::set_permissions(&pipe, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let written = tokio::task::spawn_blocking(move || std::fs::read(pipe));
        self.compute.start(launch).await.unwrap();
        written.await.unwrap().unwrap();
        dispatch
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.root.path().join("dispatches/d_1")
    }

    pub(super) async fn outcome(&self) -> String {
        self.shelf.outcome(&id()).await.unwrap().unwrap()
    }

    /// Returns what the agent printed.
    pub(super) fn printed(&self) -> String {
        std::fs::read_to_string(self.dir().join("out/agent.stdout.log")).unwrap_or_default()
    }

    /// Returns which home this is, as its containers say.
    pub(super) fn home_id(&self) -> String {
        ContentHash::of(self.root.path().as_os_str().as_encoded_bytes()).digits()[..12].to_owned()
    }

    pub(super) fn container(&self) -> String {
        format!("agora-{}-d_1", self.home_id())
    }

    /// Asks the daemon for something, as somebody who knows nothing of agora.
    pub(super) async fn ask(&self, method: &str, path: &str, body: &str) {
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let socket = self.socket.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(socket).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let answer = asked.await.unwrap();
        assert!(
            answer.split(' ').nth(1).is_some_and(|status| status.starts_with('2')),
            "{method} {path}: {answer}"
        );
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
        self.printed()
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
