//! Things that may happen to a thread, for tests of ledgers.

use agora_core::entry::Happening;
use agora_core::event::{Event, Resolved, ResolvedBundle};
use agora_core::job::{Job, JobEssentials};
use agora_core::provider::ledger::{Append, Paper};
use agora_core::question::Question;
use agora_core::reason::{Failure, FailureCode};
use agora_core::record::Record;
use agora_core::route::{AtEnd, CommandStep, Expiry, Step, Terms};
use agora_core::wire::manifest::{Continuation, Limits};
use agora_core::{ContentHash, Namespace, Timestamp};
use serde_json::{Map, json};

fn resolved() -> Resolved {
    let subagent = ResolvedBundle {
        name: "planner".parse().unwrap(),
        content_hash: ContentHash::of(b"planner"),
        registered_at: Timestamp::from_millis(0),
    };
    Resolved { subagent, capabilities: Vec::new(), env: Vec::new() }
}

/// Makes the job of a first dispatch at the target `local`.
pub fn job(thread: &str, dispatch: &str) -> Job {
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

/// Makes a job that goes on with its thread.
pub fn continued(job: Job) -> Job {
    tuned(job, |job| job.continuation = Some(Continuation::Continued { message: None, answer: None }))
}

/// Changes something about a job.
pub fn tuned(mut job: Job, tune: impl FnOnce(&mut Job)) -> Job {
    tune(&mut job);
    job
}

/// Makes an append without papers.
pub fn append(thread: &str, seen: u64, what: Vec<Happening>) -> Append {
    let (namespace, thread_id) = (Namespace::default(), thread.parse().unwrap());
    Append { namespace, thread_id, seen, what, papers: Vec::new() }
}

/// Makes an append that accepts a job, with its paper.
pub fn accept(seen: u64, job: Job) -> Append {
    let what = vec![accepted(job.dispatch_id.as_str())];
    Append {
        namespace: job.namespace.clone(),
        thread_id: job.thread_id.clone(),
        seen,
        what,
        papers: vec![Paper::Job(Box::new(job))],
    }
}

pub fn accepted(dispatch: &str) -> Happening {
    Event::Accepted { dispatch_id: dispatch.parse().unwrap(), resolved: resolved() }.into()
}

pub fn started(dispatch: &str) -> Happening {
    Event::Started { dispatch_id: dispatch.parse().unwrap() }.into()
}

pub fn finished(dispatch: &str) -> Happening {
    Event::Finished { dispatch_id: dispatch.parse().unwrap(), duration_ms: 5 }.into()
}

pub fn cancelled(dispatch: &str) -> Happening {
    Event::Cancelled { dispatch_id: dispatch.parse().unwrap(), duration_ms: 6 }.into()
}

/// Makes a failure by a provider's limit, which may say when it ends.
pub fn failed(dispatch: &str, retry_at: Option<Timestamp>) -> Happening {
    let failure = Failure { retry_at, ..Failure::new(FailureCode::RateLimited, "a limit was reached") };
    Event::Failed { dispatch_id: dispatch.parse().unwrap(), duration_ms: 7, failure }.into()
}

pub fn question() -> Question {
    let items = json!([{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}], "default": "a"}]);
    serde_json::from_value(json!({"questions": items})).unwrap()
}

/// Makes the pause of a dispatch, and the record that opens its question.
pub fn asked(dispatch: &str, question_id: &str) -> Vec<Happening> {
    asked_on(dispatch, question_id, Terms::default())
}

/// Makes the same, on terms.
pub fn asked_on(dispatch: &str, question_id: &str, terms: Terms) -> Vec<Happening> {
    let (dispatch_id, question_id) = (dispatch.parse().unwrap(), question_id.parse().unwrap());
    let question = question();
    let question_hash = question.hash().unwrap();
    let pause = Event::NeedsInput { dispatch_id, duration_ms: 8, question_id, question };
    let Event::NeedsInput { question_id, .. } = &pause else { unreachable!() };
    let opened =
        Record::QuestionOpened { question_id: question_id.clone(), question_hash, terms: Box::new(terms) };
    vec![pause.into(), opened.into()]
}

/// Makes terms by which a question asks a command, then people, then others, reminds them, and ends at last.
pub fn terms(now: Timestamp, then: AtEnd) -> Terms {
    let later = |hours: u64| now.plus(std::time::Duration::from_secs(3600 * hours));
    let command = CommandStep { argv: vec!["lookup".to_owned()], dir: None, timeout_ms: 1000 };
    let people = |party: &str| Step::Inbox(party.parse().unwrap());
    Terms {
        steps: vec![Step::Command(command), people("user:ann"), people("user:bob")],
        may_answer: vec!["user:ann".parse().unwrap(), "user:bob".parse().unwrap()],
        remind_after_ms: Some(3_600_000),
        remind_at: Some(later(1)),
        escalate_after_ms: Some(7_200_000),
        expiry: Some(Expiry { at: later(9), then }),
        ..Terms::default()
    }
}

pub fn continues() -> Happening {
    Record::ThreadContinued { by: None }.into()
}

pub fn ended() -> Happening {
    Record::ThreadEnded {}.into()
}
