//! Workers as processes, with the real one: each has one life, and leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use agora_core::DispatchId;
use agora_core::provider::compute::{Compute, ComputeError, WorkerLife};
use agora_core::provider::shelf::Shelf;
use agora_core::wall::Isolation;
use agora_core::wire::bootstrap::Supplied;
use agora_providers::Home;
use agora_providers::compute::{LocalProcess, WorkerProgram};
use agora_providers::shelf::LocalShelf;
use agora_testkit::contract;
use agora_testkit::pipe::LifePipe;
use agora_testkit::worker::Dispatch;
use serde_json::Value;
use tempfile::TempDir;

/// What no test should come near to, however slow the machine.
const LONG: Duration = Duration::from_secs(60);
/// For one that is to be ended by force.
const SHORT: Duration = Duration::from_millis(50);

/// A home, and what runs workers in it.
struct Place {
    root: TempDir,
    shelf: LocalShelf,
    compute: LocalProcess,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let shelf = LocalShelf::new(Home::new(root.path()));
        let compute = process(&root, env!("CARGO_BIN_EXE_agora"));
        Self { root, shelf, compute }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("dispatches/d_1")
    }

    /// Returns the worker's process.
    fn worker(&self) -> u32 {
        let text = fs::read_to_string(self.dir().join("in/worker.json")).unwrap();
        let identity: Value = serde_json::from_str(&text).unwrap();
        u32::try_from(identity["pid"].as_u64().unwrap()).unwrap()
    }

    /// Starts a worker. What is returned has its bundles.
    #[must_use]
    async fn start(&self, script: &str) -> Dispatch {
        // Without a wall: these scripts tell through a pipe of the machine whether they are alive.
        let dispatch =
            Dispatch::script("", script).with(|manifest| manifest.wall.isolation = Isolation::None);
        self.compute.start(dispatch.launch(&self.compute, &self.shelf).await).await.unwrap();
        dispatch
    }

    async fn look(&self) -> WorkerLife {
        self.compute.look(&id()).await.unwrap()
    }
}

fn process(root: &TempDir, program: &str) -> LocalProcess {
    let worker = WorkerProgram { program: program.into(), arguments: vec!["worker".into(), "run".into()] };
    // The engine's own variables do not go on: a worker refuses what it does not know.
    let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("AGORA_HOME", "/elsewhere")];
    let environment = environment.map(|(name, value)| (name.into(), value.into())).into();
    LocalProcess::new(Home::new(root.path()), worker, environment)
}

fn id() -> DispatchId {
    "d_1".parse().unwrap()
}

/// An agent that ends for nobody, and has something started that is nobody's child.
fn stubborn(pipe: &LifePipe) -> String {
    let pipe = pipe.path();
    let pipe = pipe.display();
    format!(
        "exec 3>'{pipe}'; trap '' TERM INT HUP
         (setsid sh -c 'trap \"\" TERM INT HUP; echo ready >&3; while :; do sleep 1000; done' &)
         while :; do sleep 1000; done"
    )
}

#[tokio::test]
async fn it_keeps_the_contract() {
    let place = Place::new();
    contract::compute(&place.compute, &place.shelf).await;
}

#[tokio::test]
async fn a_stop_leaves_nothing_also_of_one_that_ends_for_nobody() {
    let (place, pipe) = (Place::new(), LifePipe::new());
    let _dispatch = place.start(&stubborn(&pipe)).await;
    let mut pipe = pipe.ready_async().await;
    assert_eq!(place.look().await, WorkerLife::Running);
    place.compute.stop(&id(), SHORT).await.unwrap();
    assert!(pipe.is_over(), "something is left");
    assert_eq!(place.look().await, WorkerLife::Ended);
    assert_eq!(place.compute.wait(&id()).await.unwrap(), WorkerLife::Ended);
}

