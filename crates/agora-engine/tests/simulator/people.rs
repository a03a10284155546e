//! People and programs that answer: in time, too early, too late, twice, for another question, although they may not.

use std::sync::Arc;

use agora_core::answer::{Answerer, Given};
use agora_core::route::{AtEnd, CommandStep, Match, Party, Route, Routes, Step, Steps};
use agora_core::state::{AskedQuestion, Illegal};
use agora_core::{QuestionId, ThreadId};
use agora_engine::{Engine, Error, Heard, Refusal, RouteCommands};
use async_trait::async_trait;

use crate::chance::Chance;
use crate::deed::{self, Told};
use crate::machine::Machine;
use crate::seams::Seams;

/// Clocks are a second apart at most when nobody sets them, and a write takes its time.
pub(crate) const TOLERANCE: i64 = 4_000;

/// About as long as a worker runs, and is waited for.
const A_WHILE: i64 = 8_000;

/// How somebody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Ann, who may.
    Right,
    /// Ann, who comes when it is too late, if it can be.
    Late,
    /// Ann, with something that is no option.
    Unfit,
    /// Eve, who may not where anybody is named.
    Eve,
    /// The agent that asked.
    Asker,
    /// An agent says that Ann said so.
    Relayed,
    /// Ann, for a question of another thread.
    Elsewhere,
    /// Ann, before it was asked.
    Early,
    /// Ann, rightly, and some time later for the question before the last one.
    OutOfOrder,
}

const MANNERS: [Manner; 14] = [
    Manner::Late,
    Manner::Right,
    Manner::Right,
    Manner::Right,
    Manner::Right,
    Manner::Late,
    Manner::Unfit,
    Manner::Eve,
    Manner::Asker,
    Manner::Relayed,
    Manner::Elsewhere,
    Manner::Early,
    Manner::OutOfOrder,
    Manner::OutOfOrder,
];

pub(crate) fn manner(chance: &mut Chance) -> Manner {
    MANNERS[usize::try_from(chance.below(MANNERS.len() as u64)).unwrap()]
}

fn party(text: &str) -> Party {
    text.parse().unwrap()
}

/// Draws what a thread's questions go by. Times are about as long as a story.
pub(crate) fn routes(chance: &mut Chance) -> Routes {
    let command =
        |timeout_ms| Step::Command(CommandStep { argv: vec!["lookup".to_owned()], dir: None, timeout_ms });
    let steps: Vec<Step> = (0..chance.below(4))
        .map(|_| match chance.below(5) {
            0 | 1 => command(200 + chance.below(2000)),
            2 => Step::Inbox(party("group:leads")),
            _ => Step::Inbox(party("user:ann")),
        })
        .collect();
    let expires = match chance.below(3) {
        0 => None,
        1 => Some((500 + chance.below(8000), AtEnd::Fail)),
        _ => Some((500 + chance.below(8000), AtEnd::UseDefault)),
    };
    let route = Route {
        matches: Match::default(),
        steps: Steps::new(steps, true).unwrap(),
        may_answer: match chance.below(3) {
            0 => Vec::new(),
            1 => vec![party("user:ann")],
            _ => vec![party("group:leads")],
        },
        remind_after_ms: chance.one_of(500).then(|| 200 + chance.below(3000)),
        escalate_after_ms: Some(200 + chance.below(4000)),
        expires,
        ..Route::default()
    };
    let groups = [(party("group:leads"), vec![party("user:ann"), party("user:bob")])].into();
    Routes { routes: vec![route], groups }
}

