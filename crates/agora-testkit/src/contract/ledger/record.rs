//! What is recorded, and what is not.

use agora_core::ContentHash;
use agora_core::event::Event;
use agora_core::provider::ledger::{Checked, LedgerError, Paper};
use agora_core::state::Illegal;
use serde_json::json;

use super::{Scene, with};
use crate::ledger::sample::{accept, accepted, append, ended, finished, job, started};

pub(super) async fn numbering_and_moved(scene: &Scene) {
    let Scene { ledger, .. } = scene;
    let thread = "t_1".parse().unwrap();
    assert_eq!(ledger.read(&thread, 0, 100).await.unwrap(), []);
    assert_eq!(ledger.append(append("t_1", 0, Vec::new())).await.unwrap(), [], "nothing is nothing");
    assert_eq!(ledger.thread(&thread).await.unwrap(), None);

    let mut both = accept(0, job("t_1", "d_1"));
    both.what.push(started("d_1"));
    let first = ledger.append(both).await.unwrap();
    assert_eq!(first.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);
    assert!(first.iter().all(|entry| entry.at == scene.now()));

    for seen in [0, 1, 3, 100] {
        let moved = ledger.append(append("t_1", seen, vec![finished("d_1")])).await.expect_err("2 are there");
        assert!(matches!(moved, LedgerError::Moved { now: 2 }), "{moved:?}");
    }
    let none = ledger.append(append("t_9", 1, vec![finished("d_1")])).await.expect_err("none is there");
    assert!(matches!(none, LedgerError::Moved { now: 0 }), "{none:?}");

    ledger.append(append("t_1", 2, vec![finished("d_1")])).await.unwrap();
    let kinds = |entries: Vec<agora_core::entry::Entry>| -> Vec<&str> {
        entries.iter().map(|entry| entry.what.kind()).collect()
    };
    assert_eq!(kinds(ledger.read(&thread, 1, 100).await.unwrap()), ["dispatch.started", "dispatch.finished"]);
    assert_eq!(ledger.read(&thread, 0, 1).await.unwrap(), first[..1]);
    assert_eq!(ledger.read(&thread, 3, 100).await.unwrap(), []);
    assert_eq!(ledger.read(&thread, u64::MAX, usize::MAX).await.unwrap(), []);

    let begun = ledger.append(accept(0, job("t_2", "d_2"))).await.unwrap();
    assert_eq!(begun[0].seq, 1, "each thread counts for itself");
}

pub(super) async fn all_or_nothing(scene: &Scene) {
    let Scene { ledger, .. } = scene;
    let early = ledger.append(append("t_1", 0, vec![started("d_1")])).await.expect_err("nothing began");
    assert!(matches!(early, LedgerError::Illegal(Illegal::NoThread)), "{early:?}");
    scene.accept(job("t_1", "d_1")).await;
    scene.happen("t_1", vec![started("d_1")]).await;
    let before = ledger.thread(&"t_1".parse().unwrap()).await.unwrap();

    let what = vec![finished("d_1"), started("d_1")];
    let report = Paper::Report { dispatch_id: "d_1".parse().unwrap(), text: "{}".into() };
    let told = Paper::Outgoing { destination: "a".into(), body: "b".into() };
    let illegal = with(with(append("t_1", 2, what), report), told.clone());
    let illegal = ledger.append(illegal).await.expect_err("nothing follows a terminal event");
    assert!(matches!(illegal, LedgerError::Illegal(Illegal::DispatchEnded)), "{illegal:?}");

    // A paper that is refused takes the entries with it, and the papers before it.
    let stray = with(append("t_1", 2, vec![finished("d_1")]), told);
    let stray = with(stray, Paper::Job(Box::new(job("t_1", "d_9"))));
    let stray = ledger.append(stray).await.expect_err("nothing accepts the job's dispatch");
    assert!(matches!(stray, LedgerError::Illegal(Illegal::UnknownDispatch)), "{stray:?}");
    let mut other = accept(0, job("t_2", "d_2"));
    other.thread_id = "t_3".parse().unwrap();
    let other = ledger.append(other).await.expect_err("the job is another thread's");
    assert!(matches!(other, LedgerError::Illegal(Illegal::UnknownDispatch)), "{other:?}");

    assert_eq!(ledger.thread(&"t_1".parse().unwrap()).await.unwrap(), before);
    assert_eq!(ledger.read(&"t_1".parse().unwrap(), 0, 100).await.unwrap().len(), 2);
    assert_eq!(ledger.dispatch(&"d_1".parse().unwrap()).await.unwrap().unwrap().report, None);
    assert_eq!(ledger.dispatch(&"d_9".parse().unwrap()).await.unwrap(), None);
    assert_eq!(ledger.outgoing(scene.now(), 10).await.unwrap(), []);
    assert_eq!(ledger.thread(&"t_3".parse().unwrap()).await.unwrap(), None);
}