#[tokio::test]
async fn a_killed_worker_is_over_when_its_guard_is() {
    let (place, pipe) = (Place::new(), LifePipe::new());
    let _dispatch = place.start(&stubborn(&pipe)).await;
    let mut pipe = pipe.ready_async().await;
    let waiting = {
        let compute = place.compute.clone();
        tokio::spawn(async move { compute.wait(&id()).await })
    };
    kill(place.worker());
    assert_eq!(waiting.await.unwrap().unwrap(), WorkerLife::Ended);
    assert!(pipe.is_over(), "the wait was over before the guard was done");
    assert_eq!(place.look().await, WorkerLife::Ended);
    assert_eq!(place.shelf.outcome(&id()).await.unwrap(), None, "whoever waited ends the dispatch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_starts_one_runs() {
    for _ in 0..5 {
        let place = Place::new();
        let dispatch = Arc::new(Dispatch::script("", "true"));
        let mut starts = Vec::new();
        for _ in 0..4 {
            let launch = dispatch.launch(&place.compute, &place.shelf).await;
            let compute = process(&place.root, env!("CARGO_BIN_EXE_agora"));
            starts.push(tokio::spawn(async move { compute.start(launch).await }));
        }
        let looking = place.compute.clone();
        let looking =
            tokio::spawn(async move { while looking.look(&id()).await.unwrap() != WorkerLife::Ended {} });
        let mut started = 0;
        for start in starts {
            match start.await.unwrap() {
                Ok(()) => started += 1,
                Err(error) => assert!(matches!(error, ComputeError::StartedAlready), "{error:?}"),
            }
        }
        assert_eq!(started, 1);
        looking.await.unwrap();
        assert_eq!(place.compute.wait(&id()).await.unwrap(), WorkerLife::Ended);
        let lines = place.shelf.lines(&id(), 0).await.unwrap();
        assert_eq!(lines.matches("worker.boot").count(), 1, "{lines}");
    }
}

/// Does what a starter does that is killed before the bootstrap: the worker's input ends without a line.
#[tokio::test]
async fn a_worker_whose_starter_was_killed_has_done_nothing_and_starts_again() {
    let place = Place::new();
    let dispatch = Dispatch::script("", "true");
    let launch = dispatch.launch(&place.compute, &place.shelf).await;
    let out = place.dir().join("out");
    let life = File::create(out.join("worker.stderr")).unwrap();
    life.try_lock().unwrap();
    let mut worker = agora_testkit::cli::command(env!("CARGO_BIN_EXE_agora"))
        .args(["worker", "run"])
        .env_clear()
        .env("AGORA_DISPATCH_ID", "d_1")
        .env("AGORA_DISPATCH_DIR", place.dir())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(File::create(out.join("events.jsonl")).unwrap())
        .stderr(life)
        .spawn()
        .unwrap();
    assert_eq!(place.look().await, WorkerLife::Running);
    let refused = place.compute.start(dispatch.launch(&place.compute, &place.shelf).await).await.unwrap_err();
    assert!(matches!(refused, ComputeError::StartedAlready), "{refused:?}");
    drop(worker.stdin.take());
    assert_eq!(place.compute.wait(&id()).await.unwrap(), WorkerLife::Never);
    worker.wait().unwrap();
    place.compute.start(launch).await.unwrap();
    assert_eq!(place.compute.wait(&id()).await.unwrap(), WorkerLife::Ended);
    assert!(place.shelf.outcome(&id()).await.unwrap().unwrap().contains("dispatch.finished"));
}

#[tokio::test]
async fn a_start_that_fails_leaves_nothing() {
    let place = Place::new();
    let dispatch = Dispatch::script("", "true");
    // One that is not there, and one that ends before it has read a line that is longer than a pipe.
    let long = "x".repeat(1 << 20);
    for program in ["/nowhere/agora", "/bin/false"] {
        let dispatch = Dispatch::script("", "true").no_secret("local:x", Supplied::Missing(long.clone()));
        let launch = dispatch.launch(&place.compute, &place.shelf).await;
        let failed = process(&place.root, program).start(launch).await.unwrap_err();
        assert!(matches!(failed, ComputeError::NotStarted(_)), "{failed:?}");
        assert_eq!(place.look().await, WorkerLife::Never);
        assert!(!place.dir().join("in/worker.json").exists());
    }
    place.compute.start(dispatch.launch(&place.compute, &place.shelf).await).await.unwrap();
    assert_eq!(place.compute.wait(&id()).await.unwrap(), WorkerLife::Ended);
}

#[tokio::test]
async fn an_agent_has_no_part_in_the_worker_s_life() {
    let place = Place::new();
    let _dispatch = place.start("for one in /proc/self/fd/*; do readlink $one; done; echo that is all").await;
    assert_eq!(place.compute.wait(&id()).await.unwrap(), WorkerLife::Ended);
    let lines = place.shelf.lines(&id(), 0).await.unwrap();
    assert!(lines.contains("that is all"), "{lines}");
    assert!(!lines.contains("worker.stderr") && !lines.contains("events.jsonl"), "{lines}");
}

#[tokio::test]
async fn after_another_boot_a_worker_that_said_nothing_is_over() {
    let place = Place::new();
    let launch = Dispatch::script("", "true").launch(&place.compute, &place.shelf).await;
    let identity = r#"{"pid":1,"startTime":1,"bootId":"another"}"#;
    fs::write(place.dir().join("in/worker.json"), identity).unwrap();
    assert_eq!(place.look().await, WorkerLife::Ended);
    place.compute.stop(&id(), LONG).await.unwrap();
    let refused = place.compute.start(launch).await.unwrap_err();
    assert!(matches!(refused, ComputeError::StartedAlready), "{refused:?}");
}

/// A process that has the id of a worker that is gone is somebody else.
#[tokio::test]
async fn a_stranger_is_never_signalled() {
    let place = Place::new();
    let _dispatch = place.start("true").await;
    assert_eq!(place.compute.wait(&id()).await.unwrap(), WorkerLife::Ended);
    let mut stranger = agora_testkit::cli::command("sleep").arg("1000").spawn().unwrap();
    let path = place.dir().join("in/worker.json");
    let mut identity: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    identity["pid"] = stranger.id().into();
    fs::write(&path, identity.to_string()).unwrap();
    place.compute.stop(&id(), SHORT).await.unwrap();
    assert!(stranger.try_wait().unwrap().is_none(), "it lives");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Sends SIGKILL to one process.
fn kill(process: u32) {
    let sent = agora_testkit::cli::command("kill").args(["-KILL", &process.to_string()]).status().unwrap();
    assert!(sent.success());
}