/// Somebody answers.
pub(crate) async fn answer(
    thread: &ThreadId,
    manner: Manner,
    machine: &Machine,
    engine: &Engine,
    told: &Told,
) {
    if manner == Manner::OutOfOrder {
        // She answers, and the thread may ask again before she says the same once more.
        Box::pin(answer(thread, Manner::Right, machine, engine, told)).await;
        machine.executor.sleep_until(machine.executor.now() + A_WHILE).await;
    }
    let asked = machine.journal().thread(thread).and_then(|thread| thread.questions().last().cloned());
    let Some((question, by, words)) = submission(thread, manner, asked.as_ref(), machine) else { return };
    if manner == Manner::Late
        && let Some(expiry) = asked.as_ref().and_then(|asked| asked.terms.expiry)
    {
        machine.executor.sleep_until(expiry.at.as_millis() + 2 * TOLERANCE).await;
    }
    machine.state().tries.insert((question.clone(), by.principal.clone()));
    let given = Given::Text(words.to_owned());
    let lease = engine.world().leases.try_take(thread).await.ok().flatten();
    match engine.answer(thread, &question, &given, &by, lease.as_deref()).await {
        Ok(answered) => {
            let named = asked.as_ref().is_some_and(|asked| !asked.terms.may_answer.is_empty());
            let human = asked.as_ref().is_some_and(|asked| asked.question.items()[0].is_for_humans());
            let wrong = match manner {
                // Whoever is early may find it open by then.
                Manner::Right | Manner::Late | Manner::Early => false,
                Manner::Eve => named,
                Manner::Relayed => human,
                Manner::Unfit | Manner::Asker | Manner::Elsewhere | Manner::OutOfOrder => true,
            };
            assert!(!wrong, "{question}: {} may not answer like that, and did", by.principal);
            machine.note("answered");
            machine.check_counted(&question, &answered);
            let before = told.words().counted.insert(question.clone(), answered.dispatch_id.clone());
            assert_eq!(before, None, "invariant 1: two answers to {question} count");
            told.words().accepted.push((thread.clone(), answered.dispatch_id.clone()));
            match lease {
                Some(lease) => {
                    let (carrier, thread) = (engine.clone(), thread.clone());
                    engine.world().tasks.start(Box::pin(async move {
                        let _ = carrier.carry_accepted(&thread, &*lease).await;
                    }));
                }
                None => deed::aside(thread, machine, engine).await,
            }
        }
        Err(error) => refused(&error, Some(manner), machine),
    }
}

/// Somebody says that nobody will answer.
pub(crate) async fn decline(thread: &ThreadId, machine: &Machine, engine: &Engine) {
    let asked = machine.journal().thread(thread).and_then(|thread| thread.questions().last().cloned());
    let Some(asked) = asked else { return };
    let by = Answerer::new("user:ann", "story");
    machine.state().tries.insert((asked.id.clone(), by.principal.clone()));
    match engine.decline(thread, &asked.id, &by).await {
        Ok(_) => machine.note("declined"),
        Err(error) => refused(&error, None, machine),
    }
}

/// What is submitted: for which question, by whom, with which words.
fn submission(
    thread: &ThreadId,
    manner: Manner,
    asked: Option<&AskedQuestion>,
    machine: &Machine,
) -> Option<(QuestionId, Answerer, &'static str)> {
    let ann = || Answerer::new("user:ann", "story");
    let journal = machine.journal();
    let by_digits = |dispatch: &str| format!("q_{}", &dispatch[2..]).parse().ok();
    let last = || journal.thread(thread)?.dispatches().last().map(|(id, _)| id.clone());
    Some(match manner {
        Manner::Right | Manner::Late => (asked?.id.clone(), ann(), "A"),
        Manner::Unfit => (asked?.id.clone(), ann(), "C"),
        Manner::Eve => (asked?.id.clone(), Answerer::new("user:eve", "story"), "A"),
        Manner::Asker => (asked?.id.clone(), Answerer::new(format!("agent:{}", last()?), "loopback"), "A"),
        Manner::Relayed => (asked?.id.clone(), ann().relayed_by("agent:helper"), "A"),
        Manner::Elsewhere => {
            let other = journal.threads().find(|(id, _)| *id != thread)?.0.clone();
            (journal.thread(&other)?.questions().last()?.id.clone(), ann(), "A")
        }
        Manner::Early => {
            let live = last().filter(|id| !journal.has_ended(id))?;
            (by_digits(live.as_str())?, ann(), "A")
        }
        Manner::OutOfOrder => {
            (journal.thread(thread)?.questions().iter().rev().nth(1)?.id.clone(), ann(), "A")
        }
    })
}

