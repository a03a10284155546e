//! The play, step by step.

use std::time::Duration;

use agora_core::answer::{Answerer, Given};
use agora_core::state::{AskedQuestion, QuestionState};
use agora_core::{DispatchId, Timestamp};
use agora_engine::{Agora, Answered, DispatchResult, Thread};
use serde_json::{Value, json};

use super::engine::EngineProcess;
use super::place::{Place, own_agora};
use super::screen::Screen;
use super::{Cast, processes, script};
use crate::ask::{self, Asked, Offer};
use crate::cli::Context;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::person;
use crate::plain::plain;

/// How often the kernel is asked who works, while somebody does.
const LOOK: Duration = Duration::from_millis(15);

/// How the demo ended.
pub(super) enum End {
    /// With everything that it showed.
    Whole(Value),
    /// Whoever was asked left it open.
    Unanswered,
    /// Whoever was asked said that nobody will answer.
    Declined,
    Interrupted,
}

/// Why a step did not lead to the next.
pub(super) enum Halt {
    End(End),
    Failed(Failure),
}

impl<T: Into<Failure>> From<T> for Halt {
    fn from(failure: T) -> Self {
        Self::Failed(failure.into())
    }
}

/// What the first engine told before it was killed.
pub(super) struct Paused {
    pub(super) thread: String,
    pub(super) dispatch: DispatchId,
    question_hash: Option<String>,
    pub(super) engine: u32,
    /// The most processes that worked on it at once.
    busiest: usize,
    asked: bool,
}

pub(super) struct Play<'a> {
    pub(super) context: &'a Context,
    pub(super) place: &'a Place,
    pub(super) cast: Cast,
    answer: Option<String>,
    pub(super) screen: Screen,
    engine: Option<EngineProcess>,
    thread: Option<String>,
}

impl<'a> Play<'a> {
    pub(super) fn new(context: &'a Context, place: &'a Place, cast: Cast, answer: Option<String>) -> Self {
        let screen = Screen::new(context.ui);
        Self { context, place, cast, answer, screen, engine: None, thread: None }
    }

    /// Plays it to its end.
    pub(super) async fn perform(
        &mut self,
        interrupts: &mut Interrupts,
        could: Option<String>,
    ) -> Result<End, Failure> {
        match self.steps(interrupts, could).await {
            Ok(document) => Ok(End::Whole(document)),
            Err(Halt::End(end)) => Ok(end),
            Err(Halt::Failed(failure)) => Err(failure),
        }
    }

    async fn steps(&mut self, interrupts: &mut Interrupts, could: Option<String>) -> Result<Value, Halt> {
        let before = self.open().await?;
        let paused = self.dispatch(interrupts).await?;
        if !paused.asked {
            return self.never_asked(&paused).await;
        }
        let agora = self.agora()?;
        let first = agora.find(paused.dispatch.as_str()).await?.describe().await?;
        self.show_question(&agora, &first).await?;
        self.screen.step("It waits, and nothing runs").await?;
        self.see_nothing_runs(&agora, &paused, &first).await?;
        drop(agora);
        let (agora, asked) = self.kill_the_engine(&paused).await?;
        let opened = self.context.config.now();
        let (given, by) = self.ask(&agora, &asked).await?;
        // Once more, at the end of the wait, however long it was.
        let idle = self.count(&agora, &paused, &first).await?;
        let (thread, answered) = agora.answer(&asked.id, &given, &by).await?;
        let last = self.go_on(&thread, &answered, interrupts).await?;
        let waited = waited(&first, &answered, opened);
        let mut document = self.show_end(&agora, &last, &answered).await?;
        self.tell_story(&last, &answered, waited, could).await?;
        document["testBefore"] = json!(before);
        document["question"] = json!(asked.question);
        document["questionHash"] = json!(asked.hash);
        document["whileWaiting"] = idle.document();
        document["processesWhileWorking"] = json!(paused.busiest);
        document["killedEngine"] = json!({"pid": paused.engine, "signal": 9});
        document["waitedMs"] = json!(waited);
        Ok(document)
    }

