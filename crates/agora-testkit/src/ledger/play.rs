//! Random operations, the same on several ledgers, whose answers are compared.

use std::fmt::Debug;
use std::time::Duration;

use agora_core::answer::Answerer;
use agora_core::entry::Happening;
use agora_core::job::{Attendance, Job};
use agora_core::provider::ledger::{
    Append, ClaimMark, Filter, Ledger, LedgerError, OpenFilter, Paper, StateWord, ThreadView,
};
use agora_core::record::{AtExpiry, Record, RouteOutcome};
use agora_core::route::{AtEnd, Terms};
use agora_core::state::{AskedQuestion, DispatchState, QuestionState, ThreadState};
use agora_core::time::Clock;
use agora_core::{ContentHash, DispatchId, Namespace, ThreadId, Timestamp};

use super::sample;
use crate::clock::SetClock;

const THREADS: u8 = 5;
const DISPATCHES: u8 = 12;
const TARGETS: [&str; 2] = ["local", "far"];
const LABELS: [&str; 3] = ["x", "y", "z"];
const NAMESPACES: [&str; 2] = ["default", "other"];

/// Four bytes: what is done, to which thread, and two for whatever else is to be chosen.
pub type Choice = [u8; 4];

/// Plays on ledgers that share the clock, and fails where one answers otherwise than the first.
pub async fn play(ledgers: &[&dyn Ledger], clock: &SetClock, choices: &[Choice]) {
    for (number, choice) in choices.iter().enumerate() {
        if choice[0] % 16 == 15 {
            turn(clock, *choice);
            continue;
        }
        let answer = step(ledgers[0], clock, *choice).await;
        for other in &ledgers[1..] {
            assert_eq!(step(*other, clock, *choice).await, answer, "step {number}, {choice:?}");
        }
        if number % 8 == 7 {
            agree(ledgers, clock).await;
        }
    }
    agree(ledgers, clock).await;
}

/// Asks every ledger everything, and fails where one answers otherwise than the first.
pub async fn agree(ledgers: &[&dyn Ledger], clock: &SetClock) {
    let expected = survey(ledgers[0], clock).await;
    for other in &ledgers[1..] {
        for (expected, found) in expected.iter().zip(survey(*other, clock).await) {
            assert_eq!(found, *expected);
        }
    }
}

/// Sets the clock, now and then back.
fn turn(clock: &SetClock, [_, _, by, back]: Choice) {
    let (now, by) = (clock.now(), i64::from(by) * 3_600_000);
    let turned = if back.is_multiple_of(4) { now.as_millis() - by } else { now.as_millis() + by };
    clock.set(&Timestamp::from_millis(turned).to_string());
}

fn thread_id(number: u8) -> ThreadId {
    format!("t_{}", number % THREADS).parse().unwrap()
}

fn dispatch_id(number: u8) -> DispatchId {
    format!("d_{}", number % DISPATCHES).parse().unwrap()
}

fn pick<T: Clone>(from: &[T], number: u8) -> T {
    from[usize::from(number) % from.len()].clone()
}

/// Does one thing, and returns what the ledger said.
async fn step(ledger: &dyn Ledger, clock: &SetClock, [kind, which, one, two]: Choice) -> String {
    let id = thread_id(which);
    let view = match ledger.thread(&id).await {
        Ok(view) => view,
        Err(error) => return format!("{error:?}"),
    };
    let live = view.as_ref().and_then(live_dispatch).unwrap_or_else(|| dispatch_id(one));
    let mark = |number: u8| ClaimMark { at: clock.now(), boot: (number % 3).to_string() };
    match kind % 16 {
        0..=7 => said(ledger.append(next(&id, view.as_ref(), clock, one, two)).await),
        8 => {
            let mut other = next(&id, view.as_ref(), clock, one, two);
            other.seen = other.seen.wrapping_add(1);
            said(ledger.append(other).await)
        }
        9 => {
            let seen = view.map_or(0, |view| view.seen);
            let what = vec![sample::started(dispatch_id(one).as_str()), sample::ended()];
            said(ledger.append(sample::append(id.as_str(), seen, what)).await)
        }
        10 | 11 => said(ledger.claim(&live, mark(one), u32::from(two % 4)).await),
        12 => {
            let claim = ledger.dispatch(&live).await.unwrap().and_then(|view| view.claim);
            let seen = claim.filter(|_| !two.is_multiple_of(4)).unwrap_or_else(|| mark(two));
            said(ledger.reclaim(&live, &seen, mark(one)).await)
        }
        13 => {
            let by = one.is_multiple_of(2).then(|| Answerer::new("user:ann", "cli"));
            said(ledger.wish_cancel(&id, by.as_ref()).await)
        }
        _ => match ledger.outgoing(clock.now(), usize::from(two % 3)).await.unwrap().first() {
            Some(out) if one.is_multiple_of(2) => {
                let again = (two.is_multiple_of(2)).then(|| clock.now().plus(Duration::from_secs(3600)));
                said(ledger.told(out.id, again).await)
            }
            _ => said(ledger.forget(&id).await),
        },
    }
}

