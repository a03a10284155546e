use agora_core::entry::Happening;
use agora_core::event::{Event, Resolved, ResolvedBundle};
use agora_core::job::{Job, JobEssentials};
use agora_core::provider::ledger::{Append, Ledger, LedgerError, Paper};
use agora_core::state::Illegal;
use agora_core::wire::manifest::Limits;
use agora_core::{ContentHash, Namespace, ThreadId, Timestamp};
use serde_json::Map;

fn resolved() -> Resolved {
    let subagent = ResolvedBundle {
        name: "planner".parse().unwrap(),
        content_hash: ContentHash::of(b"planner"),
        registered_at: Timestamp::from_millis(0),
    };
    Resolved { subagent, capabilities: Vec::new(), env: Vec::new() }
}

/// Makes the job of a first dispatch at the target `local`.
fn job(thread: &str, dispatch: &str) -> Job {
    Job::new(JobEssentials {
        namespace: Namespace::default(),
        dispatch_id: dispatch.parse().unwrap(),
        thread_id: thread.parse().unwrap(),
        resolved: resolved(),
        runtime: "command".to_owned(),
        input: Map::new(),
        limits: Limits { timeout_seconds: 60, memory_bytes: None, processes: None, budget: None },
        target: "local".parse().unwrap(),
        retention_days: 30,
        overtime_seconds: 600,
        salt: "salt".to_owned(),
    })
}

fn accepted(dispatch: &str) -> Happening {
    Event::Accepted { dispatch_id: dispatch.parse().unwrap(), resolved: resolved() }.into()
}

fn append(thread: &ThreadId, seen: u64, what: Vec<Happening>) -> Append {
    let jobs = what.iter().filter_map(|what| match what {
        Happening::Event(Event::Accepted { dispatch_id, .. }) => {
            Some(Paper::Job(Box::new(job(thread.as_str(), dispatch_id.as_str()))))
        }
        Happening::Event(_) | Happening::Record(_) => None,
    });
    let papers = jobs.collect();
    Append { namespace: Namespace::default(), thread_id: thread.clone(), seen, what, papers }
}

fn started(dispatch: &str) -> Happening {
    Event::Started { dispatch_id: dispatch.parse().unwrap() }.into()
}

fn finished(dispatch: &str) -> Happening {
    Event::Finished { dispatch_id: dispatch.parse().unwrap(), duration_ms: 5 }.into()
}

/// Every `Ledger` passes this.
pub async fn ledger(ledger: &dyn Ledger) {
    let thread: ThreadId = "t_1".parse().unwrap();
    assert_eq!(ledger.read(&thread, 0, 100).await.unwrap(), []);

    let first = ledger.append(append(&thread, 0, vec![accepted("d_1"), started("d_1")])).await.unwrap();
    assert_eq!(first.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);

    let moved =
        ledger.append(append(&thread, 1, vec![finished("d_1")])).await.expect_err("entry 2 is unseen");
    assert!(matches!(moved, LedgerError::Moved { now: 2 }), "{moved:?}");

    let both = vec![finished("d_1"), started("d_1")];
    let illegal =
        ledger.append(append(&thread, 2, both)).await.expect_err("nothing follows a terminal event");
    assert!(matches!(illegal, LedgerError::Illegal(Illegal::DispatchEnded)), "{illegal:?}");
    assert_eq!(ledger.read(&thread, 0, 100).await.unwrap().len(), 2, "an append is all or nothing");

    ledger.append(append(&thread, 2, vec![finished("d_1")])).await.unwrap();
    let kinds: Vec<_> =
        ledger.read(&thread, 1, 100).await.unwrap().iter().map(|entry| entry.what.kind()).collect();
    assert_eq!(kinds, ["dispatch.started", "dispatch.finished"]);
    assert_eq!(ledger.read(&thread, 0, 1).await.unwrap(), first[..1]);

    let other: ThreadId = "t_2".parse().unwrap();
    let begun = ledger.append(append(&other, 0, vec![accepted("d_2")])).await.unwrap();
    assert_eq!(begun[0].seq, 1, "each thread counts for itself");
}
