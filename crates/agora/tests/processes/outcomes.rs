//! Every answer that does not count, and what silence leads to: typed outcomes, of which none changes the thread but as its terms say.

use std::sync::{Arc, Mutex};

use agora_core::answer::{Answerer, Given};
use agora_core::job::Attendance;
use agora_core::route::{AgentsMay, AtEnd, NotEntitled, Route, Routes, Step, Steps};
use agora_core::state::{Illegal, QuestionState, ThreadState};
use agora_core::wall::Isolation;
use agora_core::{Namespace, QuestionId};
use agora_engine::{Agora, Dispatch, Error, Notice, NoticeKind, Notifier, Refusal, Settings, Thread};
use agora_providers::Home;
use agora_testkit::clock::SetClock;
use async_trait::async_trait;
use serde_json::json;
use tempfile::TempDir;

/// Asks once, and goes on with the answer.
const ASKER: &str = r#"if [ -f .agora/resume.json ]; then cat .agora/resume.json; exit; fi
echo '{"question": "Which?", "options": ["a", "b"], "default": "b"}' > .agora/needs_input.json"#;
const OPEN_ASKER: &str = r#"if [ -f .agora/resume.json ]; then echo done; exit; fi
echo '{"question": "Which?"}' > .agora/needs_input.json"#;
const HUMAN_ASKER: &str =
    r#"echo '{"question": "May I?", "default": "no", "human": true}' > .agora/needs_input.json"#;
/// Asks one thing, and with its answer another.
const TWICE_ASKER: &str = r#"grep -q Second .agora/resume.json 2> /dev/null && { echo done; exit; }
asks=First; [ -f .agora/resume.json ] && asks=Second
echo '{"question": "'$asks'?", "options": ["a", "b"]}' > .agora/needs_input.json"#;

const NOON: &str = "2026-11-15T12:00:00Z";

/// Remembers what people were told.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(NoticeKind, Vec<String>)>>);

#[async_trait]
impl Notifier for Heard {
    async fn notify(&self, notice: &Notice) {
        let people = notice.people.iter().map(ToString::to_string).collect();
        self.0.lock().unwrap().push((notice.kind, people));
    }
}

pub(crate) struct Scene {
    pub(crate) clock: Arc<SetClock>,
    pub(crate) agora: Agora,
    heard: Arc<Heard>,
    _dir: TempDir,
}

fn party(text: &str) -> agora_core::route::Party {
    text.parse().unwrap()
}

pub(crate) fn routed(route: Route) -> Routes {
    let groups = [(party("group:leads"), vec![party("user:bob"), party("user:cleo")])].into();
    Routes { routes: vec![route], groups }
}

pub(crate) fn for_ann() -> Route {
    Route { may_answer: vec![party("user:ann")], ..Route::default() }
}

pub(crate) async fn scene(routes: Routes, agents: AgentsMay) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let (clock, heard) = (Arc::new(SetClock::at(NOON)), Arc::new(Heard::default()));
    let mut settings = Settings::with_worker(env!("CARGO_BIN_EXE_agora"));
    for target in settings.targets.values_mut() {
        target.wall.isolation = Isolation::None;
    }
    (settings.routes, settings.agents, settings.notifier) = (routes, agents, heard.clone());
    let home = Home::new(dir.path().join("home"));
    let agora = Agora::with(home, Namespace::default(), clock.clone()).with_settings(settings);
    let scene = Scene { clock, agora, heard, _dir: dir };
    let agents = [("asker", ASKER), ("open", OPEN_ASKER), ("human", HUMAN_ASKER), ("twice", TWICE_ASKER)];
    for (name, script) in agents {
        scene.register(name, script).await;
    }
    scene
}

pub(crate) fn by(principal: &str) -> Answerer {
    Answerer::new(principal, "test")
}

pub(crate) fn a() -> Given {
    "a".into()
}

impl Scene {
    pub(crate) async fn register(&self, name: &str, script: &str) {
        let raw = json!({"runtime": "command", "command": ["/bin/sh", "-c", script]});
        let raw = serde_json::from_value(raw).unwrap();
        self.agora.register_subagent(&name.parse().unwrap(), raw, &[]).await.unwrap();
    }

    async fn asked_by(&self, agent: &str) -> (Thread, QuestionId) {
        let thread = self.agora.dispatch(Dispatch::to(agent).owner("user:olga")).await.unwrap();
        let result = thread.wait().await.unwrap();
        (thread, result.needs_input.unwrap().question_id)
    }

