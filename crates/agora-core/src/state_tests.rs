use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::answer::{Answerer, Replies};
use crate::event::{Resolved, ResolvedBundle};
use crate::record::RouteOutcome;
use crate::route::{AtEnd, Expiry, Step};
use crate::time::Timestamp;

fn dispatch(number: u8) -> DispatchId {
    format!("d_{number}").parse().unwrap()
}

fn question_id(number: u8) -> QuestionId {
    format!("q_{number}").parse().unwrap()
}

fn question(number: u8) -> Question {
    let item = json!({"question": format!("Which, {number}?"), "options": [{"label": "A"}, {"label": "B"}], "default": "A"});
    serde_json::from_value(json!({"questions": [item]})).unwrap()
}

fn hash(number: u8) -> ContentHash {
    question(number).hash().unwrap()
}

fn replies(text: &str) -> Replies {
    serde_json::from_value(json!({"q1": text})).unwrap()
}

fn ann() -> Answerer {
    Answerer::new("user:ann", "cli")
}

fn accepted(number: u8) -> Happening {
    let bundle = ResolvedBundle {
        name: "planner".parse().unwrap(),
        content_hash: ContentHash::of(b"planner"),
        registered_at: Timestamp::from_millis(0),
    };
    let resolved = Resolved { subagent: bundle, capabilities: vec![], env: vec![] };
    Event::Accepted { dispatch_id: dispatch(number), resolved }.into()
}

fn started(number: u8) -> Happening {
    Event::Started { dispatch_id: dispatch(number) }.into()
}

fn finished(number: u8) -> Happening {
    Event::Finished { dispatch_id: dispatch(number), duration_ms: 1 }.into()
}

fn failed(number: u8) -> Happening {
    let failure = Failure::new(FailureCode::AgentExit, "exit code 1");
    Event::Failed { dispatch_id: dispatch(number), duration_ms: 1, failure }.into()
}

fn cancelled(number: u8) -> Happening {
    Event::Cancelled { dispatch_id: dispatch(number), duration_ms: 1 }.into()
}

fn needs_input(number: u8, asked: u8) -> Happening {
    let (question_id, question) = (question_id(asked), question(asked));
    Event::NeedsInput { dispatch_id: dispatch(number), duration_ms: 1, question_id, question }.into()
}

fn opened(number: u8) -> Happening {
    opened_on(number, Terms::default())
}

fn opened_on(number: u8, terms: Terms) -> Happening {
    let terms = Box::new(terms);
    Record::QuestionOpened { question_id: question_id(number), question_hash: hash(number), terms }.into()
}

fn at(hour: i64) -> Timestamp {
    Timestamp::from_millis(hour * 3_600_000)
}

/// A command, then Ann, then Bob; reminded from one o'clock on, at an end by nine.
fn terms(then: AtEnd) -> Terms {
    let command = CommandStep { argv: vec!["lookup".to_owned()], dir: None, timeout_ms: 1000 };
    let people = |party: &str| Step::Inbox(party.parse().unwrap());
    Terms {
        steps: vec![Step::Command(command), people("user:ann"), people("user:bob")],
        may_answer: vec!["user:ann".parse().unwrap()],
        remind_after_ms: Some(3_600_000),
        remind_at: Some(at(1)),
        escalate_after_ms: Some(7_200_000),
        expiry: Some(Expiry { at: at(9), then }),
        ..Terms::default()
    }
}

fn routed(number: u8, step: u32, outcome: RouteOutcome) -> Happening {
    let (question_id, escalate_at) = (question_id(number), Some(at(2)));
    Record::QuestionRouted { question_id, step, outcome, detail: None, escalate_at }.into()
}

fn escalated(number: u8, step: u32) -> Happening {
    Record::QuestionEscalated { question_id: question_id(number), step, escalate_at: None }.into()
}

fn reminded(number: u8, next_at: Timestamp) -> Happening {
    Record::QuestionReminded { question_id: question_id(number), next_at }.into()
}

fn refused(number: u8) -> Happening {
    let (question_id, why) = (question_id(number), "no".to_owned());
    Record::AnswerRefused { question_id, by: ann(), why, answers: None, stale: Vec::new() }.into()
}

/// A thread that asked on terms and waits.
fn waiting_on(then: AtEnd) -> Vec<Happening> {
    vec![accepted(1), started(1), needs_input(1, 1), opened_on(1, terms(then))]
}

fn answered(number: u8, hash: ContentHash, text: &str) -> Happening {
    let (question_id, answers) = (question_id(number), replies(text));
    Record::QuestionAnswered {
        question_id,
        question_hash: hash,
        answers,
        by: ann(),
        stale: Vec::new(),
        receipt: None,
    }
    .into()
}

