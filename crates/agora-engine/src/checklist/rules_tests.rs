use agora_core::answer::Answerer;
use agora_core::bundle::Budget;
use agora_core::entry::Entry;
use agora_core::event::{Resolved, ResolvedBundle};
use agora_core::job::{Job, JobEssentials};
use agora_core::question::Question;
use agora_core::route::{Progress, Terms};
use agora_core::spent::BudgetPart;
use agora_core::state::AskedQuestion;
use agora_core::wire::manifest::Limits;
use agora_core::wire::report::{Report, ResumedWith};
use agora_core::{ContentHash, Timestamp};
use serde_json::json;

use super::super::Calls;
use super::*;

fn resolved() -> Resolved {
    let subagent = ResolvedBundle {
        name: "planner".parse().unwrap(),
        content_hash: ContentHash::of(b"s"),
        registered_at: Timestamp::from_millis(0),
    };
    Resolved { subagent, capabilities: Vec::new(), env: Vec::new() }
}

fn entry(seq: u64, what: impl Into<Happening>) -> Entry {
    Entry {
        seq,
        at: Timestamp::from_millis(0),
        namespace: Default::default(),
        thread_id: "t_1".parse().unwrap(),
        what: what.into(),
    }
}

fn report(id: &str) -> Report {
    Report { workspace_saved: true, ..Report::new(id.parse().unwrap(), Timestamp::from_millis(0)) }
}

fn next(with: ResumedWith, calls: Option<Calls>) -> Next {
    let essentials = JobEssentials {
        namespace: Default::default(),
        dispatch_id: "d_2".parse().unwrap(),
        thread_id: "t_1".parse().unwrap(),
        resolved: resolved(),
        runtime: "claude-code".to_owned(),
        input: Default::default(),
        limits: Limits { timeout_seconds: 1, memory_bytes: None, processes: None, budget: None },
        target: "local".parse().unwrap(),
        retention_days: 1,
        overtime_seconds: 1,
        salt: String::new(),
    };
    let mut job = Job::new(essentials);
    job.after = Some("d_1".parse().unwrap());
    let report = Report { resumed_with: Some(with), ..report("d_2") };
    Next { job, report: Some(report), receipt_holds: Some(true), calls }
}

/// A pause that did everything.
fn facts() -> Facts {
    let question: Question = serde_json::from_value(json!({
        "questions": [{"question": "Which?", "options": [
            {"label": "A", "description": "breaks B"}, {"label": "B", "description": "breaks A"}
        ]}],
        "context": "both are used", "partialState": {"done": ["x"], "remaining": ["y"]}
    }))
    .unwrap();
    let hash = question.hash().unwrap();
    let id: agora_core::QuestionId = "q_1".parse().unwrap();
    let by = Answerer::new("user:ann", "cli");
    let answers = [("q1".parse().unwrap(), agora_core::answer::Reply::One("A".into()))].into();
    let all = ResumedWith { workspace: true, session: true, partial_state: true };
    Facts {
        entries: vec![
            entry(1, Event::Accepted { dispatch_id: "d_1".parse().unwrap(), resolved: resolved() }),
            entry(
                3,
                Event::NeedsInput {
                    dispatch_id: "d_1".parse().unwrap(),
                    duration_ms: 1,
                    question_id: id.clone(),
                    question: question.clone(),
                },
            ),
            entry(
                4,
                Record::QuestionOpened {
                    question_id: id.clone(),
                    question_hash: hash,
                    terms: Box::default(),
                },
            ),
            entry(
                5,
                Record::QuestionAnswered {
                    question_id: id.clone(),
                    question_hash: hash,
                    answers,
                    by,
                    stale: Vec::new(),
                    receipt: None,
                },
            ),
            entry(6, Event::Accepted { dispatch_id: "d_2".parse().unwrap(), resolved: resolved() }),
        ],
        asked: AskedQuestion {
            id,
            hash,
            question,
            state: QuestionState::Answered,
            terms: Terms::default(),
            progress: Progress::default(),
        },
        folds_alike: true,
        before: Some(report("d_1")),
        sealed: None,
        receipt_holds: Some(true),
        next: Some(next(all, Some(Calls { before: 2, after: 1, repeated: 0 }))),
    }
}

fn asking(change: impl Fn(&mut Value)) -> Facts {
    let mut facts = facts();
    let mut raw = serde_json::to_value(&facts.asked.question).unwrap();
    change(&mut raw);
    facts.asked.question = serde_json::from_value(raw).unwrap();
    facts.asked.hash = facts.asked.question.hash().unwrap();
    facts
}

fn verdict(facts: &Facts, point: Point) -> Verdict {
    check(facts).iter().find(|checked| checked.point == point).unwrap().verdict
}

#[test]
fn a_pause_that_did_everything_passes_every_point() {
    let all = check(&facts());
    assert_eq!(all.len(), 9);
    assert!(all.iter().all(|checked| checked.verdict == Verdict::Passed), "{all:#?}");
    assert_eq!(
        all[5].evidence,
        Evidence::Answer { answered_seq: 5, accepted_seq: Some(6), ends: false, receipt: Some(true) }
    );
}