    pub(crate) async fn asked(&self) -> (Thread, QuestionId) {
        self.asked_by("asker").await
    }

    pub(crate) async fn kinds(&self, thread: &Thread) -> Vec<&'static str> {
        let ledger = self.agora.engine().unwrap();
        let entries = ledger.world().ledger.read(thread.id(), 0, 1000).await.unwrap();
        entries.iter().map(|entry| entry.what.kind()).collect()
    }

    async fn refused(&self, question: &QuestionId, who: &Answerer) -> Refusal {
        match self.agora.answer(question, &a(), who).await {
            Err(Error::Answer(refusal)) => refusal,
            other => panic!("{who:?}: {other:?}"),
        }
    }

    /// Asserts that somebody may not, that this is recorded, and that nothing else changes.
    async fn not_entitled(
        &self,
        (thread, question): &(Thread, QuestionId),
        who: &Answerer,
        expected: NotEntitled,
    ) {
        let before = self.kinds(thread).await;
        match self.refused(question, who).await {
            Refusal::NotEntitled { why, .. } => assert_eq!(why, expected, "{who:?}"),
            other => panic!("{who:?}: {other:?}"),
        }
        let after = self.kinds(thread).await;
        assert_eq!(after, [&before[..], &["answer.refused"]].concat());
        assert_eq!(*thread.view().await.unwrap().thread.state(), ThreadState::Waiting);
    }

    fn told(&self) -> Vec<(NoticeKind, Vec<String>)> {
        std::mem::take(&mut *self.heard.0.lock().unwrap())
    }
}

#[tokio::test]
async fn an_answer_before_the_question_is_there_changes_nothing() {
    let scene = scene(Routes::default(), AgentsMay::Relay).await;
    let request = Dispatch::to("asker").dispatch_id("d_early");
    let thread = scene.agora.accept(request).await.unwrap();
    let before = scene.kinds(&thread).await;
    let early = scene.refused(&"q_early".parse().unwrap(), &by("user:ann")).await;
    assert!(matches!(early, Refusal::Unknown(_)), "{early:?}");
    assert_eq!(scene.kinds(&thread).await, before);
}

#[tokio::test]
async fn a_second_answer_is_told_who_was_first() {
    let scene = scene(Routes::default(), AgentsMay::Relay).await;
    let (thread, question) = scene.asked().await;
    let (next, _) = scene.agora.answer(&question, &a(), &by("user:olga")).await.unwrap();
    next.wait().await.unwrap();
    let before = scene.kinds(&thread).await;
    let second = scene.refused(&question, &by("user:olga")).await;
    assert!(
        matches!(&second, Refusal::AnsweredBefore { by, .. } if by.principal == "user:olga"),
        "{second:?}"
    );
    assert_eq!(scene.kinds(&thread).await, before);
}

#[tokio::test]
async fn an_answer_to_another_question_is_not_one_to_this() {
    let scene = scene(Routes::default(), AgentsMay::Relay).await;
    let ((one, _), (_, other)) = (scene.asked().await, scene.asked().await);
    let before = scene.kinds(&one).await;
    let engine = scene.agora.engine().unwrap();
    let crossed = engine.answer(one.id(), &other, &a(), &by("user:olga"), None).await;
    assert!(matches!(crossed, Err(Error::Answer(Refusal::Unknown(_)))), "{crossed:?}");
    assert_eq!(scene.kinds(&one).await, before);
}

#[tokio::test]
async fn an_answer_out_of_order_is_for_the_question_that_it_names_and_no_other() {
    let scene = scene(Routes::default(), AgentsMay::Relay).await;
    let (thread, first) = scene.asked_by("twice").await;
    let olga = by("user:olga");
    let (next, _) = scene.agora.answer(&first, &a(), &olga).await.unwrap();
    let second = next.wait().await.unwrap().needs_input.unwrap().question_id;
    let before = scene.kinds(&thread).await;
    // It would be a valid answer to what is asked now.
    let again = scene.refused(&first, &olga).await;
    assert!(
        matches!(&again, Refusal::AnsweredBefore { question_id, .. } if *question_id == first),
        "{again:?}"
    );
    let declined = scene.agora.decline(&first, &olga).await;
    assert!(matches!(declined, Err(Error::Answer(Refusal::AnsweredBefore { .. }))), "{declined:?}");
    assert_eq!(scene.kinds(&thread).await, before);
    assert_eq!(*thread.view().await.unwrap().thread.state(), ThreadState::Waiting);
    let (last, _) = scene.agora.answer(&second, &a(), &olga).await.unwrap();
    assert_eq!(last.wait().await.unwrap().state, "finished");
    for question in [first, second] {
        let late = scene.refused(&question, &olga).await;
        assert!(matches!(late, Refusal::AnsweredBefore { .. }), "{late:?}");
    }
}

