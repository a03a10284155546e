//! Hides secrets in what the worker says. Whatever leaves the worker passes here.

use agora_core::event::Event;
use agora_core::question::{ItemId, Question, RawItem, RawQuestion};
use agora_core::reason::Failure;
use agora_core::wire::line::{Ran, Said};
use agora_core::wire::report::Report;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::redact::{MARK, Redactor};

/// The characters of a failure's detail.
const LONGEST_DETAIL: usize = 4000;

/// Returns the same with its secrets hidden.
pub(crate) fn redacted(said: Said, redactor: &Redactor) -> Said {
    match said {
        Said::Boot { .. } | Said::VerifyRan { .. } => said,
        Said::OverlayDropped { path, winner, loser } => {
            // A path cannot be hidden and stay a path; one that holds a secret is told by its owners alone.
            if redactor.holds(path.as_str().as_bytes()) {
                let hidden = "redacted".parse().unwrap_or(path);
                return Said::OverlayDropped { path: hidden, winner, loser };
            }
            Said::OverlayDropped { path, winner, loser }
        }
        Said::SetupRan(ran) => Said::SetupRan(redacted_ran(ran, redactor)),
        Said::AdapterRan(ran) => Said::AdapterRan(redacted_ran(ran, redactor)),
        Said::Report(report) => Said::Report(Box::new(redacted_report(*report, redactor))),
        Said::Event(event) => Said::Event(redacted_event(event, redactor)),
    }
}

fn redacted_ran(ran: Ran, redactor: &Redactor) -> Ran {
    let text = |text: String| redactor.text(&text).into_owned();
    Ran { stdout: text(ran.stdout), stderr: text(ran.stderr), ..ran }
}

fn redacted_report(report: Report, redactor: &Redactor) -> Report {
    let mut report = value_by_value(report, redactor);
    // What is not ours to give a type to.
    let deferred = report.session.as_mut().and_then(|session| session.deferred.as_mut());
    report.output.structured.iter_mut().chain(deferred).for_each(|value| redactor.json(value));
    report
}

fn redacted_event(event: Event, redactor: &Redactor) -> Event {
    match event {
        Event::NeedsInput { dispatch_id, duration_ms, question_id, question } => {
            let question = redacted_question(question, redactor);
            Event::NeedsInput { dispatch_id, duration_ms, question_id, question }
        }
        Event::Failed { dispatch_id, duration_ms, failure } => {
            let detail = shortened(&redactor.text(&failure.detail));
            Event::Failed { dispatch_id, duration_ms, failure: Failure { detail, ..failure } }
        }
        Event::Accepted { .. } | Event::Started { .. } | Event::Finished { .. } | Event::Cancelled { .. } => {
            event
        }
    }
}

/// Cuts what no person would read to its end, once nothing secret is in it.
fn shortened(detail: &str) -> String {
    match detail.char_indices().nth(LONGEST_DETAIL) {
        Some((end, _)) => format!("{}…", &detail[..end]),
        None => detail.to_owned(),
    }
}

/// Hides secrets in a question and keeps it one that can be answered: labels and ids that became the same are told
/// apart again.
fn redacted_question(question: Question, redactor: &Redactor) -> Question {
    let raw = RawQuestion::from(question.clone());
    let mut hidden: RawQuestion = value_by_value(raw.clone(), redactor);
    redactor.json(&mut hidden.partial_state);
    if hidden == raw {
        return question;
    }
    let questions = hidden.questions.into_iter().zip(raw.questions);
    let questions = questions.map(|(hidden, raw)| told_apart(hidden, &raw)).collect();
    let hidden = RawQuestion { questions, ..hidden };
    Question::new(hidden).unwrap_or(question_about_nothing(question))
}

fn told_apart(mut hidden: RawItem, raw: &RawItem) -> RawItem {
    if hidden.id != raw.id {
        hidden.id = None::<ItemId>;
    }
    for place in 1..hidden.options.len() {
        let (before, rest) = hidden.options.split_at_mut(place);
        if before.iter().any(|choice| choice.label == rest[0].label) {
            rest[0].label = format!("{} ({})", rest[0].label, place + 1);
        }
    }
    if hidden.default != raw.default {
        hidden.default = None;
    }
    hidden
}