#[test]
fn what_a_question_lacks_fails_its_point_and_no_other() {
    let cases: [(Facts, Point, Verdict); 6] = [
        (asking(|raw| raw["partialState"] = json!({})), Point::StateSaved, Verdict::Failed),
        (asking(|raw| raw["context"] = json!(" ")), Point::ContextGiven, Verdict::Failed),
        (
            asking(|raw| raw["questions"][0]["options"][1] = json!({"label": "B"})),
            Point::OptionsImply,
            Verdict::Failed,
        ),
        (
            asking(|raw| raw["questions"][0]["options"] = json!([{"label": "A", "description": "x"}])),
            Point::OptionsImply,
            Verdict::Failed,
        ),
        (
            asking(|raw| raw["questions"][0]["options"] = json!([])),
            Point::OptionsImply,
            Verdict::NotApplicable,
        ),
        (Facts { folds_alike: false, ..facts() }, Point::RestartSurvived, Verdict::Failed),
    ];
    for (facts, point, expected) in cases {
        for checked in check(&facts) {
            let wanted = if checked.point == point { expected } else { Verdict::Passed };
            assert_eq!(checked.verdict, wanted, "{checked:?}");
        }
    }
}

#[test]
fn what_nobody_can_know_is_not_called_passed() {
    let workspace = ResumedWith { workspace: true, session: false, partial_state: true };
    let redone =
        |with, calls| verdict(&Facts { next: Some(next(with, calls)), ..facts() }, Point::NothingRedone);
    assert_eq!(redone(workspace, None), Verdict::Unproven);
    assert_eq!(redone(workspace, Some(Calls { before: 3, after: 2, repeated: 1 })), Verdict::Unproven);
    assert_eq!(redone(ResumedWith { session: true, ..workspace }, None), Verdict::Passed);
    assert_eq!(redone(ResumedWith::default(), None), Verdict::Failed, "the files had to be made again");
    assert_eq!(verdict(&Facts { before: None, ..facts() }, Point::StateSaved), Verdict::Unproven);
}

#[test]
fn an_open_question_is_judged_by_what_can_be_judged() {
    let mut open = Facts { next: None, sealed: Some(true), ..facts() };
    open.asked.state = QuestionState::Open;
    open.entries.truncate(3);
    for point in [Point::AnswerKept, Point::BothGivenBack, Point::NothingRedone] {
        assert_eq!(verdict(&open, point), Verdict::NotApplicable);
    }
    assert_eq!(verdict(&open, Point::RestartSurvived), Verdict::Passed);
    open.sealed = Some(false);
    assert_eq!(verdict(&open, Point::RestartSurvived), Verdict::Failed, "nothing is left to go on with");
}

#[test]
fn an_answer_whose_receipt_does_not_hold_is_not_kept() {
    let mut forged = facts();
    forged.next.as_mut().unwrap().receipt_holds = Some(false);
    assert_eq!(verdict(&forged, Point::AnswerKept), Verdict::Failed);
    let mut lost = facts();
    lost.entries.truncate(4);
    assert_eq!(verdict(&lost, Point::AnswerKept), Verdict::Failed, "nothing followed the answer");
    let mut unseen = facts();
    unseen.entries.remove(2);
    assert_eq!(verdict(&unseen, Point::PauseSeen), Verdict::Failed);
}

/// agora's own question about a budget, and the answer to stop.
fn stopped(receipt_holds: Option<bool>) -> Facts {
    let mut facts = Facts { next: None, receipt_holds, ..facts() };
    let budget = Budget { turns: Some(2), ..Budget::default() };
    facts.asked.question = agora_core::spent::question(BudgetPart::Turns, &budget).unwrap();
    facts.asked.hash = facts.asked.question.hash().unwrap();
    facts.entries.truncate(4);
    if let Some(Entry { what: Happening::Record(Record::QuestionAnswered { answers, .. }), .. }) =
        facts.entries.last_mut()
    {
        let item = facts.asked.question.items()[0].id().clone();
        *answers = [(item, agora_core::answer::Reply::One("Stop here".to_owned()))].into();
    }
    facts
}

#[test]
fn a_question_of_agoras_own_that_is_answered_with_a_stop_is_an_end_and_no_fault() {
    let facts = stopped(Some(true));
    assert_eq!(verdict(&facts, Point::StateSaved), Verdict::NotApplicable);
    assert_eq!(verdict(&facts, Point::AnswerKept), Verdict::Passed);
    assert!(check(&facts).iter().all(|checked| checked.verdict != Verdict::Failed), "{:#?}", check(&facts));
    assert_eq!(verdict(&stopped(Some(false)), Point::AnswerKept), Verdict::Failed);
    assert_eq!(
        verdict(&stopped(None), Point::AnswerKept),
        Verdict::Unproven,
        "an older agora kept no receipt"
    );
}
