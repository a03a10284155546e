//! What somebody has to do, and when.

use agora_core::job::Attendance;
use agora_core::provider::ledger::{Filter, Paper};
use agora_core::record::{AtExpiry, Record, RouteOutcome};
use agora_core::route::AtEnd;
use agora_core::{ThreadId, Timestamp};

use super::{Scene, with};
use crate::ledger::sample::{
    accept, append, asked, asked_on, continued, continues, ended, failed, finished, job, started, terms,
    tuned,
};

fn texts(ids: Vec<ThreadId>) -> Vec<String> {
    ids.iter().map(ThreadId::to_string).collect()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) async fn carried(scene: &Scene) {
    let carried = async || {
        let mut carried = texts(scene.ledger.carried().await.unwrap());
        carried.sort();
        carried
    };
    assert!(carried().await.is_empty());
    let mut elsewhere = job("t_2", "d_2");
    elsewhere.namespace = "other".parse().unwrap();
    scene.accept(elsewhere).await;
    scene.accept(job("t_1", "d_1")).await;
    assert_eq!(carried().await, ["t_1", "t_2"], "of every namespace");
    scene.happen("t_1", vec![started("d_1")]).await;
    assert_eq!(carried().await, ["t_1", "t_2"]);
    scene.happen("t_1", asked("d_1", "q_1")).await;
    assert_eq!(carried().await, ["t_2"], "one that waits for an answer lies still");
    let cancelled = Record::QuestionCancelled { question_id: "q_1".parse().unwrap(), by: None };
    scene.happen("t_1", vec![cancelled.into(), continues()]).await;
    assert_eq!(carried().await, ["t_1", "t_2"], "it is to go on");
    scene.accept(continued(job("t_1", "d_3"))).await;
    scene.happen("t_1", vec![started("d_3"), finished("d_3")]).await;
    scene.happen("t_2", vec![failed("d_2", None), ended()]).await;
    assert!(carried().await.is_empty());
}

pub(super) async fn due(scene: &Scene) {
    let Scene { ledger, .. } = scene;
    let (one, two, three) =
        (at("2026-11-15T13:00:00Z"), at("2026-11-15T14:00:00Z"), at("2026-11-15T15:00:00Z"));
    assert_eq!(ledger.next_due().await.unwrap(), None);
    let fail = async |thread: &str, attendance: Attendance, retry_at: Option<Timestamp>| {
        let dispatch = thread.replace('t', "d");
        scene.accept(tuned(job(thread, &dispatch), |job| job.attendance = attendance)).await;
        scene.happen(thread, vec![started(&dispatch), failed(&dispatch, retry_at)]).await;
    };
    fail("t_1", Attendance::Detached, Some(two)).await;
    fail("t_2", Attendance::Detached, Some(one)).await;
    fail("t_3", Attendance::Watched, Some(one)).await;
    fail("t_4", Attendance::Retried, Some(one)).await;
    fail("t_5", Attendance::Detached, None).await;
    assert_eq!(ledger.next_due().await.unwrap(), Some(one));
    assert!(ledger.due(at("2026-11-15T12:59:59Z")).await.unwrap().is_empty());
    assert_eq!(texts(ledger.due(one).await.unwrap()), ["t_2"]);
    assert_eq!(texts(ledger.due(three).await.unwrap()), ["t_2", "t_1"], "those due first");
    scene.happen("t_2", vec![continues()]).await;
    assert_eq!(ledger.next_due().await.unwrap(), Some(two), "it has moved on");
    scene.happen("t_1", vec![ended()]).await;
    assert_eq!(ledger.next_due().await.unwrap(), None, "its books are closed");
}

/// A question has timers of its own, and a command of its route wants somebody who asks it.
pub(super) async fn question_timers(scene: &Scene) {
    let Scene { ledger, clock, .. } = scene;
    clock.set("2026-11-15T12:00:00Z");
    let now = at("2026-11-15T12:00:00Z");
    scene.accept(job("t_1", "d_1")).await;
    scene.happen("t_1", vec![started("d_1")]).await;
    scene.happen("t_1", asked_on("d_1", "q_1", terms(now, AtEnd::Fail))).await;
    assert_eq!(texts(ledger.carried().await.unwrap()), ["t_1"], "a command is to be asked");
    assert_eq!(
        ledger.next_due().await.unwrap(),
        Some(at("2026-11-15T13:00:00Z")),
        "somebody is to be reminded"
    );
    let question_id = || "q_1".parse().unwrap();
    let escalate_at = Some(at("2026-11-15T12:30:00Z"));
    let (step, outcome, detail) = (0, RouteOutcome::NoResponse, None);
    let routed = Record::QuestionRouted { question_id: question_id(), step, outcome, detail, escalate_at };
    scene.happen("t_1", vec![routed.into()]).await;
    assert!(ledger.carried().await.unwrap().is_empty(), "people are asked now");
    assert_eq!(texts(ledger.due(at("2026-11-15T12:30:00Z")).await.unwrap()), ["t_1"]);
    let escalated = Record::QuestionEscalated { question_id: question_id(), step: 2, escalate_at: None };
    scene.happen("t_1", vec![escalated.into()]).await;
    let next_at = at("2026-11-22T12:00:00Z");
    scene.happen("t_1", vec![Record::QuestionReminded { question_id: question_id(), next_at }.into()]).await;
    assert_eq!(ledger.next_due().await.unwrap(), Some(at("2026-11-15T21:00:00Z")), "it expires before that");
    let at_expiry = AtExpiry::Fail;
    scene.happen("t_1", vec![Record::QuestionExpired { question_id: question_id(), at_expiry }.into()]).await;
    assert_eq!(ledger.next_due().await.unwrap(), None, "a question that is closed has no timers");
}