fn declined(number: u8) -> Happening {
    Record::QuestionDeclined { question_id: question_id(number), by: ann() }.into()
}

fn expired(number: u8, at_expiry: AtExpiry) -> Happening {
    Record::QuestionExpired { question_id: question_id(number), at_expiry }.into()
}

fn question_cancelled(number: u8) -> Happening {
    Record::QuestionCancelled { question_id: question_id(number), by: None }.into()
}

fn fold(happenings: &[Happening]) -> Result<Thread, Illegal> {
    let (first, rest) = happenings.split_first().unwrap();
    rest.iter().try_fold(Thread::begin(first)?, Thread::after)
}

/// A thread that asked and waits.
fn waiting() -> Vec<Happening> {
    vec![accepted(1), started(1), needs_input(1, 1), opened(1)]
}

fn then(mut before: Vec<Happening>, more: &[Happening]) -> Result<Thread, Illegal> {
    before.extend_from_slice(more);
    fold(&before)
}

fn ended() -> Happening {
    Record::ThreadEnded {}.into()
}

/// A thread whose budget is used up, and which asks about that.
fn spent() -> (Vec<Happening>, ContentHash) {
    let budget = crate::bundle::Budget { turns: Some(2), ..Default::default() };
    let question = crate::spent::question(crate::spent::BudgetPart::Turns, &budget).unwrap();
    let question_hash = question.hash().unwrap();
    let asked =
        Event::NeedsInput { dispatch_id: dispatch(1), duration_ms: 1, question_id: question_id(1), question };
    let opened = Record::QuestionOpened { question_id: question_id(1), question_hash, terms: Box::default() };
    (vec![accepted(1), started(1), asked.into(), opened.into()], question_hash)
}

#[test]
fn a_budget_s_question_goes_on_or_stops_and_takes_no_other_answer() {
    let (waiting, hash) = spent();
    let after = |text: &str| then(waiting.clone(), &[answered(1, hash, text)]);
    assert_eq!(*after("Raise it").unwrap().state(), ThreadState::Resuming);
    assert_eq!(*after("+3 turns").unwrap().state(), ThreadState::Resuming);
    let stopped = after("Stop here").unwrap();
    assert!(matches!(stopped.state(), ThreadState::Failed(failure) if failure.code == FailureCode::Budget));
    assert_eq!(after("as you like"), Err(Illegal::UnfitAnswer));
}

#[test]
fn a_question_is_over_for_what_changed_only_where_its_terms_say_so() {
    let stale = expired(1, AtExpiry::Stale(Vec::new()));
    assert_eq!(then(waiting(), std::slice::from_ref(&stale)), Err(Illegal::NotDeclared));
    let terms = Terms { if_stale: IfStale::Fail, ..Terms::default() };
    let waiting = vec![accepted(1), started(1), needs_input(1, 1), opened_on(1, terms)];
    let late = then(waiting.clone(), &[stale.clone(), answered(1, hash(1), "A")]);
    assert_eq!(late, Err(Illegal::StaleAlready), "it did not expire");
    let over = then(waiting, &[refused(1), stale]).unwrap();
    assert!(
        matches!(over.state(), ThreadState::Failed(failure) if failure.code == FailureCode::QuestionStale)
    );
}

#[test]
fn a_thread_that_asks_is_answered_and_finishes() {
    let thread =
        then(waiting(), &[answered(1, hash(1), "B"), accepted(2), started(2), finished(2), ended()]).unwrap();
    assert_eq!(*thread.state(), ThreadState::Finished);
    let states: Vec<_> = thread.dispatches().iter().map(|(_, state)| state.clone()).collect();
    assert_eq!(states, [DispatchState::NeedsInput, DispatchState::Finished]);
    assert_eq!(thread.questions()[0].state, QuestionState::Answered);
    assert!(thread.has_ended());
}

