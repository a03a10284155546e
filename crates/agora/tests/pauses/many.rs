//! Ten thousand open questions: every page of the inbox, another process, and answers to the oldest and the newest. What it takes is
//! measured by `cargo xtask bench pause`, which also does a million.

use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_engine::{Agora, Answerer, Dispatch, Given, Settings};
use agora_testkit::ledger::fill;
use serde_json::json;
use tempfile::TempDir;

use crate::stale::ASKER;

const COUNT: u64 = 10_000;
const PAGE: usize = 500;

fn open(dir: &TempDir) -> Agora {
    Agora::open(dir.path()).with_settings(Settings::with_worker(env!("CARGO_BIN_EXE_agora")))
}

async fn pages(agora: &Agora) -> Vec<OpenQuestion> {
    let mut all: Vec<OpenQuestion> = Vec::new();
    loop {
        let after = all.last().map(|open| (open.thread_id.clone(), open.question_id.clone()));
        let page = agora.inbox(&OpenFilter { namespace: None, after, most: PAGE }).await.unwrap();
        if page.is_empty() {
            return all;
        }
        assert!(page.len() <= PAGE);
        all.extend(page);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_open_questions_are_held_shown_and_answered() {
    let dir = tempfile::tempdir().unwrap();
    let agora = open(&dir);
    let raw = json!({"runtime": "command", "command": ["/bin/sh", "-c", ASKER]});
    let name = "asker".parse().unwrap();
    agora.register_subagent(&name, serde_json::from_value(raw).unwrap(), &[]).await.unwrap();
    let first = agora.dispatch(Dispatch::to("asker")).await.unwrap();
    assert_eq!(first.wait().await.unwrap().state, "needs_input");
    let ledger = agora.engine().unwrap().world().ledger.clone();
    let like = ledger.dispatch(first.dispatch_id()).await.unwrap().unwrap().job;
    fill::paused(&ledger, &like, 0..COUNT).await;
    drop((agora, ledger));

    // Another process would see this: nothing is alive, nothing is to be done, and every question is there.
    let agora = open(&dir);
    let recovered = agora.recover().await.unwrap();
    assert!(recovered.orphans.is_empty() && recovered.settled.is_empty() && recovered.stuck.is_empty());
    let all = pages(&agora).await;
    assert_eq!(all.len() as u64, COUNT + 1);
    let tally = agora.status().await.unwrap().tally;
    assert_eq!(
        (tally.questions, tally.oldest_asked_at),
        (COUNT + 1, Some(all[0].asked_at)),
        "all are counted"
    );
    assert_eq!(all[0].dispatch_id, *first.dispatch_id(), "the oldest comes first");
    let mut ids: Vec<&str> = all.iter().map(|open| open.question_id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all.len(), "each is shown once");
    assert!(all.windows(2).all(|pair| pair[0].asked_at <= pair[1].asked_at));
    assert_eq!(agora.stale(&all[..50]).await.unwrap(), vec![Vec::new(); 50]);

    let me = Answerer::new("user:ann", "test");
    for question in [&all[0], &all[all.len() - 1]] {
        let (thread, answered) =
            agora.answer(&question.question_id, &Given::Text("a".to_owned()), &me).await.unwrap();
        assert_eq!(answered.thread_id, question.thread_id);
        let result = thread.wait().await.unwrap();
        assert_eq!(result.dispatch_id, answered.dispatch_id);
        assert!(matches!(result.state, "finished" | "failed"), "it ran: {:?}", result.failure);
    }
    let left = pages(&agora).await;
    assert_eq!(left.len(), all.len() - 2);
    assert_eq!(left[0], all[1], "the next oldest");
}
