//! Lists of dispatches.

use agora_core::provider::ledger::{DispatchRow, Filter, StateWord};

use super::{Scene, mark};
use crate::ledger::sample::{asked, continued, continues, failed, finished, job, started};

async fn ids(scene: &Scene, filter: Filter) -> Vec<String> {
    let rows = scene.ledger.list(&filter).await.unwrap();
    rows.iter().map(|row| row.dispatch_id.to_string()).collect()
}

fn all() -> Filter {
    Filter { most: 100, ..Filter::default() }
}

pub(super) async fn filters(scene: &Scene) {
    assert_eq!(scene.ledger.list(&all()).await.unwrap(), []);
    for (thread, dispatch, labels, namespace) in [
        ("t_ab", "d_1", vec!["x"], "default"),
        ("t_ac", "d_2", vec!["x", "y"], "default"),
        ("t_b", "d_3", vec![], "other"),
        ("t_c", "d_ab", vec!["y"], "other"),
    ] {
        let mut job = job(thread, dispatch);
        job.labels = labels.into_iter().map(|label| label.parse().unwrap()).collect();
        job.namespace = namespace.parse().unwrap();
        scene.accept(job).await;
    }
    scene.ledger.claim(&"d_1".parse().unwrap(), mark("b"), 1).await.unwrap();
    scene.happen("t_ab", vec![started("d_1"), finished("d_1"), continues()]).await;
    scene.accept(continued(job("t_ab", "d_5"))).await;
    scene.happen("t_ac", vec![started("d_2")]).await;
    scene.happen("t_b", vec![failed("d_3", None)]).await;

    assert_eq!(ids(scene, all()).await, ["d_5", "d_ab", "d_3", "d_2", "d_1"], "newest first");
    let other = Filter { namespace: Some("other".parse().unwrap()), ..all() };
    assert_eq!(ids(scene, other.clone()).await, ["d_ab", "d_3"]);
    let none = Filter { namespace: Some("none".parse().unwrap()), ..all() };
    assert!(ids(scene, none).await.is_empty());
    let thread = Filter { thread: Some("t_ab".parse().unwrap()), ..all() };
    assert_eq!(ids(scene, thread.clone()).await, ["d_5", "d_1"]);
    let label = |label: &str| Filter { label: Some(label.parse().unwrap()), ..all() };
    assert_eq!(ids(scene, label("x")).await, ["d_2", "d_1"]);
    assert_eq!(ids(scene, label("y")).await, ["d_ab", "d_2"]);
    let states = |states: &[StateWord]| Filter { states: Some(states.to_vec()), ..all() };
    assert_eq!(ids(scene, states(&[StateWord::Accepted, StateWord::Failed])).await, ["d_5", "d_ab", "d_3"]);
    assert_eq!(ids(scene, states(&[StateWord::Running])).await, ["d_2"]);
    assert!(ids(scene, states(&[])).await.is_empty(), "in none of no states");
    let prefix = |prefix: &str| Filter { prefix: Some(prefix.to_owned()), ..all() };
    assert_eq!(ids(scene, prefix("t_a")).await, ["d_5", "d_2", "d_1"]);
    assert_eq!(ids(scene, prefix("d_a")).await, ["d_ab"]);
    assert_eq!(ids(scene, prefix("")).await.len(), 5);
    assert!(ids(scene, prefix("x")).await.is_empty());
    assert!(ids(scene, prefix("t_%")).await.is_empty(), "a beginning, not a pattern");

    // Every one of them together with others.
    let accepted = Some(vec![StateWord::Accepted]);
    assert_eq!(ids(scene, Filter { states: accepted.clone(), ..other }).await, ["d_ab"]);
    assert_eq!(ids(scene, Filter { states: accepted.clone(), ..thread.clone() }).await, ["d_5"]);
    assert_eq!(ids(scene, Filter { label: label("x").label, ..thread }).await, ["d_1"]);
    assert_eq!(ids(scene, Filter { states: accepted.clone(), ..label("y") }).await, ["d_ab"]);
    assert_eq!(
        ids(scene, Filter { prefix: Some("t_c".into()), states: accepted, ..label("y") }).await,
        ["d_ab"]
    );
    let default = Some(agora_core::Namespace::default());
    assert_eq!(ids(scene, Filter { namespace: default, ..label("y") }).await, ["d_2"]);

    let rows = scene.ledger.list(&label("x")).await.unwrap();
    let at = scene.now();
    let expected = DispatchRow {
        dispatch_id: "d_1".parse().unwrap(),
        thread_id: "t_ab".parse().unwrap(),
        subagent: "planner".parse().unwrap(),
        target: "local".parse().unwrap(),
        labels: vec!["x".parse().unwrap()],
        state: StateWord::Finished,
        accepted_at: at,
        started_at: Some(at),
        ended_at: Some(at),
        claimed: true,
    };
    assert_eq!(rows[1], expected);
    assert_eq!((rows[0].state, rows[0].claimed, rows[0].ended_at), (StateWord::Running, false, None));
    assert_eq!(rows[0].labels.len(), 2);

    scene.happen("t_ac", asked("d_2", "q_1")).await;
    assert_eq!(ids(scene, states(&[StateWord::NeedsInput])).await, ["d_2"]);
}

pub(super) async fn pages(scene: &Scene) {
    for number in 1..=7 {
        scene.accept(job(&format!("t_{number}"), &format!("d_{number}"))).await;
    }
    let page = |before: Option<&str>| {
        let before = before.map(|id| id.parse().unwrap());
        ids(scene, Filter { before, most: 3, ..Filter::default() })
    };
    assert_eq!(page(None).await, ["d_7", "d_6", "d_5"]);
    assert_eq!(page(Some("d_5")).await, ["d_4", "d_3", "d_2"]);
    assert_eq!(page(Some("d_2")).await, ["d_1"]);
    assert!(page(Some("d_1")).await.is_empty());
    assert_eq!(page(Some("d_gone")).await, ["d_7", "d_6", "d_5"], "one that is not there is no place");
    assert!(ids(scene, Filter::default()).await.is_empty(), "none of none");
    let before = Some("d_4".parse().unwrap());
    let states = Some(vec![StateWord::Accepted]);
    assert_eq!(ids(scene, Filter { before, states, most: 2, ..Filter::default() }).await, ["d_3", "d_2"]);
}