#[test]
fn late_duplicate_early_and_foreign_answers_have_typed_outcomes() {
    let answer = answered(1, hash(1), "A");
    assert_eq!(then(waiting(), &[answer.clone(), answer.clone()]), Err(Illegal::AnsweredAlready));
    assert_eq!(then(waiting()[..3].to_vec(), std::slice::from_ref(&answer)), Err(Illegal::NotOpen));
    assert_eq!(then(waiting(), &[answered(1, hash(2), "A")]), Err(Illegal::OtherQuestion));
    assert_eq!(then(waiting(), &[answered(1, hash(1), "C")]), Err(Illegal::UnfitAnswer));
    assert_eq!(then(waiting(), &[answered(2, hash(2), "A")]), Err(Illegal::UnknownQuestion));
    let late = then(waiting_on(AtEnd::Fail), &[expired(1, AtExpiry::Fail), answer.clone()]);
    assert_eq!(late, Err(Illegal::ExpiredAlready));
    assert_eq!(then(waiting(), &[declined(1), answer.clone()]), Err(Illegal::DeclinedAlready));
    assert_eq!(then(waiting(), &[question_cancelled(1), answer]), Err(Illegal::CancelledAlready));
}

#[test]
fn a_decline_or_an_expiry_fails_the_thread_and_leaves_the_dispatch_as_it_was() {
    for (end, code) in [
        (declined(1), FailureCode::QuestionDeclined),
        (expired(1, AtExpiry::Fail), FailureCode::QuestionExpired),
    ] {
        let thread = then(waiting_on(AtEnd::Fail), &[end, ended()]).unwrap();
        assert!(matches!(thread.state(), ThreadState::Failed(failure) if failure.code == code));
        assert_eq!(thread.dispatches()[0].1, DispatchState::NeedsInput);
    }
}

#[test]
fn only_a_default_that_the_asker_named_is_used_at_expiry() {
    let expired_with = |replies: Replies, more: &[Happening]| {
        let expiry = expired(1, AtExpiry::UseDefault(replies));
        then(waiting_on(AtEnd::UseDefault), &[&[expiry], more].concat())
    };
    assert_eq!(*expired_with(replies("A"), &[accepted(2)]).unwrap().state(), ThreadState::Running);
    assert_eq!(expired_with(replies("B"), &[]), Err(Illegal::UnfitAnswer));
    assert_eq!(expired_with(BTreeMap::new(), &[]), Err(Illegal::UnfitAnswer));
}

#[test]
fn silence_ends_a_question_only_as_its_terms_declare() {
    for (before, end) in [
        (waiting(), AtExpiry::Fail),
        (waiting(), AtExpiry::UseDefault(replies("A"))),
        (waiting_on(AtEnd::Fail), AtExpiry::UseDefault(replies("A"))),
        (waiting_on(AtEnd::UseDefault), AtExpiry::Fail),
    ] {
        assert_eq!(then(before, &[expired(1, end)]), Err(Illegal::NotDeclared));
    }
    assert_eq!(then(waiting(), &[reminded(1, at(2))]), Err(Illegal::NotDeclared));
}

#[test]
fn a_question_takes_its_steps_in_order_and_knows_what_is_due_without_a_clock() {
    use RouteOutcome::{Answered, NoChannel, NoResponse};
    let on = |more: &[Happening]| then(waiting_on(AtEnd::Fail), more);
    let opened = on(&[]).unwrap();
    assert_eq!(opened.question_due_at(), Some(at(1)), "a reminder comes first");
    assert!(opened.command_to_ask().is_some() && opened.wants_carrier());
    assert_eq!(
        opened.open().unwrap().terms.shown_to(0),
        Vec::new(),
        "not to people, while a command is asked"
    );
    assert_eq!(on(&[escalated(1, 1)]), Err(Illegal::OtherStep), "a command gives way when it has no answer");

    let people = on(&[routed(1, 0, NoResponse), reminded(1, at(3))]).unwrap();
    assert_eq!((people.question_due_at(), people.wants_carrier()), (Some(at(2)), false));
    let asked = people.open().unwrap();
    assert_eq!(asked.terms.shown_to(asked.progress.step), ["user:ann".parse().unwrap()]);
    assert_eq!(asked.progress.next_reminder(&asked.terms, at(3)), at(7), "each gap is twice the one before");
    assert_eq!(on(&[routed(1, 0, NoResponse), routed(1, 1, NoChannel)]), Err(Illegal::OtherStep));

    let last = on(&[routed(1, 0, NoChannel), escalated(1, 2)]).unwrap();
    let shown = last.open().unwrap().terms.shown_to(2);
    assert_eq!(shown, ["user:ann".parse().unwrap(), "user:bob".parse().unwrap()], "more people, not others");
    assert_eq!(on(&[routed(1, 0, NoChannel), escalated(1, 2), escalated(1, 3)]), Err(Illegal::OtherStep));
    let done = on(&[routed(1, 0, Answered), answered(1, hash(1), "A")]).unwrap();
    assert_eq!(done.question_due_at(), None, "a question that is closed has no timers");
}