fn said<T: Debug>(answer: Result<T, LedgerError>) -> String {
    format!("{answer:?}")
}

fn live_dispatch(view: &ThreadView) -> Option<DispatchId> {
    view.thread.dispatches().iter().find(|(_, state)| state.is_live()).map(|(id, _)| id.clone())
}

/// Returns something that may happen to the thread, with papers; it fails only where an id or a key is taken.
fn next(id: &ThreadId, view: Option<&ThreadView>, clock: &SetClock, one: u8, two: u8) -> Append {
    let Some(view) = view else { return accept(id, 0, one, two) };
    let seen = view.seen;
    let last = view.thread.dispatches().last().map(|(id, state)| (id.to_string(), state)).unwrap();
    let question = view.thread.questions().last().filter(|asked| asked.state == QuestionState::Open);
    let what: Vec<Happening> = match (view.thread.state(), last) {
        (ThreadState::Running, (dispatch, DispatchState::Accepted)) if !one.is_multiple_of(8) => {
            vec![sample::started(&dispatch)]
        }
        (ThreadState::Running, (dispatch, DispatchState::Accepted)) => vec![sample::cancelled(&dispatch)],
        (ThreadState::Running, (dispatch, _)) => match one % 4 {
            0 => vec![sample::finished(&dispatch)],
            1 => {
                let terms = match two % 4 {
                    0 => Terms::default(),
                    1 => sample::terms(clock.now(), AtEnd::UseDefault),
                    _ => sample::terms(clock.now(), AtEnd::Fail),
                };
                sample::asked_on(&dispatch, &format!("q_{seen}"), terms)
            }
            2 => {
                let retry_at =
                    (!two.is_multiple_of(4)).then(|| clock.now().plus(Duration::from_secs(u64::from(two))));
                vec![sample::failed(&dispatch, retry_at)]
            }
            _ => vec![sample::cancelled(&dispatch)],
        },
        (ThreadState::Waiting, _) => {
            vec![of_question(question.unwrap(), clock.now(), one).into()]
        }
        (ThreadState::Resuming, _) if !one.is_multiple_of(8) => return accept(id, seen, one, two),
        (ThreadState::Resuming, _) => vec![Record::ThreadCancelled { by: None }.into()],
        (ThreadState::Finished | ThreadState::Failed(_) | ThreadState::Cancelled, _) => {
            match view.thread.has_ended() {
                false if !one.is_multiple_of(3) => vec![sample::ended()],
                _ => vec![sample::continues()],
            }
        }
    };
    let mut append = Append { namespace: view.namespace.clone(), ..sample::append(id.as_str(), seen, what) };
    match two % 4 {
        0 => append.papers.push(Paper::Outgoing { destination: "x".into(), body: format!("{id} {seen}") }),
        1 => append.papers.push(Paper::Report { dispatch_id: dispatch_id(one), text: format!("{seen}") }),
        _ => {}
    }
    append
}

/// Returns something that may happen to an open question.
fn of_question(asked: &AskedQuestion, now: Timestamp, one: u8) -> Record {
    let question_id = asked.id.clone();
    let later = now.plus(Duration::from_secs(60 * u64::from(one)));
    let step = asked.progress.step;
    match (one % 5, asked.terms.expiry.map(|expiry| expiry.then)) {
        (0, Some(AtEnd::Fail)) => Record::QuestionExpired { question_id, at_expiry: AtExpiry::Fail },
        (0, Some(AtEnd::UseDefault)) => {
            let defaults = asked.question.items().iter();
            let replies =
                defaults.filter_map(|item| Some((item.id().clone(), item.default_reply()?.clone())));
            Record::QuestionExpired { question_id, at_expiry: AtExpiry::UseDefault(replies.collect()) }
        }
        (1, Some(_)) => Record::QuestionReminded { question_id, next_at: later },
        (2 | 3, Some(_)) if asked.progress.command(&asked.terms).is_some() => {
            let (outcome, escalate_at) = (RouteOutcome::NoResponse, asked.terms.escalation(step + 1, now));
            Record::QuestionRouted { question_id, step, outcome, detail: None, escalate_at }
        }
        (2 | 3, Some(_)) if asked.progress.escalate_at.is_some() => {
            Record::QuestionEscalated { question_id, step: step + 1, escalate_at: None }
        }
        _ => Record::QuestionCancelled { question_id, by: None },
    }
}

