//! What happens to workers in containers, the same with every daemon.

use std::time::Duration;

use agora_core::provider::compute::{Compute, ComputeError, WorkerLife};
use agora_core::provider::shelf::Shelf;
use agora_testkit::worker::Dispatch;

use super::place::{IMAGE, Place, id};

/// What no test should come near to, however slow the machine.
const LONG: Duration = Duration::from_secs(60);

/// Starts a worker whose agent waits for its end.
async fn waiting(place: &Place) -> Dispatch {
    place.begun("exec sleep 1000").await
}

/// Another engine of the same home finds the worker, and ends it.
pub(super) async fn another_engine_goes_on(place: Place) {
    let _dispatch = waiting(&place).await;
    let other = place.again();
    assert_eq!(other.look(&id()).await.unwrap(), WorkerLife::Running);
    assert_eq!(other.leftovers().await.unwrap(), [id()]);
    other.stop(&id(), LONG).await.unwrap();
    assert!(place.outcome().await.contains("dispatch.cancelled"));
    assert_eq!(place.ended().await, WorkerLife::Ended);
}

/// Of many starts one runs, also when they are of several engines.
pub(super) async fn of_many_starts_one_runs(place: Place) {
    let dispatch = Dispatch::script("", "true");
    let mut starts = Vec::new();
    for _ in 0..4 {
        let (engine, launch) = (place.again(), dispatch.launch(&place.compute, &place.shelf).await);
        starts.push(tokio::spawn(async move { engine.start(launch).await }));
    }
    let mut started = 0;
    for start in starts {
        match start.await.unwrap() {
            Ok(()) => started += 1,
            Err(error) => assert!(matches!(error, ComputeError::StartedAlready), "{error:?}"),
        }
    }
    assert_eq!(started, 1);
    assert_eq!(place.ended().await, WorkerLife::Ended);
    let lines = place.shelf.lines(&id(), 0).await.unwrap();
    assert_eq!(lines.matches("worker.boot").count(), 1, "{lines}");
}

/// Somebody takes the container away: the worker is over, and left no outcome.
pub(super) async fn a_container_that_somebody_removes_is_over(place: Place) {
    let _dispatch = waiting(&place).await;
    place.ask("DELETE", &format!("/containers/{}?force=true", place.container()), "").await;
    assert_eq!(place.ended().await, WorkerLife::Ended);
    assert_eq!(place.shelf.outcome(&id()).await.unwrap(), None, "whoever waited ends the dispatch");
}

/// An agent that eats memory is ended, and its worker says so.
pub(super) async fn an_agent_that_eats_memory_is_told_apart(place: Place) {
    let eat = "x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo \"${#x}\"";
    let dispatch = Dispatch::script("", eat).with(|manifest| manifest.limits.memory_bytes = Some(96 << 20));
    let _dispatch = place.start(dispatch).await;
    assert_eq!(place.ended().await, WorkerLife::Ended);
    let outcome = place.outcome().await;
    assert!(outcome.contains("out-of-memory"), "{outcome}");
}

/// A stop that nobody obeys becomes a kill, and leaves nothing.
pub(super) async fn a_stop_that_is_not_obeyed_becomes_a_kill(place: Place) {
    let _dispatch = place.begun("trap '' TERM INT HUP; while :; do sleep 1000; done").await;
    place.compute.stop(&id(), Duration::from_millis(50)).await.unwrap();
    assert_eq!(place.ended().await, WorkerLife::Ended);
}

/// What is inside cannot end the worker; what is outside can.
pub(super) async fn only_who_is_outside_ends_the_worker(place: Place) {
    // The pipe is opened after the signals: when it is, they have been sent.
    let script =
        "kill -TERM 1; kill -INT 1; kill -KILL 1; echo still here; echo > signalled; exec sleep 1000";
    let _dispatch = place.with_pipe("signalled", script).await;
    assert_eq!(place.compute.look(&id()).await.unwrap(), WorkerLife::Running);
    place.ask("POST", &format!("/containers/{}/kill?signal=SIGTERM", place.container()), "").await;
    assert_eq!(place.ended().await, WorkerLife::Ended);
    assert!(place.outcome().await.contains("dispatch.cancelled"));
    assert!(place.printed().contains("still here"));
}