    /// Says what is about to happen, and shows the red test.
    async fn open(&mut self) -> Result<String, Failure> {
        self.screen.title("agora demo: an agent that asks instead of guessing")?;
        match self.cast {
            Cast::Scripted => self.screen.edge(
                "The agent is scripted: no account, no cost. All else is real: engine, worker, wall, ledger, git.",
            )?,
            Cast::Real(vendor) => self.screen.edge(&format!(
                "The agent is {}, with your login: it costs money, and is recorded in your own home. It may do otherwise than told here.",
                vendor.name
            ))?,
        }
        self.screen.step("A repository with two date parsers, and a red test").await?;
        let before = self.place.test()?;
        self.screen.command("./test", &before)?;
        Ok(before)
    }

    /// Starts the first engine, which dispatches, and follows what it tells up to the pause.
    async fn dispatch(&mut self, interrupts: &mut Interrupts) -> Result<Paused, Halt> {
        self.screen.step("An agent is to make it green, in a copy, behind a wall").await?;
        let mut engine = EngineProcess::start(&self.context.config, self.place, self.cast)?;
        let (own, id) = (std::process::id(), engine.id());
        let mut paused: Option<Paused> = None;
        let told = loop {
            let line = tokio::select! {
                biased;
                () = interrupts.next() => {
                    self.engine = Some(engine);
                    return Err(Halt::End(End::Interrupted));
                }
                line = engine.next() => line,
                () = tokio::time::sleep(LOOK) => {
                    if let Some(paused) = &mut paused {
                        let dir = self.home().join("dispatches").join(paused.dispatch.as_str());
                        let count = processes::of_dispatch(&dir, &[own, id]).len();
                        paused.busiest = paused.busiest.max(count);
                    }
                    continue;
                }
            };
            let Some(line) = line else { break paused };
            if let Some(error) = line.get("error") {
                return Err(Halt::Failed(broken(error)));
            }
            let word = |key: &str| line[key].as_str().map(str::to_owned);
            match (word("kind").as_deref(), &mut paused) {
                (Some("dispatch.accepted"), None) => {
                    let (Some(thread), Some(Ok(dispatch))) =
                        (word("threadId"), word("dispatchId").map(|id| id.parse()))
                    else {
                        return Err(Halt::Failed(Failure::bug("the engine told no id")));
                    };
                    self.thread = Some(thread.clone());
                    self.screen.say(&format!("engine: process {id}; dispatch: {dispatch}"))?;
                    let question_hash = None;
                    paused = Some(Paused {
                        thread,
                        dispatch,
                        question_hash,
                        engine: id,
                        busiest: 0,
                        asked: false,
                    });
                }
                (Some("question.opened"), Some(paused)) => {
                    paused.question_hash = word("questionHash");
                    paused.asked = true;
                    break Some(Paused {
                        thread: paused.thread.clone(),
                        dispatch: paused.dispatch.clone(),
                        question_hash: paused.question_hash.take(),
                        ..*paused
                    });
                }
                _ => {}
            }
        };
        self.engine = Some(engine);
        told.ok_or_else(|| Halt::Failed(Failure::bug("the demo's engine ended without a word")))
    }

    /// Counts what is left of the dispatch, and tells it.
    async fn see_nothing_runs(
        &self,
        agora: &Agora,
        paused: &Paused,
        first: &DispatchResult,
    ) -> Result<(), Halt> {
        let idle = self.count(agora, paused, first).await?;
        let spent = first.usage.as_ref().and_then(|usage| usage.cost_usd);
        let spent = spent.map(|usd| format!(" (${usd:.4} before)")).unwrap_or_default();
        let cost = if idle.cost_usd > 0.0 { format!("${:.4}", idle.cost_usd) } else { "$0".to_owned() };
        let containers = idle.containers.map(|count| format!("containers: {count}; ")).unwrap_or_default();
        self.screen.say(&format!(
            "processes of the dispatch: {} ({} while it worked); {containers}cost: {cost}{spent}",
            idle.processes.len(),
            paused.busiest,
        ))?;
        match idle.processes.as_slice() {
            [] => Ok(()),
            left => {
                Err(Halt::Failed(Failure::bug(format!("something of the dispatch still runs: {left:?}"))))
            }
        }
    }