/// Invariant 7: whatever does not count has a typed outcome, by how it was given. `None`: it was declined.
fn refused(error: &Error, manner: Option<Manner>, machine: &Machine) {
    match error {
        Error::Answer(refusal) => machine.note(match (refusal, manner) {
            (Refusal::Unknown(_), Some(Manner::Early)) => "refused: early, unknown",
            (Refusal::Unknown(_), _) => "refused: unknown",
            (Refusal::NotOpen(_), _) => panic!("asking and opening are one write: {error:?}"),
            (Refusal::AnsweredBefore { .. }, Some(Manner::Right)) => "refused: duplicate, answered before",
            (Refusal::AnsweredBefore { .. }, Some(Manner::Late)) => "refused: late, answered before",
            (Refusal::AnsweredBefore { .. }, Some(Manner::OutOfOrder)) => {
                "refused: out of order, answered before"
            }
            (Refusal::AnsweredBefore { .. }, _) => "refused: answered before",
            (Refusal::Closed { how: Illegal::ExpiredAlready, .. }, Some(Manner::Late)) => {
                "refused: late, expired"
            }
            (Refusal::Closed { .. }, _) => "refused: closed",
            (Refusal::Unfit { .. }, _) => "refused: unfit",
            (Refusal::NotEntitled { .. }, _) => "refused: not entitled",
            // Nothing that a question rests on moves in these worlds.
            (
                Refusal::CannotStart { .. }
                | Refusal::Changed { .. }
                | Refusal::Stale { .. }
                | Refusal::Canonical(_),
                _,
            ) => panic!("{error:?}"),
        }),
        // The disk, or a thread that was forgotten meanwhile.
        Error::Carry(_) => {}
        _ => panic!("an answer was refused with {error:?}"),
    }
}

/// A command of a route: it answers, has no answer, talks nonsense, fails, is not there, or hangs.
#[async_trait]
impl RouteCommands for Seams {
    async fn run(&self, _: &CommandStep, input: &str) -> Heard {
        let question: serde_json::Value = serde_json::from_str(input).unwrap();
        let id: QuestionId = question["questionId"].as_str().unwrap().parse().unwrap();
        let thread: ThreadId = question["threadId"].as_str().unwrap().parse().unwrap();
        assert_eq!(question["questions"][0]["human"], false, "{id}: a program is asked what is for people");
        let held = self.machine.state().leases.get(&thread).is_some_and(|held| held.contains(&self.process));
        assert!(held, "{:?} asks for {thread} without its lease", self.process);
        self.machine.note("command: asked");
        let asking = Asking(Arc::clone(&self.machine));
        self.pause().await;
        let heard = match self.machine.executor.chance(|chance| chance.below(8)) {
            0..3 => {
                self.machine.state().tries.insert((id, "command:lookup".to_owned()));
                self.machine.note("command: answers");
                Heard::Said(b"{\"answer\": \"B\"}".to_vec())
            }
            3 => Heard::Said(b"{\"noAnswer\": \"not in the table\"}".to_vec()),
            4 => Heard::Said(b"B".to_vec()),
            5 => Heard::NoResponse("it failed".to_owned()),
            6 => Heard::NoChannel("there is no such program".to_owned()),
            _ => {
                self.machine.note("command: hangs");
                std::future::pending().await
            }
        };
        self.pause().await;
        drop(asking);
        heard
    }
}

/// A command that runs, until this is dropped.
struct Asking(Arc<Machine>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.note("command: gone");
    }
}
