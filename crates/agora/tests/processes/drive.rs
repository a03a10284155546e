//! A thread driven by whoever holds it, while others answer, time runs out and the ground moves.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agora_core::answer::Answerer;
use agora_core::route::{AgentsMay, AtEnd, IfStale, Route, Routes};
use agora_core::state::{QuestionState, ThreadState};
use agora_engine::{Dispatch, DispatchResult, Error, InboxNews, Reaction, Refusal, Thread};
use serde_json::json;

use crate::outcomes::{Scene, a, by, for_ann, routed, scene};

const LATER: &str = "2026-11-15T14:00:00Z";

/// What nothing here comes near to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whoever dispatches, and is asked.
static OLGA: LazyLock<Answerer> = LazyLock::new(|| by("user:olga"));

async fn dispatched(scene: &Scene) -> Thread {
    scene.agora.dispatch(Dispatch::to("asker").owner("user:olga")).await.unwrap()
}

fn expiring(then: AtEnd) -> Routes {
    routed(Route { expires: Some((3_600_000, then)), ..Route::default() })
}

/// Asserts how it went on: with which answer, by whom.
fn went_on_with(done: &DispatchResult, answer: &str, who: &str) {
    assert_eq!(done.state, "finished", "{done:?}");
    let resumed: serde_json::Value = serde_json::from_str(&done.output.text).unwrap();
    assert_eq!((&resumed["answer"], &resumed["answeredBy"]), (&json!(answer), &json!(who)));
}

#[tokio::test]
async fn somebody_else_may_be_faster_than_whoever_is_asked() {
    let scene = scene(Routes::default(), AgentsMay::Relay).await;
    for reaction in [Reaction::from("b"), Reaction::Decline, Reaction::Answer("c".into())] {
        let thread = dispatched(&scene).await;
        let story = scene.agora.thread(thread.id()).await.unwrap();
        let done = thread.drive(&OLGA, |asked| {
            let (agora, reaction) = (scene.agora.clone(), reaction.clone());
            async move {
                agora.answer(&asked.question_id, &a(), &OLGA).await.unwrap();
                reaction
            }
        });
        went_on_with(&done.await.unwrap(), "a", "user:olga");
        let kinds = scene.kinds(&story).await;
        let closed = kinds.iter().filter(|kind| ["question.answered", "question.declined"].contains(kind));
        assert_eq!(closed.collect::<Vec<_>>(), [&"question.answered"], "{kinds:?}");
    }
}

#[tokio::test]
async fn whoever_is_asked_is_not_waited_for_when_somebody_else_has_answered() {
    let scene = scene(Routes::default(), AgentsMay::Relay).await;
    let mut news = scene.agora.watch_inbox().await.unwrap();
    let thread = dispatched(&scene).await;
    let driving =
        tokio::spawn(async move { thread.drive(&OLGA, |_| std::future::pending::<Reaction>()).await });
    let question = loop {
        if let InboxNews::Opened(open) = news.next().await.unwrap() {
            break open.question_id;
        }
    };
    scene.agora.answer(&question, &a(), &OLGA).await.unwrap();
    let done = tokio::time::timeout(PATIENCE, driving).await.expect("nobody waits for an answer any more");
    went_on_with(&done.unwrap().unwrap(), "a", "user:olga");
    // One that is cancelled leads nowhere, and nobody is waited for either.
    let (thread, _) = scene.asked().await;
    let cancelling = scene.agora.thread(thread.id()).await.unwrap();
    cancelling.cancel().await.unwrap();
    let done = thread.drive(&OLGA, |_| std::future::pending::<Reaction>());
    assert_eq!(tokio::time::timeout(PATIENCE, done).await.unwrap().unwrap().state, "needs_input");
}