pub(super) async fn outbox(scene: &Scene) {
    let Scene { ledger, clock, .. } = scene;
    let tell = |body: &str| Paper::Outgoing { destination: "https://x".into(), body: body.into() };
    ledger.append(with(with(accept(0, job("t_1", "d_1")), tell("one")), tell("two"))).await.unwrap();
    clock.set("2026-11-15T12:30:00Z");
    // Papers may come without entries.
    ledger.append(with(append("t_1", 1, Vec::new()), tell("three"))).await.unwrap();
    assert_eq!(scene.seen("t_1").await, 1);

    let bodies = async |by: &str, most: usize| {
        let out = ledger.outgoing(at(by), most).await.unwrap();
        out.into_iter().map(|out| (out.body, out.tries)).collect::<Vec<_>>()
    };
    let tried = |body: &str, tries: u32| (body.to_owned(), tries);
    assert_eq!(bodies("2026-11-15T11:00:00Z", 9).await, []);
    assert_eq!(bodies("2026-11-15T12:00:00Z", 9).await, [tried("one", 0), tried("two", 0)]);
    assert_eq!(bodies("2026-11-15T12:30:00Z", 1).await, [tried("one", 0)], "oldest first");
    let all = ledger.outgoing(scene.now(), 9).await.unwrap();
    assert_eq!(all[2].destination, "https://x");
    assert_eq!(all[2].thread_id.as_str(), "t_1");

    ledger.told(all[0].id, Some(at("2026-11-15T13:00:00Z"))).await.unwrap();
    ledger.told(all[1].id, None).await.unwrap();
    ledger.told(all[1].id, None).await.expect("told twice is told");
    ledger.told(all[1].id, Some(scene.now())).await.expect("and stays so");
    assert_eq!(bodies("2026-11-15T12:59:00Z", 9).await, [tried("three", 0)]);
    assert_eq!(bodies("2026-11-15T13:00:00Z", 9).await, [tried("one", 1), tried("three", 0)]);
    let again = ledger.outgoing(at("2026-11-15T13:00:00Z"), 1).await.unwrap();
    assert_eq!(again[0].id, all[0].id, "the same at every try");
}

pub(super) async fn expired_and_forgotten(scene: &Scene) {
    let Scene { ledger, clock, .. } = scene;
    let close = async |thread: &str, days: u32| {
        let dispatch = thread.replace('t', "d");
        let tell = Paper::Outgoing { destination: "x".into(), body: "y".into() };
        let job = tuned(job(thread, &dispatch), |job| job.retention_days = days);
        ledger.append(with(accept(0, job), tell)).await.unwrap();
        scene.happen(thread, vec![started(&dispatch), finished(&dispatch), ended()]).await;
    };
    close("t_1", 2).await;
    clock.set("2026-11-15T12:00:01Z");
    close("t_2", 1).await;
    close("t_3", 30).await;
    scene.finish("t_4", "d_4").await;
    let expired = async |by: &str, most: usize| texts(ledger.expired(at(by), most).await.unwrap());
    assert!(expired("2026-11-16T12:00:00Z", 9).await.is_empty());
    assert_eq!(expired("2026-11-16T12:00:01Z", 9).await, ["t_2"]);
    assert_eq!(expired("2026-11-18T00:00:00Z", 9).await, ["t_1", "t_2"], "oldest first");
    assert_eq!(expired("2026-11-18T00:00:00Z", 1).await, ["t_1"]);
    assert_eq!(expired("2027-11-18T00:00:00Z", 9).await, ["t_1", "t_2", "t_3"], "t_4 has not ended");

    let forget = async |thread: &str| ledger.forget(&thread.parse().unwrap()).await.unwrap();
    assert!(!forget("t_9").await && !forget("t_4").await);
    assert!(forget("t_2").await);
    assert!(!forget("t_2").await, "it is forgotten");
    assert_eq!(expired("2026-11-18T00:00:00Z", 9).await, ["t_1"]);
    let gone = "t_2".parse().unwrap();
    assert_eq!(ledger.thread(&gone).await.unwrap(), None);
    assert_eq!(ledger.read(&gone, 0, 9).await.unwrap(), []);
    assert_eq!(ledger.dispatch(&"d_2".parse().unwrap()).await.unwrap(), None);
    assert!(ledger.outgoing(scene.now(), 9).await.unwrap().iter().all(|out| out.thread_id != gone));
    let left = ledger.list(&Filter { most: 9, ..Filter::default() }).await.unwrap();
    let left: Vec<_> = left.iter().map(|row| row.dispatch_id.as_str()).collect();
    assert_eq!(left, ["d_4", "d_3", "d_1"]);

    // One that goes on does not expire, and counts anew when it ends again.
    scene.happen("t_1", vec![continues()]).await;
    assert!(expired("2026-11-18T00:00:00Z", 9).await.is_empty() && !forget("t_1").await);
    clock.set("2026-11-20T12:00:00Z");
    scene.happen("t_1", vec![Record::ThreadCancelled { by: None }.into(), ended()]).await;
    assert!(expired("2026-11-21T00:00:00Z", 9).await.is_empty());
    assert_eq!(expired("2026-11-22T12:00:00Z", 9).await, ["t_1"]);
}

pub(super) async fn watched(scene: &Scene) {
    let (mut one, mut other) = (scene.ledger.watch().unwrap(), scene.ledger.watch().unwrap());
    scene.accept(job("t_1", "d_1")).await;
    one.next().await.unwrap();
    other.next().await.unwrap();
    drop(other);
    let heard = tokio::join!(one.next(), scene.happen("t_1", vec![started("d_1")])).0;
    heard.unwrap();
    scene.ledger.wish_cancel(&"t_1".parse().unwrap(), None).await.unwrap();
    one.next().await.unwrap();
}