#[test]
fn the_gap_between_reminders_grows_to_a_week_and_no_further() {
    let mut progress = Progress::begin(&terms(AtEnd::Fail));
    let mut gaps = Vec::new();
    for _ in 0..12 {
        gaps.push(progress.next_reminder(&terms(AtEnd::Fail), at(0)).as_millis() / 3_600_000);
        progress.reminders += 1;
    }
    assert_eq!(gaps, [2, 4, 8, 16, 32, 64, 128, 168, 168, 168, 168, 168]);
    progress.reminders = u32::MAX;
    assert_eq!(progress.next_reminder(&terms(AtEnd::Fail), at(0)), at(168));
}

#[test]
fn refusals_are_recorded_and_nobody_can_fill_the_ledger_with_them() {
    let often: Vec<Happening> = std::iter::repeat_n(refused(1), 100).collect();
    let thread = then(waiting(), &often).unwrap();
    assert_eq!(*thread.state(), ThreadState::Waiting);
    assert_eq!(thread.after(&refused(1)), Err(Illegal::RefusedOften));
}

#[test]
fn a_question_that_was_opened_before_there_were_terms_waits_for_ever() {
    let old = json!({"kind": "question.opened", "data": {"questionId": "q_1", "questionHash": hash(1)}});
    let old: Record = serde_json::from_value(old).unwrap();
    let thread = fold(&[accepted(1), started(1), needs_input(1, 1), old.into()]).unwrap();
    assert_eq!((thread.question_due_at(), thread.wants_carrier()), (None, false));
}

#[test]
fn cancelling_a_paused_thread_is_two_records_and_no_event() {
    let cancel: Happening = Record::ThreadCancelled { by: None }.into();
    let thread = then(waiting(), &[question_cancelled(1), cancel.clone(), ended()]).unwrap();
    assert_eq!(*thread.state(), ThreadState::Cancelled);
    assert_eq!(thread.dispatches()[0].1, DispatchState::NeedsInput);
    assert_eq!(then(waiting(), std::slice::from_ref(&cancel)), Err(Illegal::QuestionOpen));
    assert_eq!(fold(&[accepted(1), cancel]), Err(Illegal::Busy));
}

#[test]
fn a_takeover_ends_a_question_and_goes_on_with_the_same_breath() {
    let over = [question_cancelled(1), Record::ThreadContinued { by: None }.into(), accepted(2)];
    let thread = then(waiting(), &over).unwrap();
    assert_eq!(*thread.state(), ThreadState::Running);
    assert_eq!(thread.questions()[0].state, QuestionState::Cancelled);
    assert_eq!(thread.after(&answered(1, hash(1), "A")), Err(Illegal::CancelledAlready));
    let late = then(waiting(), &[answered(1, hash(1), "A"), question_cancelled(1)]);
    assert_eq!(late, Err(Illegal::AnsweredAlready));
}

#[test]
fn a_thread_goes_on_from_every_end_but_an_open_question() {
    let continued: Happening = Record::ThreadContinued { by: None }.into();
    for end in [finished(1), failed(1), cancelled(1)] {
        let thread = fold(&[accepted(1), started(1), end, ended(), continued.clone(), accepted(2)]).unwrap();
        assert_eq!(*thread.state(), ThreadState::Running);
        assert!(!thread.has_ended());
    }
    assert_eq!(then(waiting(), std::slice::from_ref(&continued)), Err(Illegal::QuestionOpen));
    assert_eq!(fold(&[accepted(1), continued]), Err(Illegal::NotOver));
}

#[test]
fn nothing_of_a_dispatch_follows_its_terminal_event() {
    for end in [finished(1), failed(1), cancelled(1), needs_input(1, 1)] {
        for late in [started(1), finished(1), failed(1), cancelled(1), needs_input(1, 2)] {
            let outcome = fold(&[accepted(1), started(1), end.clone(), late.clone()]);
            assert_eq!(outcome, Err(Illegal::DispatchEnded), "{} after {}", late.kind(), end.kind());
        }
    }
}

