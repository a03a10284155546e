//! Threads and dispatches as they stand.

use agora_core::answer::Answerer;
use agora_core::provider::ledger::{CancelWish, DispatchView, Paper, ThreadView};
use agora_core::state::{DispatchState, QuestionState, Thread, ThreadState};

use super::{Scene, mark, with};
use crate::ledger::sample::{append, asked, cancelled, continued, continues, finished, job, started};

pub(super) async fn threads(scene: &Scene) {
    let id = "t_1".parse().unwrap();
    assert_eq!(scene.ledger.thread(&id).await.unwrap(), None);
    let began_at = scene.now();
    scene.accept(job("t_1", "d_1")).await;
    scene.clock.set("2026-11-15T12:05:00Z");
    scene.happen("t_1", vec![started("d_1")]).await;
    scene.happen("t_1", asked("d_1", "q_1")).await;
    let entries = scene.ledger.read(&id, 0, 10).await.unwrap();
    let folded = entries[1..]
        .iter()
        .try_fold(Thread::begin(&entries[0].what).unwrap(), |thread, entry| thread.after(&entry.what));
    let expected = ThreadView {
        namespace: agora_core::Namespace::default(),
        thread_id: id.clone(),
        seen: 4,
        thread: folded.unwrap(),
        began_at,
        moved_at: scene.now(),
        cancel_wish: None,
    };
    let view = scene.ledger.thread(&id).await.unwrap().unwrap();
    assert_eq!(view, expected);
    assert_eq!(*view.thread.state(), ThreadState::Waiting);
    assert_eq!(view.thread.questions()[0].state, QuestionState::Open);
}

pub(super) async fn dispatches(scene: &Scene) {
    let Scene { ledger, clock, .. } = scene;
    let id = "d_1".parse().unwrap();
    assert_eq!(ledger.dispatch(&id).await.unwrap(), None);
    let mut job = job("t_1", "d_1");
    job.labels = vec!["nightly".parse().unwrap()];
    job.priority = -3;
    let accepted_at = scene.now();
    scene.accept(job.clone()).await;
    let accepted = DispatchView {
        job,
        state: DispatchState::Accepted,
        accepted_at,
        started_at: None,
        ended_at: None,
        duration_ms: None,
        claim: None,
        report: None,
    };
    assert_eq!(ledger.dispatch(&id).await.unwrap(), Some(accepted.clone()));

    ledger.claim(&id, mark("boot"), 1).await.unwrap();
    clock.set("2026-11-15T12:01:00Z");
    let started_at = scene.now();
    scene.happen("t_1", vec![started("d_1")]).await;
    clock.set("2026-11-15T12:02:00Z");
    let report = Paper::Report { dispatch_id: id.clone(), text: "as it wrote it\n".into() };
    ledger.append(with(append("t_1", 2, vec![finished("d_1")]), report)).await.unwrap();
    let over = DispatchView {
        state: DispatchState::Finished,
        started_at: Some(started_at),
        ended_at: Some(scene.now()),
        duration_ms: Some(5),
        claim: Some(mark("boot")),
        report: Some("as it wrote it\n".into()),
        ..accepted
    };
    assert_eq!(ledger.dispatch(&id).await.unwrap(), Some(over.clone()));

    // The next one of the thread has its own times.
    scene.happen("t_1", vec![continues()]).await;
    clock.set("2026-11-15T12:03:00Z");
    scene.accept(continued(crate::ledger::sample::job("t_1", "d_2"))).await;
    let next = ledger.dispatch(&"d_2".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((next.accepted_at, next.started_at, next.report), (scene.now(), None, None));
    assert_eq!(ledger.dispatch(&id).await.unwrap(), Some(over));
}

pub(super) async fn cancel_wishes(scene: &Scene) {
    let Scene { ledger, clock, .. } = scene;
    let id = "t_1".parse().unwrap();
    let wish = async || ledger.thread(&id).await.unwrap().unwrap().cancel_wish;
    let ann = Answerer::new("user:ann", "cli");
    assert!(!ledger.wish_cancel(&id, None).await.unwrap(), "there is no such thread");
    scene.accept(job("t_1", "d_1")).await;
    assert!(ledger.wish_cancel(&id, Some(&ann)).await.unwrap());
    let first = Some(CancelWish { at: scene.now(), by: Some(ann) });
    clock.set("2026-11-15T12:10:00Z");
    assert!(ledger.wish_cancel(&id, None).await.unwrap(), "it may be wished again");
    assert_eq!(wish().await, first, "the first wish counts");
    scene.happen("t_1", vec![started("d_1")]).await;
    assert_eq!(wish().await, first);
    scene.happen("t_1", vec![cancelled("d_1")]).await;
    assert_eq!(wish().await, None, "the dispatch has ended");
    assert!(!ledger.wish_cancel(&id, None).await.unwrap(), "none is live");

    scene.happen("t_1", vec![continues()]).await;
    scene.accept(continued(job("t_1", "d_2"))).await;
    assert_eq!(wish().await, None);
    assert!(ledger.wish_cancel(&id, None).await.unwrap());
    // One ends and the next is accepted in one append: the wish was for the one that ended.
    let both = vec![started("d_2"), finished("d_2"), continues()];
    let mut append = crate::ledger::sample::accept(scene.seen("t_1").await, continued(job("t_1", "d_3")));
    append.what.splice(0..0, both);
    ledger.append(append).await.unwrap();
    assert_eq!(wish().await, None);
}