fn accept(id: &ThreadId, seen: u64, one: u8, two: u8) -> Append {
    let job = sample::tuned(sample::job(id.as_str(), dispatch_id(one).as_str()), |job: &mut Job| {
        job.target = pick(&TARGETS, two).parse().unwrap();
        job.priority = i32::from(two / 4 % 3) - 1;
        job.labels =
            LABELS.iter().take(usize::from(two / 16 % 4)).map(|label| label.parse().unwrap()).collect();
        job.namespace = pick(&NAMESPACES, one / 16).parse().unwrap();
        job.attendance = if two.is_multiple_of(3) { Attendance::Watched } else { Attendance::Detached };
        job.retention_days = u32::from(two / 64);
    });
    let job = if seen > 0 { sample::continued(job) } else { job };
    let dispatch_id = job.dispatch_id.clone();
    let mut append = sample::accept(seen, job);
    if one.is_multiple_of(3) {
        let (key, request) = (format!("k{}", two % 8), ContentHash::of(&[one]));
        append.papers.push(Paper::Key { key, request, dispatch_id: dispatch_id.clone() });
    }
    if two.is_multiple_of(5) {
        let mark = ClaimMark { at: Timestamp::from_millis(i64::from(one)), boot: "with it".to_owned() };
        append.papers.push(Paper::Claim { dispatch_id, mark, most: u32::from(one % 4) });
    }
    append
}

/// Asks everything that can be asked.
async fn survey(ledger: &dyn Ledger, clock: &SetClock) -> Vec<String> {
    let mut said_to: Vec<String> = Vec::new();
    for number in 0..THREADS {
        let id = thread_id(number);
        said_to.push(said(ledger.thread(&id).await));
        said_to.push(said(ledger.read(&id, u64::from(number), 3).await));
    }
    for number in 0..DISPATCHES {
        said_to.push(said(ledger.dispatch(&dispatch_id(number)).await));
        said_to.push(said(ledger.place(&dispatch_id(number)).await));
    }
    for target in TARGETS {
        said_to.push(said(ledger.underway(&target.parse().unwrap()).await));
        for most in [0, 1, 2, 9] {
            said_to.push(said(ledger.head(&target.parse().unwrap(), most).await));
        }
    }
    said_to.push(said(ledger.end().await));
    for namespace in NAMESPACES {
        let namespace: Namespace = namespace.parse().unwrap();
        said_to.push(said(ledger.read_all(&namespace, 3, 20).await));
        said_to.push(said(ledger.tally(&namespace).await));
    }
    for filter in filters() {
        said_to.push(said(ledger.list(&filter).await));
    }
    for (namespace, after, most) in [(None, None, 9), (Some("other"), None, 2), (None, Some((1, "q_1")), 2)] {
        let namespace = namespace.map(|name| name.parse().unwrap());
        let after = after.map(|(thread, question)| (thread_id(thread), question.parse().unwrap()));
        said_to.push(said(ledger.questions(&OpenFilter { namespace, after, most }).await));
    }
    let now = clock.now();
    said_to.push(said(ledger.carried().await));
    said_to.push(said(ledger.due(now).await));
    said_to.push(said(ledger.next_due().await));
    said_to.push(said(ledger.outgoing(now, 4).await));
    said_to.push(said(ledger.expired(now, 3).await));
    said_to
}

fn filters() -> Vec<Filter> {
    let all = Filter { most: 5, ..Filter::default() };
    let namespace = Some("other".parse().unwrap());
    let label = Some("x".parse().unwrap());
    let before = Some(dispatch_id(4));
    let states = Some(vec![StateWord::Accepted, StateWord::Failed, StateWord::Running]);
    vec![
        all.clone(),
        Filter { namespace: namespace.clone(), ..all.clone() },
        Filter {
            namespace: namespace.clone(),
            states: states.clone(),
            before: before.clone(),
            ..all.clone()
        },
        Filter { thread: Some(thread_id(1)), ..all.clone() },
        Filter { thread: Some(thread_id(2)), namespace: namespace.clone(), ..all.clone() },
        Filter { label: label.clone(), states: states.clone(), ..all.clone() },
        Filter { label, namespace, before: before.clone(), ..all.clone() },
        Filter { states, before: before.clone(), ..all.clone() },
        Filter { prefix: Some("d_1".into()), ..all.clone() },
        Filter { prefix: Some("t_".into()), before: before.clone(), ..all.clone() },
        Filter { last: true, ..all.clone() },
        Filter { last: true, before, ..all },
    ]
}
