use std::time::Duration;

use agora_core::DispatchId;
use agora_core::provider::compute::{Compute, ComputeError, WorkerLife};
use agora_core::provider::shelf::Shelf;

use crate::worker::Dispatch;

/// How long a worker may take to end by itself: no test should come near to it.
const LONG: Duration = Duration::from_secs(60);

/// Every `Compute` passes this, with the real worker and the shelf that its workers use.
pub async fn compute(compute: &dyn Compute, shelf: &dyn Shelf) {
    nothing_is_there(compute).await;
    one_runs(compute, shelf).await;
    a_second_start_is_refused_while_the_first_runs(compute, shelf).await;
    one_that_was_ended_before_does_not_start(compute, shelf).await;
}

async fn nothing_is_there(compute: &dyn Compute) {
    let id: DispatchId = "d_none".parse().unwrap();
    assert_eq!(compute.look(&id).await.unwrap(), WorkerLife::Never);
    assert_eq!(compute.wait(&id).await.unwrap(), WorkerLife::Never);
    compute.stop(&id, LONG).await.expect("stopping nothing is no error");
}

async fn one_runs(compute: &dyn Compute, shelf: &dyn Shelf) {
    let dispatch = named("d_1", "echo done");
    let id = dispatch.manifest.dispatch_id.clone();
    let launch = dispatch.launch(compute, shelf).await;
    assert_eq!(compute.look(&id).await.unwrap(), WorkerLife::Never, "staging starts nothing");
    compute.start(launch).await.unwrap();
    shelf.more_lines(&id, 0).await.unwrap();
    assert_eq!(compute.wait(&id).await.unwrap(), WorkerLife::Ended);
    assert_eq!(compute.look(&id).await.unwrap(), WorkerLife::Ended);
    let lines = shelf.lines(&id, 0).await.unwrap();
    let outcome = shelf.outcome(&id).await.unwrap().unwrap();
    assert!(outcome.contains("dispatch.finished"), "{outcome}");
    assert_eq!(lines.lines().last(), Some(outcome.as_str()), "the outcome is the last line");
    assert!(shelf.report(&id).await.unwrap().is_some());
    let again = compute.start(dispatch.launch(compute, shelf).await).await.unwrap_err();
    assert!(matches!(again, ComputeError::StartedAlready), "{again:?}");
    assert_eq!(shelf.lines(&id, 0).await.unwrap(), lines, "a dispatch has one worker, ever");
    compute.stop(&id, LONG).await.expect("stopping one that has ended is no error");
}

async fn a_second_start_is_refused_while_the_first_runs(compute: &dyn Compute, shelf: &dyn Shelf) {
    let dispatch = named("d_2", "exec sleep 1000");
    let id = dispatch.manifest.dispatch_id.clone();
    compute.start(dispatch.launch(compute, shelf).await).await.unwrap();
    assert_eq!(compute.look(&id).await.unwrap(), WorkerLife::Running);
    let again = compute.start(dispatch.launch(compute, shelf).await).await.unwrap_err();
    assert!(matches!(again, ComputeError::StartedAlready), "{again:?}");
    // Once it has begun, so that it ends as one that was cancelled does.
    shelf.more_lines(&id, 0).await.unwrap();
    let (waited, stopped) = tokio::join!(compute.wait(&id), compute.stop(&id, LONG));
    stopped.unwrap();
    assert_eq!(waited.unwrap(), WorkerLife::Ended);
    let outcome = shelf.outcome(&id).await.unwrap().unwrap();
    assert!(outcome.contains("dispatch.cancelled"), "a stop is soft first: {outcome}");
}

async fn one_that_was_ended_before_does_not_start(compute: &dyn Compute, shelf: &dyn Shelf) {
    let dispatch = named("d_3", "true");
    let id = dispatch.manifest.dispatch_id.clone();
    let launch = dispatch.launch(compute, shelf).await;
    shelf.conclude(&id, "somebody ended it").await.unwrap();
    let refused = compute.start(launch).await.unwrap_err();
    assert!(matches!(refused, ComputeError::StartedAlready), "{refused:?}");
    assert_eq!(shelf.lines(&id, 0).await.unwrap(), "");
    assert_eq!(compute.wait(&id).await.unwrap(), WorkerLife::Ended);
}

fn named(id: &str, script: &str) -> Dispatch {
    Dispatch::script("", script).with(|manifest| manifest.dispatch_id = id.parse().unwrap())
}