/// What is left of a question that is nothing but secrets. Never the question itself.
fn question_about_nothing(question: Question) -> Question {
    let item = RawItem { question: MARK.to_owned(), ..RawItem::default() };
    let raw = RawQuestion { questions: vec![item], ..RawQuestion::default() };
    Question::new(raw).unwrap_or(question)
}

/// Hides secrets in every text of a value, by way of JSON, so that no field is forgotten.
fn value_by_value<T: Serialize + DeserializeOwned + Clone>(value: T, redactor: &Redactor) -> T {
    let Ok(mut json) = serde_json::to_value(&value) else { return value };
    redactor.typed_json(&mut json);
    serde_json::from_value(json).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use agora_core::secret::{SecretValue, ShortSecrets};
    use serde_json::json;

    use super::*;

    fn redactor() -> Redactor {
        let secrets = ["hunter2hunter2", "swordfish-1"];
        let value = |text: &&str| SecretValue::new((*text).to_owned(), ShortSecrets::Refuse).unwrap();
        Redactor::new(secrets.iter().map(value).collect::<Vec<_>>().iter()).unwrap()
    }

    #[test]
    fn a_question_full_of_secrets_stays_a_question_and_shows_none() {
        let question: Question = serde_json::from_value(json!({
            "questions": [
                {"id": "hunter2hunter2", "question": "Use hunter2hunter2?", "header": "swordfish-1", "default": "hunter2hunter2",
                 "options": [{"label": "hunter2hunter2", "description": "swordfish-1"}, {"label": "swordfish-1"}, {"label": "no"}]},
                {"id": "swordfish-1", "question": "swordfish-1"}
            ],
            "context": "hunter2hunter2",
            "partialState": {"hunter2hunter2": ["swordfish-1"]}
        }))
        .unwrap();
        let redactor = redactor();
        let hidden = redacted_question(question, &redactor);
        assert!(!redactor.holds(serde_json::to_string(&hidden).unwrap().as_bytes()));
        assert_eq!(hidden.items().len(), 2);
        assert_eq!(hidden.items()[0].options().len(), 3);
        assert_eq!(hidden.items()[0].id().as_str(), "q1");
    }

    #[test]
    fn a_secret_that_is_a_number_is_hidden_where_the_number_is_not_ours() {
        let secret = SecretValue::new("4155550123".to_owned(), ShortSecrets::Refuse).unwrap();
        let redactor = Redactor::new([&secret]).unwrap();
        let state = json!({"pin": 4_155_550_123_u64, "below": [-41_555_501_234_i64, 4_155_550_123.5, 415_555], "4155550123": null});
        let question = json!({"questions": [{"question": "A?"}], "partialState": state});
        let hidden = redacted_question(serde_json::from_value(question).unwrap(), &redactor);
        let expected = json!({"pin": MARK, "below": [MARK, MARK, 415_555], MARK: null});
        assert_eq!(hidden.partial_state(), &expected);

        let at = agora_core::Timestamp::from_millis(0);
        let mut report = Report::new("d_1".parse().unwrap(), at);
        report.output.structured = Some(state);
        report.output.text = "4155550123".to_owned();
        report.usage =
            Some(agora_core::wire::report::Usage { duration_ms: 4_155_550_123, ..Default::default() });
        let report = redacted_report(report, &redactor);
        assert_eq!((report.output.structured, report.output.text.as_str()), (Some(expected), MARK));
        assert_eq!(report.usage.unwrap().duration_ms, 4_155_550_123);
    }

    #[test]
    fn a_detail_is_hidden_before_it_is_cut() {
        let detail = format!("{}hunter2hunter2{}", "x".repeat(LONGEST_DETAIL - 5), "y".repeat(100));
        let failure = Failure::new(agora_core::reason::FailureCode::AgentExit, detail);
        let event = Event::Failed { dispatch_id: "d_1".parse().unwrap(), duration_ms: 0, failure };
        let Event::Failed { failure, .. } = redacted_event(event, &redactor()) else {
            panic!("it stays a failure")
        };
        assert!(!failure.detail.contains("hunt") && failure.detail.ends_with('…'), "{}", failure.detail);
    }

    #[test]
    fn a_question_without_secrets_is_untouched() {
        let question: Question =
            serde_json::from_value(json!({"questions": [{"question": "A?"}], "partialState": u64::MAX}))
                .unwrap();
        assert_eq!(redacted_question(question.clone(), &redactor()), question);
    }
}