pub(super) async fn taken_ids_and_keys(scene: &Scene) {
    let Scene { ledger, .. } = scene;
    let key = |name: &str, request: &[u8], dispatch: &str| Paper::Key {
        key: name.to_owned(),
        request: ContentHash::of(request),
        dispatch_id: dispatch.parse().unwrap(),
    };
    ledger.append(with(accept(0, job("t_1", "d_1")), key("k", b"one", "d_1"))).await.unwrap();

    let taken = ledger.append(accept(0, job("t_2", "d_1"))).await.expect_err("the id is taken");
    assert!(matches!(&taken, LedgerError::DispatchTaken(id) if id.as_str() == "d_1"), "{taken:?}");
    let again = with(accept(0, job("t_2", "d_2")), key("k", b"two", "d_2"));
    let again = ledger.append(again).await.expect_err("the key was used");
    match again {
        LedgerError::KeyTaken { dispatch_id, request } => {
            assert_eq!((dispatch_id.as_str(), request), ("d_1", ContentHash::of(b"one")));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(ledger.thread(&"t_2".parse().unwrap()).await.unwrap(), None, "nothing of either");
    ledger.append(with(accept(0, job("t_2", "d_2")), key("l", b"two", "d_2"))).await.unwrap();

    let mut elsewhere = with(accept(0, job("t_3", "d_3")), key("k", b"one", "d_3"));
    elsewhere.namespace = "other".parse().unwrap();
    ledger.append(elsewhere).await.expect("a key is its namespace's");

    scene.happen("t_1", vec![started("d_1"), finished("d_1"), ended()]).await;
    assert!(ledger.forget(&"t_1".parse().unwrap()).await.unwrap());
    let free = with(accept(0, job("t_1", "d_1")), key("k", b"three", "d_1"));
    ledger.append(free).await.expect("what was forgotten is free again");
}

pub(super) async fn time_does_not_run_backwards(scene: &Scene) {
    let at = scene.now();
    scene.accept(job("t_1", "d_1")).await;
    scene.clock.set("2026-11-15T11:00:00Z");
    let later = scene.happen("t_1", vec![started("d_1")]).await;
    assert_eq!(later[0].at, at, "the clock was set back");
    scene.clock.set("2026-11-15T13:00:00Z");
    let later = scene.happen("t_1", vec![finished("d_1")]).await;
    assert_eq!(later[0].at, scene.now());
    let view = scene.ledger.thread(&"t_1".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((view.began_at, view.moved_at), (at, scene.now()));
}

pub(super) async fn one_of_many_appends_wins(scene: &Scene) {
    scene.accept(job("t_1", "d_1")).await;
    let start = || scene.ledger.append(append("t_1", 1, vec![started("d_1")]));
    let (one, two, three) = tokio::join!(start(), start(), start());
    let won = [one, two, three].into_iter().filter(|done| match done {
        Ok(_) => true,
        Err(LedgerError::Moved { now: 2 }) => false,
        Err(other) => panic!("{other:?}"),
    });
    assert_eq!(won.count(), 1);
}

pub(super) async fn everything_in_one_order(scene: &Scene) {
    let Scene { ledger, .. } = scene;
    let (default, other) = (agora_core::Namespace::default(), "other".parse().unwrap());
    assert_eq!(ledger.read_all(&default, 0, 10).await.unwrap(), []);
    assert_eq!(ledger.end().await.unwrap(), 0);
    scene.accept(job("t_1", "d_1")).await;
    let mut elsewhere = job("t_2", "d_2");
    elsewhere.namespace = "other".parse().unwrap();
    scene.accept(elsewhere).await;
    scene.accept(job("t_3", "d_3")).await;
    scene.happen("t_1", vec![started("d_1"), finished("d_1"), ended()]).await;

    let all = ledger.read_all(&default, 0, 10).await.unwrap();
    let what: Vec<_> = all.iter().map(|(_, entry)| (entry.thread_id.as_str(), entry.seq)).collect();
    assert_eq!(what, [("t_1", 1), ("t_3", 1), ("t_1", 2), ("t_1", 3), ("t_1", 4)]);
    assert!(all.is_sorted_by(|(one, _), (next, _)| one < next), "places rise");
    assert_eq!(ledger.read_all(&default, 0, 2).await.unwrap(), all[..2]);
    assert_eq!(ledger.read_all(&default, all[1].0, 10).await.unwrap(), all[2..]);
    assert_eq!(ledger.read_all(&default, all[4].0, 10).await.unwrap(), []);
    assert_eq!(ledger.read_all(&other, 0, 10).await.unwrap().len(), 1);
    assert_eq!(ledger.end().await.unwrap(), all[4].0, "whoever reads on from the end misses nothing");

    // A place is never used again, or whoever reads on from it would miss something.
    assert!(ledger.forget(&"t_1".parse().unwrap()).await.unwrap());
    scene.accept(job("t_4", "d_4")).await;
    let after = ledger.read_all(&default, all[4].0, 10).await.unwrap();
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].1.what, accepted("d_4"));
}

/// An agent may ask as deep as the contract allows; what is deeper is refused, not recorded for nobody to read.
pub(super) async fn whatever_is_recorded_reads_back(scene: &Scene) {
    let Scene { ledger, .. } = scene;
    let thread = "t_1".parse().unwrap();
    scene.accept(job("t_1", "d_1")).await;
    scene.happen("t_1", vec![started("d_1")]).await;
    let asked = |depth: usize| {
        let state = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        let question = json!({"questions": [{"question": "?"}], "partialState": state});
        let pause = Event::NeedsInput {
            dispatch_id: "d_1".parse().unwrap(),
            duration_ms: 1,
            question_id: "q_1".parse().unwrap(),
            question: serde_json::from_value(question).unwrap(),
        };
        append("t_1", 2, vec![pause.into()])
    };
    let refused = ledger.append(asked(200)).await.expect_err("nobody could read it");
    assert!(matches!(refused, LedgerError::Unreadable(_)), "{refused:?}");
    assert_eq!(ledger.read(&thread, 0, 9).await.unwrap().len(), 2, "nothing of it is recorded");
    let new = ledger.append(asked(127)).await.unwrap();
    assert_eq!(ledger.read(&thread, 2, 9).await.unwrap(), new);
    let checked = ledger.check(9).await.unwrap();
    assert_eq!(checked, Checked { threads: 1, damaged: Vec::new() });
    assert_eq!(ledger.discard(&thread).await.unwrap(), None, "what can be read is not given up");
}