    /// Kills the engine, and lets another find the question.
    async fn kill_the_engine(&mut self, paused: &Paused) -> Result<(Agora, AskedQuestion), Halt> {
        if let Some(mut engine) = self.engine.take() {
            engine.kill().map_err(|error| {
                Failure::outside("not-killed", "the engine was not killed").because(error)
            })?;
        }
        let dead = if processes::is_alive(paused.engine) { "still there" } else { "dead" };
        self.screen.command(&format!("kill -9 {}", paused.engine), "")?;
        self.screen
            .say(&format!("The engine is {dead}. Another one opens the ledger and finds the question:"))?;
        let agora = self.agora()?;
        agora.recover().await?;
        let view = agora.find(&paused.thread).await?.view().await?;
        let asked = view.thread.questions().last().filter(|asked| asked.state == QuestionState::Open);
        let asked = asked.ok_or_else(|| Failure::bug("the question is lost"))?.clone();
        let same = paused.question_hash.as_deref() == Some(asked.hash.to_string().as_str());
        self.screen.say(&format!(
            "{} is open, and is {} one as before:",
            asked.id,
            if same { "the same" } else { "another" }
        ))?;
        self.screen.lines("   ", &asked.hash.to_string())?;
        Ok((agora, asked))
    }

    /// Gets an answer: from the command line, from a person, or loudly from the demo itself, which answers its own script and nobody
    /// else.
    async fn ask(&mut self, agora: &Agora, asked: &AskedQuestion) -> Result<(Given, Answerer), Halt> {
        let asks_here = self.answer.is_none() && self.context.ui.can_ask();
        self.screen.step(if asks_here { "You answer" } else { "Somebody answers" }).await?;
        let me = person::at_the_terminal();
        if let Some(answer) = &self.answer {
            self.screen.say(&format!("`{}`, by --answer", plain(answer)))?;
            return Ok((Given::Text(answer.clone()), me));
        }
        if !self.context.ui.can_ask() {
            self.cast.see_somebody_answers(self.context, None)?;
            self.screen
                .say(&format!("no terminal: answering `{}` for you, as --answer would", script::DEFAULT))?;
            return Ok((Given::from(script::DEFAULT), Answerer::new(me.principal, "demo")));
        }
        let unheard = |error| Failure::outside("terminal-lost", "the terminal cannot be read").because(error);
        let offer = Offer { diff: None, helpers: &self.context.config.helpers(), skip: false };
        let said = ask::ask(&asked.question, offer, std::future::pending()).await;
        Err(Halt::End(match said.map_err(unheard)? {
            Asked::Answer(given) => return Ok((given, me)),
            Asked::Interrupted => End::Interrupted,
            Asked::Leave | Asked::Skip | Asked::Closed(_) => End::Unanswered,
            Asked::Decline => {
                agora.decline(&asked.id, &me).await?;
                End::Declined
            }
        }))
    }

    async fn go_on(
        &mut self,
        thread: &Thread,
        answered: &Answered,
        interrupts: &mut Interrupts,
    ) -> Result<DispatchResult, Halt> {
        self.screen.step("It goes on where it stopped, in the same tree").await?;
        self.screen.say(&format!("dispatch: {}", answered.dispatch_id))?;
        tokio::select! {
            biased;
            () = interrupts.next() => Err(Halt::End(End::Interrupted)),
            ended = thread.wait() => Ok(ended?),
        }
    }

    /// Sees that nothing of the play is left running.
    pub(super) async fn clear_away(&mut self) -> Result<(), Failure> {
        if let Some(mut engine) = self.engine.take() {
            // It is our own child, and killed: it cannot be there any more but by a fault of the kernel's.
            let _ = engine.kill();
        }
        let Some(thread) = &self.thread else { return Ok(()) };
        self.agora()?.find(thread).await?.cancel().await?;
        Ok(())
    }

    pub(super) fn agora(&self) -> Result<Agora, Failure> {
        match self.cast {
            Cast::Scripted => own_agora(&self.context.config, &self.place.home()),
            Cast::Real(_) => self.context.config.dispatching(),
        }
    }

    pub(super) fn home(&self) -> std::path::PathBuf {
        match self.cast {
            Cast::Scripted => self.place.home(),
            Cast::Real(_) => self.context.config.home().to_owned(),
        }
    }
}

/// How long the question was open.
fn waited(first: &DispatchResult, answered: &Answered, opened: Timestamp) -> u64 {
    let from = first.ended_at.unwrap_or(opened).as_millis();
    u64::try_from(answered.receipt.statement.at.as_millis() - from).unwrap_or(0)
}

/// What the engine's process said went wrong.
fn broken(error: &Value) -> Failure {
    let message = error["message"].as_str().unwrap_or("the demo's engine failed");
    let hints = error["hints"].as_array().into_iter().flatten().filter_map(Value::as_str);
    hints.fold(Failure::outside("demo-failed", message), Failure::hint)
}
