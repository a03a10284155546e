//! The rules: from the facts of a pause to how each point stands.

use agora_core::entry::Happening;
use agora_core::event::Event;
use agora_core::record::Record;
use agora_core::spent::{self, Decision};
use agora_core::state::QuestionState;
use serde_json::Value;

use super::facts::Next;
use super::{Checked, Evidence, Facts, Point, Verdict};

/// From the facts to how one point stands, and what that rests on.
type Rule = fn(&Facts) -> (Verdict, Evidence);

/// Judges a pause, point by point.
pub(super) fn check(facts: &Facts) -> Vec<Checked> {
    let points: [(Point, Rule); 9] = [
        (Point::StateSaved, state_saved),
        (Point::ContextGiven, context_given),
        (Point::OptionsImply, options_imply),
        (Point::PauseSeen, pause_seen),
        (Point::QuestionKept, question_kept),
        (Point::AnswerKept, answer_kept),
        (Point::BothGivenBack, both_given_back),
        (Point::NothingRedone, nothing_redone),
        (Point::RestartSurvived, restart_survived),
    ];
    let judge = |(point, rule): (Point, Rule)| {
        let (verdict, evidence) = rule(facts);
        Checked { point, verdict, evidence }
    };
    points.into_iter().map(judge).collect()
}

fn passed_if(is_so: bool) -> Verdict {
    if is_so { Verdict::Passed } else { Verdict::Failed }
}

/// Files alone tell no reasoning, and reasoning alone no files: both must be there. A session tells the reasoning, too.
fn state_saved(facts: &Facts) -> (Verdict, Evidence) {
    let entries = match facts.asked.question.partial_state() {
        Value::Null => 0,
        Value::Object(fields) => fields.len(),
        Value::Array(values) => values.len(),
        Value::String(text) => usize::from(!text.trim().is_empty()),
        Value::Bool(_) | Value::Number(_) => 1,
    };
    let report = facts.before.as_ref();
    let workspace = report.is_some_and(|report| report.workspace_saved);
    let session = report.is_some_and(|report| report.session.is_some());
    let verdict = match report {
        // agora asks this one itself, when an agent is stopped: it had nothing to say.
        _ if facts.asked.question.spent().is_some() => Verdict::NotApplicable,
        Some(_) => passed_if(workspace && (entries > 0 || session)),
        None => Verdict::Unproven,
    };
    (verdict, Evidence::State { entries, workspace, session })
}

fn context_given(facts: &Facts) -> (Verdict, Evidence) {
    let characters = facts.asked.question.context().map_or(0, |context| context.trim().chars().count());
    (passed_if(characters > 0), Evidence::Context { characters })
}

/// One option is no choice, and an option that says nothing about itself is a guess.
fn options_imply(facts: &Facts) -> (Verdict, Evidence) {
    let constrained =
        facts.asked.question.items().iter().map(|item| item.options()).filter(|all| !all.is_empty());
    let Some(fewest) = constrained.clone().map(<[_]>::len).min() else {
        return (Verdict::NotApplicable, Evidence::FreeText);
    };
    let options = constrained.clone().map(<[_]>::len).sum();
    let says = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.trim().is_empty());
    let implied = constrained.flatten().filter(|choice| says(&choice.description)).count();
    (passed_if(fewest >= 2 && implied == options), Evidence::Options { options, implied, fewest })
}

fn pause_seen(facts: &Facts) -> (Verdict, Evidence) {
    let id = &facts.asked.id;
    let asked = facts.seq(
        1,
        |what| matches!(what, Happening::Event(Event::NeedsInput { question_id, .. }) if question_id == id),
    );
    let opened_seq = facts.seq(1, |what| {
        matches!(what, Happening::Record(Record::QuestionOpened { question_id, .. }) if question_id == id)
    });
    let asked_seq = asked.unwrap_or(0);
    let verdict = passed_if(asked.is_some() && opened_seq.is_some_and(|opened| opened > asked_seq));
    (verdict, Evidence::Pause { asked_seq, opened_seq })
}

fn question_kept(facts: &Facts) -> (Verdict, Evidence) {
    let asked = &facts.asked;
    let same = asked.question.hash().is_ok_and(|hash| hash == asked.hash);
    (passed_if(same), Evidence::Question { hash: asked.hash, same })
}