#[test]
fn a_dispatch_that_never_started_can_only_fail_or_be_cancelled() {
    assert!(fold(&[accepted(1), failed(1)]).is_ok());
    assert!(fold(&[accepted(1), cancelled(1)]).is_ok());
    assert_eq!(fold(&[accepted(1), finished(1)]), Err(Illegal::NotStarted));
    assert_eq!(fold(&[accepted(1), needs_input(1, 1)]), Err(Illegal::NotStarted));
    assert_eq!(fold(&[started(1)]), Err(Illegal::NoThread));
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let (dispatches, questions) = (1..4_u8, 1..4_u8);
    (dispatches, questions, 1..4_u8, 0..26_u8).prop_map(|(number, asked, other, which)| match which {
        0 | 1 => accepted(number),
        2 | 3 => started(number),
        4 => finished(number),
        5 | 6 => needs_input(number, asked),
        7 => failed(number),
        8 => cancelled(number),
        9 => opened(asked),
        10 => opened_on(asked, terms(if number == 1 { AtEnd::UseDefault } else { AtEnd::Fail })),
        11 | 12 => answered(asked, hash(asked), "A"),
        13 => answered(asked, hash(other), "B"),
        14 => declined(asked),
        15 => expired(asked, AtExpiry::Fail),
        16 => expired(asked, AtExpiry::UseDefault(replies("A"))),
        17 => question_cancelled(asked),
        18 => Record::ThreadContinued { by: None }.into(),
        19 => Record::ThreadEnded {}.into(),
        20 => reminded(asked, at(5)),
        21 => escalated(asked, u32::from(other)),
        22 => refused(asked),
        _ => routed(asked, 0, RouteOutcome::NoResponse),
    })
}

/// Folds what is legal of a sequence, as a ledger does, and returns what was taken with the thread after each.
fn legal(happenings: Vec<Happening>) -> Vec<(Happening, Thread)> {
    let mut taken: Vec<(Happening, Thread)> = Vec::new();
    for what in happenings {
        let next = match taken.last() {
            None => Thread::begin(&what),
            Some((_, thread)) => thread.clone().after(&what),
        };
        taken.extend(next.ok().map(|thread| (what, thread)));
    }
    taken
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The invariants that are about states, over any sequence: none panics, and each holds in every state reached.
    #[test]
    fn the_invariants_hold_after_any_sequence(happenings in proptest::collection::vec(any_happening(), 0..60)) {
        let taken = legal(happenings);
        let count = |test: &dyn Fn(&Happening) -> bool| taken.iter().filter(|(what, _)| test(what)).count();
        for number in 1..4 {
            let answers = count(&|what| matches!(what, Happening::Record(Record::QuestionAnswered { question_id: id, .. }) if *id == question_id(number)));
            prop_assert!(answers <= 1, "at most one accepted answer per question");
            let terminal = count(&|what| matches!(what, Happening::Event(event) if event.is_terminal() && *event.dispatch_id() == dispatch(number)));
            prop_assert!(terminal <= 1, "one terminal event per dispatch");
        }
        for pair in taken.windows(2) {
            let [(_, before), (what, after)] = pair else { unreachable!() };
            prop_assert!(after.dispatches().iter().filter(|(_, state)| state.is_live()).count() <= 1, "one live dispatch");
            let open = |thread: &Thread| thread.questions().iter().filter(|asked| matches!(asked.state, QuestionState::Open | QuestionState::Asked)).count();
            prop_assert_eq!(open(after) == 1, *after.state() == ThreadState::Waiting, "waiting means that a question is open");
            if *before.state() == ThreadState::Waiting && *after.state() != ThreadState::Waiting {
                let authorised = matches!(what, Happening::Record(
                    Record::QuestionAnswered { .. } | Record::QuestionDeclined { .. }
                    | Record::QuestionExpired { .. } | Record::QuestionCancelled { .. }));
                prop_assert!(authorised, "nothing leaves a pause by itself: {}", what.kind());
            }
            if *before.state() == ThreadState::Resuming {
                let one_way_on = matches!(what, Happening::Event(Event::Accepted { .. }) | Happening::Record(Record::ThreadCancelled { .. } | Record::AnswerRefused { .. }));
                prop_assert!(one_way_on, "an answer leads to the next dispatch or a typed end, not to {}", what.kind());
            }
            let closed = |thread: &Thread| thread.questions().iter().filter(|asked| asked.state != QuestionState::Open).map(|asked| asked.id.clone()).collect::<Vec<_>>();
            prop_assert!(closed(before).iter().all(|id| after.questions().iter().any(|asked| asked.id == *id)), "no question is lost");
        }
    }

    /// Recovery is a fold over what was recorded, and reaches the same state.
    #[test]
    fn replaying_what_was_taken_gives_the_same_thread(happenings in proptest::collection::vec(any_happening(), 1..60)) {
        let taken = legal(happenings);
        if let Some((_, last)) = taken.last() {
            let recorded: Vec<Happening> = taken.iter().map(|(what, _)| what.clone()).collect();
            prop_assert_eq!(&fold(&recorded).unwrap(), last);
        }
    }
}
