//! The engine, embedded: what the command does is what anybody can do with the library.

use agora_core::job::Attendance;
use agora_core::route::AgentsMay;
use agora_core::state::ThreadState;
use agora_core::wall::Isolation;
use agora_engine::{Agora, Dispatch, ErrorKind, Settings};
use serde_json::json;
use tempfile::TempDir;

async fn open(dir: &TempDir, agents: &[(&str, &str)]) -> Agora {
    open_where(AgentsMay::default(), dir, agents).await
}

/// Opens an agora where agents may do so much about questions.
async fn open_where(may: AgentsMay, dir: &TempDir, agents: &[(&str, &str)]) -> Agora {
    let mut settings = Settings::with_worker(env!("CARGO_BIN_EXE_agora"));
    // One of the scripts waits for a file of the machine.
    for target in settings.targets.values_mut() {
        target.wall.isolation = Isolation::None;
    }
    settings.agents = may;
    let agora = Agora::open(dir.path()).with_settings(settings);
    for (name, script) in agents {
        let raw = json!({"runtime": "command", "command": ["/bin/sh", "-c", script]});
        let raw = serde_json::from_value(raw).unwrap();
        agora.register_subagent(&name.parse().unwrap(), raw, &[]).await.unwrap();
    }
    agora
}

#[tokio::test]
async fn a_thread_is_dispatched_heard_described_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    let agora = open(&dir, &[("counts", "echo x >> count; wc -l < count")]).await;
    let thread = agora.dispatch(Dispatch::to("counts").label("nightly")).await.unwrap();
    let ended = thread.wait().await.unwrap();
    assert_eq!((ended.state, ended.output.text.trim(), ended.exit_code), ("finished", "1", Some(0)));
    assert_eq!(thread.wait().await.unwrap().state, "finished", "again is no error");

    let mut events = thread.events(0).unwrap();
    let mut kinds = Vec::new();
    while let Some(entry) = events.next().await.unwrap() {
        assert_eq!(entry.seq, kinds.len() as u64 + 1);
        kinds.push(entry.what.kind());
    }
    assert_eq!(kinds, ["dispatch.accepted", "dispatch.started", "dispatch.finished", "thread.ended"]);
    let mut late = thread.events(2).unwrap();
    assert_eq!(late.next().await.unwrap().unwrap().what.kind(), "dispatch.finished");

    let next = agora.find("nightly").await.unwrap().go_on(None, Attendance::Watched).await.unwrap();
    assert_eq!(next.id(), thread.id());
    assert_eq!(next.wait().await.unwrap().output.text.trim(), "2", "in the same workspace");
    assert_eq!(thread.describe().await.unwrap().output.text.trim(), "1", "each dispatch has its own end");
    assert_eq!(agora.thread(thread.id()).await.unwrap().dispatch_id(), next.dispatch_id());
}

#[tokio::test]
async fn what_happens_is_heard_while_it_happens() {
    let dir = tempfile::tempdir().unwrap();
    let agora = open(&dir, &[("sleeps", "sleep 1000")]).await;
    let thread = agora.dispatch(Dispatch::to("sleeps")).await.unwrap();
    let mut events = thread.events(0).unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().what.kind(), "dispatch.accepted");
    assert_eq!(events.next().await.unwrap().unwrap().what.kind(), "dispatch.started");
    let view = thread.cancel().await.unwrap();
    assert_eq!((view.thread.state(), view.thread.has_ended()), (&ThreadState::Cancelled, true));
    assert_eq!(events.next().await.unwrap().unwrap().what.kind(), "dispatch.cancelled");
    assert_eq!(events.next().await.unwrap().unwrap().what.kind(), "thread.ended");
    assert!(events.next().await.unwrap().is_none());
    assert_eq!(thread.wait().await.unwrap().state, "cancelled");
}

/// Whoever drops everything ends nothing: another takes it over.
#[test]
fn what_one_engine_left_another_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let script = "while [ ! -e ../../../gate ]; do sleep 0.02; done; echo whole";
    let first = runtime();
    let id = first.block_on(async {
        let agora = open(&dir, &[("waits", script)]).await;
        let thread = agora.dispatch(Dispatch::to("waits")).await.unwrap();
        let mut events = thread.events(1).unwrap();
        assert_eq!(events.next().await.unwrap().unwrap().what.kind(), "dispatch.started");
        thread.id().clone()
    });
    drop(first);
    runtime().block_on(async {
        let agora = open(&dir, &[]).await;
        let found = agora.recover().await.unwrap();
        assert_eq!(found.orphans, std::slice::from_ref(&id));
        std::fs::write(dir.path().join("gate"), "").unwrap();
        agora.carry(found.orphans).await.unwrap();
        let ended = agora.thread(&id).await.unwrap().describe().await.unwrap();
        assert_eq!((ended.state, ended.output.text.trim()), ("finished", "whole"));
        assert_eq!(agora.recover().await.unwrap(), agora_engine::Recovered::default());
    });
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_found_before_anything_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let agora = open(&dir, &[("quick", "true")]).await;
    for wrong in [
        Dispatch::to("unknown"),
        Dispatch::to("quick").target("elsewhere"),
        Dispatch::to("quick").timeout_seconds(0),
        Dispatch::to("quick").input(json!([])),
        Dispatch::to("quick").dispatch_id("one"),
        Dispatch::to("quick").idempotency_key(""),
        Dispatch::to("quick").label("no label"),
    ] {
        let error = agora.dispatch(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Request, "{error:?}");
    }
    assert!(agora.dispatches(&Default::default()).await.unwrap().is_empty());
}

/// The example that the documentation shows does what it shows.
#[tokio::test]
async fn the_example_runs() {
    let dir = tempfile::tempdir().unwrap();
    let agora = open(&dir, &[]).await;
    let told = crate::example::run(&agora).await.unwrap();
    let story = ["dispatch.accepted", "dispatch.started", "dispatch.finished", "thread.ended"];
    assert_eq!(told, [&story[..], &["finished: 1", "finished: 2"]].concat());
}

/// So does the orchestrator: it answers what it knows, where that is allowed, leaves the rest to a person, and no answer is anybody
/// else's.
#[tokio::test]
async fn the_orchestrator_runs() {
    let dir = tempfile::tempdir().unwrap();
    let refused = crate::orchestrator::run(&open(&dir, &[]).await).await.unwrap_err();
    assert!(refused.to_string().starts_with("`agent:orchestrator` may not answer"), "{refused}");
    let agora = open_where(AgentsMay::Allow, &dir, &[]).await;
    let told = crate::orchestrator::run(&agora).await.unwrap();
    let expected = [
        "asked \"Which database?\", answered {\"q1\":\"sqlite\"}",
        "asked \"Roll it out today?\", left to a person",
        "needs_input: nothing runs",
        "finished: planned",
        "3 dispatches, 0 tokens, $0.00, 3 without a price",
    ];
    assert_eq!(told, expected);
    let thread = agora.find("@").await.unwrap();
    let story = thread.story().await.unwrap();
    let by = story.questions.iter().map(|one| one.answer.as_ref().unwrap().by.principal.as_str());
    assert_eq!(by.collect::<Vec<_>>(), ["agent:orchestrator", "user:ann"], "nobody signs as somebody else");
    let checklist = agora.check_protocol(thread.id()).await.unwrap();
    assert_eq!(checklist.pauses.len(), 2);
    assert!(checklist.passed(), "{checklist:#?}");
}