#[tokio::test]
async fn somebody_who_is_not_named_may_neither_answer_nor_decline() {
    let scene = scene(routed(for_ann()), AgentsMay::Relay).await;
    let asked = scene.asked().await;
    for who in ["user:eve", "user:olga", "user:bob"] {
        scene.not_entitled(&asked, &by(who), NotEntitled::NotNamed).await;
    }
    for who in ["command:lookup", "default", "group:leads", "ann"] {
        scene.not_entitled(&asked, &by(who), NotEntitled::Nobody).await;
    }
    let declined = scene.agora.decline(&asked.1, &by("user:eve")).await;
    assert!(matches!(declined, Err(Error::Answer(Refusal::NotEntitled { .. }))), "{declined:?}");
    // Again and again: the ledger does not grow without end.
    for _ in 0..110 {
        scene.refused(&asked.1, &by("user:eve")).await;
    }
    let refusals = scene.kinds(&asked.0).await.iter().filter(|kind| **kind == "answer.refused").count();
    assert_eq!(refusals, 100);
    scene.agora.answer(&asked.1, &a(), &by("user:ann")).await.unwrap().0.wait().await.unwrap();
}

#[tokio::test]
async fn without_a_route_whoever_dispatched_may() {
    let scene = scene(Routes::default(), AgentsMay::Relay).await;
    let asked = scene.asked().await;
    scene.not_entitled(&asked, &by("user:ann"), NotEntitled::NotNamed).await;
    scene.agora.answer(&asked.1, &a(), &by("user:olga")).await.unwrap().0.wait().await.unwrap();
}

#[tokio::test]
async fn the_agent_that_asked_never_answers_itself() {
    let scene = scene(Routes::default(), AgentsMay::Allow).await;
    let asked = scene.asked().await;
    let (dispatch, thread) = (asked.0.dispatch_id(), asked.0.id());
    let names =
        [format!("agent:{dispatch}"), format!("thread:{thread}"), dispatch.to_string(), thread.to_string()];
    for name in &names {
        scene.not_entitled(&asked, &by(name), NotEntitled::Asker).await;
        let claims = by("user:olga").relayed_by(name.clone());
        scene.not_entitled(&asked, &claims, NotEntitled::Asker).await;
    }
}

#[tokio::test]
async fn agents_do_what_the_user_lets_them_and_a_receipt_names_both() {
    let relay = scene(Routes::default(), AgentsMay::Relay).await;
    let asked = relay.asked().await;
    relay.not_entitled(&asked, &by("agent:helper"), NotEntitled::RelayOnly).await;
    let passed_on = by("user:olga").relayed_by("agent:helper");
    let (next, answered) = relay.agora.answer(&asked.1, &a(), &passed_on).await.unwrap();
    assert_eq!(answered.receipt.statement.by, passed_on);
    assert_eq!(next.wait().await.unwrap().state, "finished", "the worker takes such a receipt");
    let human = relay.asked_by("human").await;
    relay.not_entitled(&human, &passed_on, NotEntitled::HumansOnly).await;

    let refuse = scene(Routes::default(), AgentsMay::Refuse).await;
    let asked = refuse.asked().await;
    refuse.not_entitled(&asked, &passed_on, NotEntitled::AgentsRefused).await;
    let allow = scene(Routes::default(), AgentsMay::Allow).await;
    let (_, question) = allow.asked().await;
    allow.agora.answer(&question, &a(), &by("agent:helper")).await.unwrap().0.wait().await.unwrap();
}

#[tokio::test]
async fn an_answer_at_the_end_or_later_is_refused_though_nobody_has_swept() {
    let hour = 3_600_000;
    let route = Route { expires: Some((hour, AtEnd::Fail)), ..for_ann() };
    for late in ["2026-11-15T13:00:00Z", "2027-11-15T13:00:00Z"] {
        let scene = scene(routed(route.clone()), AgentsMay::Relay).await;
        let (thread, question) = scene.asked().await;
        scene.clock.set("2026-11-15T12:59:59.999Z");
        assert_eq!(scene.agora.recover().await.unwrap().orphans, [], "not yet");
        scene.clock.set(late);
        let refusal = scene.refused(&question, &by("user:ann")).await;
        assert!(matches!(&refusal, Refusal::Closed { how: Illegal::ExpiredAlready, .. }), "{refusal:?}");
        let kinds = scene.kinds(&thread).await;
        assert_eq!(kinds[4..], ["question.expired", "thread.ended"], "recorded right then");
        let view = thread.view().await.unwrap();
        assert!(
            matches!(view.thread.state(), ThreadState::Failed(failure) if failure.code.as_str() == "question-expired")
        );
        assert_eq!(thread.describe().await.unwrap().state, "needs_input", "the dispatch did nothing wrong");
    }
}

