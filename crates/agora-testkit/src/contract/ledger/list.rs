//! Lists of dispatches.

use agora_core::provider::ledger::{DispatchRow, Filter, OpenFilter, OpenQuestion, StateWord, Tally};
use agora_core::record::Record;
use agora_core::route::AtEnd;

use super::{Scene, mark};
use crate::ledger::sample::{
    append, asked, asked_on, continued, continues, failed, finished, job, question, started, terms,
};

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
    let tally = scene.ledger.tally(&agora_core::Namespace::default()).await.unwrap();
    assert_eq!(tally, Tally { running: 1, queued: 1, ..Tally::default() });
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
    let last = || Filter { last: true, ..all() };
    assert_eq!(ids(scene, last()).await, ["d_5", "d_ab", "d_3", "d_2"], "a row a thread");
    assert_eq!(ids(scene, Filter { prefix: Some("t_a".into()), ..last() }).await, ["d_5", "d_2"]);
    assert_eq!(ids(scene, Filter { before: "d_5".parse().ok(), most: 2, ..last() }).await, ["d_ab", "d_3"]);
    assert!(
        ids(scene, Filter { states: Some(vec![StateWord::Finished]), ..last() }).await.is_empty(),
        "the last of all, not the last of those that fit"
    );
    assert_eq!(ids(scene, Filter { last: true, ..label("x") }).await, ["d_2"]);
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

async fn open(scene: &Scene, filter: OpenFilter) -> Vec<String> {
    let rows = scene.ledger.questions(&filter).await.unwrap();
    rows.iter().map(|row| row.question_id.to_string()).collect()
}

pub(super) async fn open_questions(scene: &Scene) {
    let all = || OpenFilter { most: 9, ..OpenFilter::default() };
    assert!(open(scene, all()).await.is_empty());
    for (number, namespace) in [(1, "default"), (2, "other"), (3, "default"), (4, "default")] {
        let (thread, dispatch) = (format!("t_{number}"), format!("d_{number}"));
        let mut job = job(&thread, &dispatch);
        job.namespace = namespace.parse().unwrap();
        scene.accept(job).await;
        scene.happen(&thread, vec![started(&dispatch)]).await;
    }
    // Not open before that is recorded, and in the order in which they were asked.
    let pause = asked_on("d_3", "q_3", terms(scene.now(), AtEnd::Fail));
    scene.happen("t_3", pause[..1].to_vec()).await;
    assert!(open(scene, all()).await.is_empty());
    let mut elsewhere = append("t_2", scene.seen("t_2").await, asked("d_2", "q_2"));
    elsewhere.namespace = "other".parse().unwrap();
    scene.ledger.append(elsewhere).await.unwrap();
    scene.happen("t_1", asked("d_1", "q_1")).await;
    scene.happen("t_3", pause[1..].to_vec()).await;
    scene.happen("t_4", asked("d_4", "q_4")).await;
    assert_eq!(open(scene, all()).await, ["q_3", "q_2", "q_1", "q_4"]);
    let tally = async |namespace: &str| scene.ledger.tally(&namespace.parse().unwrap()).await.unwrap();
    let oldest_asked_at = Some(scene.now());
    assert_eq!(tally("default").await, Tally { questions: 3, oldest_asked_at, ..Tally::default() });
    assert_eq!(tally("other").await, Tally { questions: 1, oldest_asked_at, ..Tally::default() });
    assert_eq!(tally("third").await, Tally::default());
    let default = Some(agora_core::Namespace::default());
    assert_eq!(open(scene, OpenFilter { namespace: default, ..all() }).await, ["q_3", "q_1", "q_4"]);
    let after =
        |number: u32| Some((format!("t_{number}").parse().unwrap(), format!("q_{number}").parse().unwrap()));
    assert_eq!(open(scene, OpenFilter { after: after(3), most: 2, ..all() }).await, ["q_2", "q_1"]);
    assert_eq!(open(scene, OpenFilter { after: after(7), most: 1, ..all() }).await, ["q_3"]);
    let expected = OpenQuestion {
        question_id: "q_3".parse().unwrap(),
        namespace: agora_core::Namespace::default(),
        thread_id: "t_3".parse().unwrap(),
        dispatch_id: "d_3".parse().unwrap(),
        subagent: "planner".parse().unwrap(),
        labels: Vec::new(),
        question: question(),
        asked_at: scene.now(),
    };
    assert_eq!(scene.ledger.questions(&all()).await.unwrap()[0], expected);

    // Closed by each of the four ways.
    let by = || agora_core::answer::Answerer::new("user:ann", "cli");
    let hash = question().hash().unwrap();
    let answers = [("q1".parse().unwrap(), agora_core::answer::Reply::One("a".into()))].into();
    let id = |text: &str| text.parse().unwrap();
    let answered = Record::QuestionAnswered {
        question_id: id("q_1"),
        question_hash: hash,
        answers,
        by: by(),
        stale: Vec::new(),
        receipt: None,
    };
    scene.happen("t_1", vec![answered.into()]).await;
    let declined = Record::QuestionDeclined { question_id: id("q_2"), by: by() };
    scene.happen("t_2", vec![declined.into()]).await;
    let expired =
        Record::QuestionExpired { question_id: id("q_3"), at_expiry: agora_core::record::AtExpiry::Fail };
    scene.happen("t_3", vec![expired.into()]).await;
    assert_eq!(open(scene, all()).await, ["q_4"]);
    scene.happen("t_4", vec![Record::QuestionCancelled { question_id: id("q_4"), by: None }.into()]).await;
    assert!(open(scene, all()).await.is_empty());
    assert_eq!(tally("default").await, Tally::default());
}