#[tokio::test]
async fn what_does_not_fit_is_asked_for_again_and_not_heard_twice() {
    let scene = scene(Routes::default(), AgentsMay::Relay).await;
    let asked = AtomicUsize::new(0);
    let words = ["c", "d", "b"];
    let done = dispatched(&scene).await.drive(&OLGA, |_| {
        let word = words[asked.fetch_add(1, Ordering::Relaxed)];
        async move { word }
    });
    went_on_with(&done.await.unwrap(), "b", "user:olga");
    assert_eq!(asked.load(Ordering::Relaxed), 3);

    let (asked, thread) = (AtomicUsize::new(0), dispatched(&scene).await);
    let id = thread.id().clone();
    let stubborn = thread.drive(&OLGA, |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        async { "c" }
    });
    let refused = stubborn.await.unwrap_err();
    assert!(matches!(refused, Error::Answer(Refusal::Unfit { .. })), "{refused:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 2, "the same again would go on for ever");
    let view = scene.agora.thread(&id).await.unwrap().view().await.unwrap();
    assert_eq!(view.thread.questions()[0].state, QuestionState::Open);
}

#[tokio::test]
async fn whoever_answered_on_moved_ground_is_asked_again_and_sees_it() {
    let route = Route { if_stale: IfStale::AskAgain, ..Route::default() };
    let scene = scene(routed(route), AgentsMay::Relay).await;
    let asked = AtomicUsize::new(0);
    let done = dispatched(&scene).await.drive(&OLGA, |question| {
        let (scene, times) = (&scene, asked.fetch_add(1, Ordering::Relaxed));
        async move {
            assert_eq!(question.stale.len(), times, "{question:?}");
            if times == 0 {
                scene.clock.set(LATER);
                scene.register("asker", "true").await;
            }
            "a"
        }
    });
    went_on_with(&done.await.unwrap(), "a", "user:olga");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn whoever_answers_too_late_follows_what_the_route_says() {
    for (then, state) in [(AtEnd::UseDefault, "finished"), (AtEnd::Fail, "needs_input")] {
        let scene = scene(expiring(then), AgentsMay::Relay).await;
        let thread = dispatched(&scene).await;
        let id = thread.id().clone();
        let done = thread.drive(&OLGA, |_| {
            scene.clock.set(LATER);
            async { "a" }
        });
        let done = done.await.unwrap();
        assert_eq!(done.state, state);
        match then {
            AtEnd::UseDefault => went_on_with(&done, "b", "default"),
            AtEnd::Fail => {
                let view = scene.agora.thread(&id).await.unwrap().view().await.unwrap();
                assert!(matches!(view.thread.state(), ThreadState::Failed(_)), "{view:?}");
            }
        }
    }
}

/// Nobody looked at the clock before the answer that was too late: what it set going is not left lying.
#[tokio::test]
async fn an_answer_that_is_too_late_leaves_nothing_that_nobody_carries() {
    let scene = scene(expiring(AtEnd::UseDefault), AgentsMay::Relay).await;
    for decline in [false, true] {
        let (thread, question) = scene.asked().await;
        scene.clock.set(LATER);
        let refused = match decline {
            false => scene.agora.answer(&question, &a(), &OLGA).await.map(drop),
            true => scene.agora.decline(&question, &OLGA).await,
        };
        assert!(matches!(refused, Err(Error::Answer(Refusal::Closed { .. }))), "{refused:?}");
        let mut events = thread.events(0).unwrap();
        let ended = async { while events.next().await.unwrap().is_some() {} };
        tokio::time::timeout(PATIENCE, ended).await.expect("somebody carries it to its end");
        went_on_with(&thread.latest().await.unwrap().describe().await.unwrap(), "b", "default");
        scene.clock.set("2026-11-15T12:00:00Z");
    }
    // Whoever may not answer at all carries nothing and changes nothing.
    let scene = crate::outcomes::scene(routed(for_ann()), AgentsMay::Relay).await;
    let (thread, question) = scene.asked().await;
    let asker = scene.agora.asker(&question).await.unwrap();
    assert!(asker.decline(&question, &OLGA).await.is_err());
    assert!(!asker.let_go().await);
    assert_eq!(*thread.view().await.unwrap().thread.state(), ThreadState::Waiting);
}
