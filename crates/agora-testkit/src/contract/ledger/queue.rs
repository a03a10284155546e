//! Who waits at a target, and who may start.

use agora_core::job::Job;
use agora_core::provider::ledger::{Claim, Paper};
use agora_core::{DispatchId, Name, ThreadId};

use super::{Scene, mark};
use crate::ledger::sample::{accept, cancelled, continued, continues, finished, job, started, tuned};

fn id(text: &str) -> DispatchId {
    text.parse().unwrap()
}

async fn head(scene: &Scene, target: &str, most: u32) -> Vec<String> {
    let target: Name = target.parse().unwrap();
    scene.ledger.head(&target, most).await.unwrap().iter().map(DispatchId::to_string).collect()
}

pub(super) async fn order(scene: &Scene) {
    assert!(head(scene, "local", 9).await.is_empty());
    assert_eq!(scene.ledger.place(&id("d_1")).await.unwrap(), None);
    scene.finish("t_0", "d_0").await;
    scene.happen("t_0", vec![continues()]).await;
    for (dispatch, priority) in [("d_1", 0), ("d_2", 5), ("d_3", 0), ("d_4", -1), ("d_5", 5)] {
        let thread = dispatch.replace('d', "t");
        scene.accept(tuned(job(&thread, dispatch), |job| job.priority = priority)).await;
    }
    scene.accept(tuned(continued(job("t_0", "d_6")), |job| job.priority = -9)).await;
    let elsewhere = |job: &mut Job| (job.target, job.priority) = ("elsewhere".parse().unwrap(), 99);
    scene.accept(tuned(job("t_7", "d_7"), elsewhere)).await;

    let order = ["d_6", "d_2", "d_5", "d_1", "d_3", "d_4"];
    assert_eq!(head(scene, "local", 99).await, order, "continued first, then by priority, then in order");
    assert_eq!(head(scene, "local", 2).await, order[..2]);
    assert!(head(scene, "local", 0).await.is_empty());
    assert_eq!(head(scene, "elsewhere", 1).await, ["d_7"]);
    for (ahead, dispatch) in (0..).zip(order) {
        assert_eq!(scene.ledger.place(&id(dispatch)).await.unwrap(), Some(ahead));
    }
    assert_eq!(scene.ledger.place(&id("d_7")).await.unwrap(), Some(0), "a target has its own queue");
    assert_eq!(scene.ledger.place(&id("d_0")).await.unwrap(), None, "it has ended");

    scene.happen("t_2", vec![cancelled("d_2")]).await;
    assert_eq!(head(scene, "local", 2).await, ["d_6", "d_5"], "one that was cancelled does not wait");
}

pub(super) async fn room(scene: &Scene) {
    for number in 1..=4 {
        scene.accept(job(&format!("t_{number}"), &format!("d_{number}"))).await;
    }
    let claim = |dispatch: &str| {
        let dispatch = id(dispatch);
        async move { scene.ledger.claim(&dispatch, mark("b"), 2).await.unwrap() }
    };
    assert_eq!(claim("d_3").await, Claim::Waits { ahead: 2 }, "two come before it");
    assert_eq!(claim("d_2").await, Claim::Granted, "it is among the head");
    assert_eq!(head(scene, "local", 2).await, ["d_1"]);
    assert_eq!(claim("d_3").await, Claim::Waits { ahead: 1 });
    assert_eq!(claim("d_1").await, Claim::Granted);
    assert!(head(scene, "local", 2).await.is_empty(), "there is no room");
    let underway = scene.ledger.underway(&"local".parse().unwrap()).await.unwrap();
    assert_eq!(underway.iter().map(ThreadId::as_str).collect::<Vec<_>>(), ["t_1", "t_2"]);
    assert_eq!(claim("d_3").await, Claim::Waits { ahead: 0 });
    assert_eq!(scene.ledger.place(&id("d_3")).await.unwrap(), Some(0));
    assert_eq!(scene.ledger.place(&id("d_1")).await.unwrap(), None, "it does not wait");
    scene.happen("t_1", vec![started("d_1")]).await;
    assert_eq!(claim("d_3").await, Claim::Waits { ahead: 0 }, "a dispatch that runs takes up room");
    scene.happen("t_1", vec![finished("d_1")]).await;
    assert_eq!(claim("d_3").await, Claim::Granted, "until it has ended");
    assert_eq!(claim("d_4").await, Claim::Waits { ahead: 0 });
    let wider = scene.ledger.claim(&id("d_4"), mark("b"), 3).await.unwrap();
    assert_eq!(wider, Claim::Granted, "how much room there is, the caller says");
}

/// Room can be taken with the acceptance itself, and nobody is overtaken by it.
pub(super) async fn room_at_once(scene: &Scene) {
    let accept = async |number: u32, most: u32| {
        let dispatch = format!("d_{number}");
        let mut append = accept(0, job(&format!("t_{number}"), &dispatch));
        append.papers.push(Paper::Claim { dispatch_id: id(&dispatch), mark: mark("b"), most });
        scene.ledger.append(append).await.unwrap();
        scene.ledger.dispatch(&id(&dispatch)).await.unwrap().unwrap().claim
    };
    assert_eq!(accept(1, 2).await, Some(mark("b")));
    scene.accept(job("t_2", "d_2")).await;
    assert_eq!(accept(3, 2).await, None, "somebody comes before it");
    assert_eq!(scene.ledger.place(&id("d_3")).await.unwrap(), Some(1), "it waits like everybody else");
    assert_eq!(accept(4, 4).await, Some(mark("b")), "there is room for all of them");
    assert_eq!(accept(5, 2).await, None, "there is none");
}

pub(super) async fn claims(scene: &Scene) {
    let Scene { ledger, .. } = scene;
    let take = async |boot: &str| ledger.claim(&id("d_1"), mark(boot), 1).await.unwrap();
    let retake =
        async |seen: &str, boot: &str| ledger.reclaim(&id("d_1"), &mark(seen), mark(boot)).await.unwrap();
    assert_eq!(take("one").await, Claim::Over, "there is no such dispatch");
    assert!(!retake("one", "two").await);
    scene.accept(job("t_1", "d_1")).await;
    assert!(!retake("one", "two").await, "nobody claimed it");
    assert_eq!(take("one").await, Claim::Granted);
    assert_eq!(take("two").await, Claim::Earlier(mark("one")), "it is granted once");
    assert!(!retake("zero", "two").await, "it is not as the caller saw it");
    assert!(retake("one", "two").await);
    assert!(!retake("one", "three").await, "somebody else was faster");
    assert_eq!(take("one").await, Claim::Earlier(mark("two")));
    assert_eq!(ledger.dispatch(&id("d_1")).await.unwrap().unwrap().claim, Some(mark("two")));
    scene.happen("t_1", vec![started("d_1"), finished("d_1")]).await;
    assert_eq!(take("one").await, Claim::Over);
    assert!(!retake("two", "three").await, "it has ended");
    assert_eq!(ledger.dispatch(&id("d_1")).await.unwrap().unwrap().claim, Some(mark("two")));
}