/// A worker without an image is not accepted, nor started.
pub(super) async fn without_an_image_nothing_starts(socket: std::path::PathBuf) {
    let place = Place::at(socket, "agora/none:1");
    let missing = place.compute.prepare().await.unwrap_err();
    assert!(matches!(&missing, ComputeError::ImageMissing(image) if image == "agora/none:1"), "{missing:?}");
    let dispatch = Dispatch::script("", "true");
    let refused = place.compute.start(dispatch.launch(&place.compute, &place.shelf).await).await.unwrap_err();
    assert!(matches!(refused, ComputeError::ImageMissing(_)), "{refused:?}");
    assert_eq!(place.compute.leftovers().await.unwrap(), []);
    assert_eq!(place.compute.look(&id()).await.unwrap(), WorkerLife::Never);
}

/// An image without a worker says so, and nothing is left of the attempt.
pub(super) async fn an_image_without_a_worker_does_not_start(place: Place) {
    place.build("agora/silent:latest", "/bin/true").await;
    let place = Place::at(place.socket.clone(), "agora/silent:latest");
    let dispatch = Dispatch::script("", "true");
    let refused = place.compute.start(dispatch.launch(&place.compute, &place.shelf).await).await.unwrap_err();
    assert!(format!("{refused:?}").contains("it ended at once"), "{refused:?}");
    assert!(matches!(refused, ComputeError::NotStarted(_)), "{refused:?}");
    assert_eq!(place.compute.leftovers().await.unwrap(), []);
}

/// A container that was made and not started is what a starter leaves who died: the next one starts.
pub(super) async fn a_starter_that_died_is_in_nobody_s_way(place: Place) {
    let dispatch = Dispatch::script("", "echo done");
    let launch = dispatch.launch(&place.compute, &place.shelf).await;
    let labels = format!(r#"{{"dev.agora.home":"{}","dev.agora.dispatch":"d_1"}}"#, place.home_id());
    let body = format!(r#"{{"Image":"{IMAGE}","Labels":{labels}}}"#);
    place.ask("POST", &format!("/containers/create?name={}", place.container()), &body).await;
    assert_eq!(place.compute.leftovers().await.unwrap(), [id()]);
    place.compute.start(launch).await.unwrap();
    assert_eq!(place.ended().await, WorkerLife::Ended);
    assert!(place.outcome().await.contains("dispatch.finished"));
}

/// The contract again, as it is for everybody who runs a container by hand.
pub(super) async fn what_is_in_a_container(place: Place) {
    let told = place
        .run(
            "id -u; id -g; grep -E '^(Cap(Eff|Bnd|Prm)|NoNewPrivs):' /proc/self/status
             touch /x 2>&1; touch /agora/in/x 2>&1; touch /usr/x 2>&1
             ls /agora; cat /proc/1/environ /proc/1/mem 2>&1; ls /proc/1/fd 2>&1; echo; ls -d /var/run/docker.sock 2>&1
             mount -t tmpfs x /tmp 2>&1 || true",
        )
        .await;
    let user = rustix::process::geteuid().as_raw();
    let user = if user == 0 { agora_core::wall::AGENT_ID } else { user };
    assert!(told.starts_with(&format!("{user}\n")), "{told}");
    for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    for refused in ["'/x': Read-only", "'/agora/in/x': Read-only", "'/usr/x': Read-only"] {
        assert!(told.contains(refused), "{refused}: {told}");
    }
    assert_eq!(told.matches("/proc/1/").count(), told.matches("ermission denied").count(), "{told}");
}