#[tokio::test]
async fn at_the_end_the_default_is_used_that_the_asker_named_and_no_other() {
    let route = Route { expires: Some((1000, AtEnd::UseDefault)), ..for_ann() };
    let scene = scene(routed(route), AgentsMay::Relay).await;
    let (thread, question) = scene.asked().await;
    let (open, undecided) = scene.asked_by("open").await;
    let (human, for_people) = scene.asked_by("human").await;
    scene.clock.set("2027-11-15T12:00:00Z");
    let found = scene.agora.recover().await.unwrap();
    assert_eq!(found.orphans, [thread.id().clone()]);
    scene.agora.carry(found.orphans).await.unwrap();
    let result = scene.agora.thread(thread.id()).await.unwrap().describe().await.unwrap();
    let resumed: serde_json::Value = serde_json::from_str(&result.output.text).unwrap();
    assert_eq!((&resumed["answer"], &resumed["answeredBy"]), (&json!("b"), &json!("default")), "{resumed}");
    let refusal = scene.refused(&question, &by("user:ann")).await;
    assert!(matches!(&refusal, Refusal::Closed { how: Illegal::ExpiredAlready, .. }), "{refusal:?}");
    // Where there is none, or a person is wanted, it waits.
    for (thread, question) in [(open, undecided), (human, for_people)] {
        let view = thread.view().await.unwrap();
        assert_eq!(view.thread.questions()[0].state, QuestionState::Open);
        scene.agora.answer(&question, &"x".into(), &by("user:ann")).await.unwrap().0.wait().await.unwrap();
    }
}

#[tokio::test]
async fn people_are_reminded_others_come_after_them_and_everybody_is_told() {
    let steps = vec![Step::Inbox(party("user:ann")), Step::Inbox(party("group:leads"))];
    let route = Route {
        steps: Steps::new(steps, true).unwrap(),
        remind_after_ms: Some(3_600_000),
        escalate_after_ms: Some(2 * 3_600_000),
        ..Route::default()
    };
    let scene = scene(routed(route), AgentsMay::Relay).await;
    let (thread, question) = scene.asked().await;
    let people = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(scene.told(), [(NoticeKind::Opened, people(&["user:ann"]))]);
    scene.clock.set("2026-11-15T13:00:00Z");
    // Whoever looks turns it, and nobody turns it twice.
    let all = tokio::join!(scene.agora.recover(), scene.agora.recover(), scene.agora.recover());
    assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok());
    assert_eq!(scene.told(), [(NoticeKind::Reminded, people(&["user:ann"]))]);
    scene.clock.set("2026-11-15T14:30:00Z");
    scene.agora.recover().await.unwrap();
    let all_three = people(&["user:ann", "user:bob", "user:cleo"]);
    assert_eq!(scene.told(), [(NoticeKind::Escalated, all_three.clone())]);
    // A month later: one reminder.
    scene.clock.set("2026-12-15T12:00:00Z");
    scene.agora.recover().await.unwrap();
    assert_eq!(scene.told(), [(NoticeKind::Reminded, all_three.clone())]);
    assert_eq!(
        scene.kinds(&thread).await[4..],
        ["question.reminded", "question.escalated", "question.reminded"]
    );
    scene.agora.answer(&question, &a(), &by("user:cleo")).await.unwrap().0.wait().await.unwrap();
    assert_eq!(scene.told(), [(NoticeKind::Answered, all_three)]);
}

#[tokio::test]
async fn a_thread_that_expired_can_be_continued_by_its_owner() {
    let route = Route { expires: Some((1000, AtEnd::Fail)), ..for_ann() };
    let scene = scene(routed(route), AgentsMay::Relay).await;
    let (thread, _) = scene.asked_by("open").await;
    scene.clock.set("2026-11-15T13:00:00Z");
    scene.agora.recover().await.unwrap();
    let next = thread.go_on(Some("take a".to_owned()), Attendance::Watched).await.unwrap();
    assert_eq!(next.wait().await.unwrap().thread_id, *thread.id());
}