/// The answer and the dispatch that goes on are one write: nothing can have been done with an answer that is not kept. The answer
/// that it is to stop is an end by itself.
fn answer_kept(facts: &Facts) -> (Verdict, Evidence) {
    let id = &facts.asked.id;
    let answer = facts.entries.iter().find_map(|entry| match &entry.what {
        Happening::Record(Record::QuestionAnswered { question_id, answers, .. }) if question_id == id => {
            Some((entry.seq, answers))
        }
        Happening::Event(_) | Happening::Record(_) => None,
    });
    let Some((answered_seq, answers)) = answer else { return unanswered(facts) };
    let accepted_seq = facts.accepted_seq();
    let ends = matches!(spent::decision(&facts.asked.question, answers), Ok(Some(Decision::Stop)));
    let receipts = [facts.receipt_holds, facts.next.as_ref().and_then(|next| next.receipt_holds)];
    let receipt = receipts.into_iter().flatten().reduce(|one, other| one && other);
    let in_order = match accepted_seq {
        Some(accepted) => accepted > answered_seq,
        None => ends,
    };
    let verdict = match receipt {
        // An older agora kept it only with the dispatch that goes on.
        None if ends => Verdict::Unproven,
        _ => passed_if(in_order && receipt == Some(true)),
    };
    (verdict, Evidence::Answer { answered_seq, accepted_seq, ends, receipt })
}

fn both_given_back(facts: &Facts) -> (Verdict, Evidence) {
    let Some(next) = &facts.next else { return unanswered(facts) };
    let Some(report) = &next.report else { return underway(next) };
    let with = report.resumed_with.unwrap_or_default();
    let had_state = !facts.asked.question.partial_state().is_null();
    let had_workspace = facts.before.as_ref().is_some_and(|before| before.workspace_saved);
    let whole = (with.partial_state || !had_state) && (with.workspace || !had_workspace);
    let (dispatch_id, after) = (next.job.dispatch_id.clone(), next.job.after.clone());
    (passed_if(whole), Evidence::GivenBack { dispatch_id, after, with })
}

/// A runtime that has its whole conversation back, or whose stream shows that no earlier call came again, did nothing twice. Where
/// neither is known, nobody can tell; and a workspace that was kept and not given back had to be made again.
fn nothing_redone(facts: &Facts) -> (Verdict, Evidence) {
    let Some(next) = &facts.next else { return unanswered(facts) };
    let Some(report) = &next.report else { return underway(next) };
    let with = report.resumed_with.unwrap_or_default();
    let had_workspace = facts.before.as_ref().is_some_and(|before| before.workspace_saved);
    let verdict = match (with.workspace || !had_workspace, next.calls) {
        (false, _) => Verdict::Failed,
        (true, Some(calls)) if calls.repeated == 0 => Verdict::Passed,
        (true, Some(_)) => Verdict::Unproven,
        (true, None) if with.session => Verdict::Passed,
        (true, None) => Verdict::Unproven,
    };
    let turns = report.usage.as_ref().map(|usage| usage.turns);
    let evidence = Evidence::Work {
        dispatch_id: next.job.dispatch_id.clone(),
        workspace: with.workspace,
        session: with.session,
        turns,
        calls: next.calls,
    };
    (verdict, evidence)
}

fn restart_survived(facts: &Facts) -> (Verdict, Evidence) {
    let (entries, same, sealed) = (facts.entries.len(), facts.folds_alike, facts.sealed);
    (passed_if(same && sealed != Some(false)), Evidence::Restart { entries, same, sealed })
}

fn unanswered(facts: &Facts) -> (Verdict, Evidence) {
    let state = match facts.asked.state {
        QuestionState::Asked | QuestionState::Open => "open",
        QuestionState::Answered => "answered",
        QuestionState::Declined => "declined",
        QuestionState::Expired => "expired",
        QuestionState::Stale => "over, because what it rested on had changed",
        QuestionState::Cancelled => "cancelled",
    };
    (Verdict::NotApplicable, Evidence::Unanswered { state })
}

fn underway(next: &Next) -> (Verdict, Evidence) {
    (Verdict::NotApplicable, Evidence::Underway { dispatch_id: next.job.dispatch_id.clone() })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
