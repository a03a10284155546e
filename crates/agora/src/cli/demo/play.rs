//! The play, step by step.

use std::time::Duration;

use agora_core::answer::{Answerer, Given};
use agora_core::state::{AskedQuestion, QuestionState};
use agora_core::{DispatchId, Timestamp};
use agora_engine::{Agora, Answered, DispatchResult, Reaction, Thread};
use serde_json::{Value, json};

use super::engine::EngineProcess;
use super::place::{Place, own_agora};
use super::screen::Screen;
use super::{Cast, processes, script};
use crate::ask::{self, Asked};
use crate::cli::{Context, counted, span};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::plain::plain;
use crate::{asking, doctor, person, story};

/// How often the kernel is asked who works, while somebody does.
const LOOK: Duration = Duration::from_millis(15);
/// What is shown of a diff.
const DIFF_BYTES: u64 = 64 * 1024;
const DIFF_LINES: usize = 12;

/// How the demo ended.
pub(super) enum End {
    /// With everything that it showed.
    Whole(Value),
    /// Whoever was asked left.
    Unanswered,
    Interrupted,
}

/// Why a step did not lead to the next.
enum Halt {
    End(End),
    Failed(Failure),
}

impl<T: Into<Failure>> From<T> for Halt {
    fn from(failure: T) -> Self {
        Self::Failed(failure.into())
    }
}

/// What the first engine told before it was killed.
struct Paused {
    thread: String,
    dispatch: DispatchId,
    question_hash: Option<String>,
    engine: u32,
    /// The most processes that worked on it at once.
    busiest: usize,
    asked: bool,
}

pub(super) struct Play<'a> {
    context: &'a Context,
    place: &'a Place,
    cast: Cast,
    answer: Option<String>,
    screen: Screen,
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
        drop(agora);
        let (agora, asked) = self.prove_the_pause(&paused, &first).await?;
        let opened = self.context.config.now();
        let (given, by) = self.ask(&asked).await?;
        let (thread, answered) = agora.answer(&asked.id, &given, &by).await?;
        let last = self.go_on(&thread, &answered, interrupts).await?;
        let waited = waited(&first, &answered, opened);
        let mut document = self.show_end(&agora, &last, &answered).await?;
        self.tell_story(&last, &answered, waited, could).await?;
        document["testBefore"] = json!(before);
        document["question"] = json!(asked.question);
        document["questionHash"] = json!(asked.hash);
        document["whileWaiting"] = json!({"processes": 0, "containers": 0, "costUsd": 0.0});
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

    /// A real agent may find it clear. And where no wall can be built, nothing runs.
    async fn never_asked(&mut self, paused: &Paused) -> Result<Value, Halt> {
        let agora = self.agora()?;
        let result = agora.find(&paused.thread).await?.describe().await?;
        if let Some(failure) = &result.failure {
            let failed = Failure::outside("demo-failed", format!("the dispatch failed ({})", failure.code));
            let failed = failed.because(plain(failure.detail.trim()));
            let hints = failure.hint.iter().cloned().chain(wall_hints(self.context));
            return Err(Halt::Failed(hints.fold(failed, Failure::hint)));
        }
        self.screen.say("It asked nothing. What it said:")?;
        self.screen.lines("     ", &plain(&story::words(&result)))?;
        Ok(
            json!({"agent": self.agent(), "threadId": result.thread_id, "asked": false, "state": result.state}),
        )
    }

    async fn show_question(&self, agora: &Agora, first: &DispatchResult) -> Result<(), Halt> {
        let said = story::words(first);
        if !said.is_empty() {
            self.screen.say(&format!(
                "{} says: \"{}\"",
                self.speaker(),
                plain(&said).split_whitespace().collect::<Vec<_>>().join(" ")
            ))?;
        }
        self.screen.say("It stopped, and asks:")?;
        self.screen.blank()?;
        if let Some(asked) = &first.needs_input {
            for line in asking::text(&asked.asked).lines() {
                if line.is_empty() {
                    self.screen.blank()?;
                    continue;
                }
                let indent = line.len() - line.trim_start().len();
                self.screen.indented(3 + indent, line.trim_start())?;
            }
        }
        self.screen.blank()?;
        if let Some(patch) = first.patch.as_ref().filter(|patch| patch.files > 0) {
            self.screen.say(&format!("The diff so far: {}", story::change(patch)))?;
            let diff = agora.read_left(&first.dispatch_id, "patch.diff", 0, DIFF_BYTES).await?;
            self.screen.lines("     ", &shortened(&String::from_utf8_lossy(&diff.unwrap_or_default())))?;
        }
        Ok(())
    }

    /// Counts what is left of the dispatch, kills the engine, and lets another find the question.
    async fn prove_the_pause(
        &mut self,
        paused: &Paused,
        first: &DispatchResult,
    ) -> Result<(Agora, AskedQuestion), Halt> {
        self.screen.step("It waits, and nothing runs").await?;
        let dir = self.home().join("dispatches").join(paused.dispatch.as_str());
        let left = processes::of_dispatch(&dir, &[std::process::id(), paused.engine]);
        let spent = first.usage.as_ref().and_then(|usage| usage.cost_usd);
        let spent = spent.map(|usd| format!(" (${usd:.4} before)")).unwrap_or_default();
        self.screen.say(&format!(
            "processes of the dispatch: {} ({} while it worked); {}cost: $0{spent}",
            left.len(),
            paused.busiest,
            // A worker that is a process of this machine never had one.
            if first.image.is_none() { "containers: 0; " } else { "" }
        ))?;
        if !left.is_empty() {
            return Err(Halt::Failed(Failure::bug(format!(
                "something of the dispatch still runs: {left:?}"
            ))));
        }
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

    /// Gets an answer: from the command line, from a person, or loudly from the demo itself.
    async fn ask(&mut self, asked: &AskedQuestion) -> Result<(Given, Answerer), Halt> {
        let asks_here = self.answer.is_none() && self.context.ui.can_ask();
        self.screen.step(if asks_here { "You answer" } else { "Somebody answers" }).await?;
        if let Some(answer) = &self.answer {
            self.screen.say(&format!("`{}`, by --answer", plain(answer)))?;
            return Ok((Given::Text(answer.clone()), person::at_the_terminal()));
        }
        if !self.context.ui.can_ask() {
            let default = match self.cast {
                Cast::Scripted => script::DEFAULT.to_owned(),
                Cast::Real(_) => first_option(asked).ok_or_else(|| {
                    Failure::wrong("no-answer", "nobody is here to answer").hint("`--answer VALUE` answers")
                })?,
            };
            self.screen
                .say(&format!("no terminal: answering `{}` for you, as --answer would", plain(&default)))?;
            let by = Answerer { principal: "agora-demo".to_owned(), door: "demo".to_owned() };
            return Ok((Given::Text(default), by));
        }
        let unheard = |error| Failure::outside("terminal-lost", "the terminal cannot be read").because(error);
        match ask::ask(&asked.question).map_err(unheard)? {
            Asked::Interrupted => Err(Halt::End(End::Interrupted)),
            Asked::Reaction(Reaction::Answer(given)) => Ok((given, person::at_the_terminal())),
            Asked::Reaction(Reaction::Leave | Reaction::Decline) => {
                self.screen.say("You left it open. In your own work it would wait, for days if need be; this one is gone with the demo.")?;
                Err(Halt::End(End::Unanswered))
            }
        }
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

    async fn show_end(
        &self,
        agora: &Agora,
        last: &DispatchResult,
        answered: &Answered,
    ) -> Result<Value, Halt> {
        if let Some(failure) = &last.failure {
            let failed = Failure::outside("demo-failed", format!("the dispatch failed ({})", failure.code));
            return Err(Halt::Failed(failed.because(plain(failure.detail.trim()))));
        }
        if let Some(verify) = &last.verify {
            self.screen.command("./test     # behind the wall", verify.report.trim())?;
        }
        let home = last.patch.as_ref().and_then(|patch| patch.git_ref.clone());
        let log = match &home {
            Some(home) => self.place.git(&["log", "--format=%h %s, by %cn", home])?,
            None => String::new(),
        };
        let status = self.place.git(&["status", "--porcelain"])?;
        if let Some(home) = &home {
            self.screen.command(&format!("git log {home}"), &log)?;
        }
        let clean = if status.is_empty() {
            "(nothing: no file, index or branch of yours was touched)"
        } else {
            &status
        };
        self.screen.command("git status --short", clean)?;
        let verified = agora.check_receipt(&answered.receipt).await?;
        let mut forged = answered.receipt.clone();
        forged.statement.by.principal = "user:somebody-else".to_owned();
        let refused = agora.check_receipt(&forged).await?.is_err();
        let word = |fine: bool, yes: &'static str, no: &'static str| if fine { yes } else { no };
        self.screen.say(&format!(
            "receipt of the answer: {}, by the public key {}…; with another name in it: {}",
            word(verified.is_ok(), "verified", "NOT verified"),
            &agora.receipt_key()?.to_string()[..12],
            word(refused, "refused", "NOT refused")
        ))?;
        if verified.is_err() || !refused {
            return Err(Halt::Failed(Failure::bug("the receipt does not hold")));
        }
        Ok(json!({
            "agent": self.agent(),
            "asked": true,
            "threadId": last.thread_id,
            "questionId": answered.question_id,
            "dispatchId": last.dispatch_id,
            "state": last.state,
            "receipt": answered.receipt,
            "receiptVerified": true,
            "receiptKey": agora.receipt_key()?,
            "testAfter": last.verify.as_ref().map(|verify| verify.report.trim()),
            "green": last.verify.as_ref().map(|verify| verify.passed),
            "gitRef": home,
            "log": log.lines().collect::<Vec<_>>(),
            "repositoryTouched": !status.is_empty(),
            "isolation": last.isolation.level,
        }))
    }

    async fn tell_story(
        &mut self,
        last: &DispatchResult,
        answered: &Answered,
        waited: u64,
        could: Option<String>,
    ) -> Result<(), Failure> {
        let by = &answered.receipt.statement.by;
        let answer: Vec<String> = answered.receipt.statement.answers.values().map(words).collect();
        self.screen.step("What happened").await?;
        self.screen.say(&format!("asked:     by {}, once what was clear was done", last.subagent))?;
        self.screen.say(&format!(
            "answered:  `{}`, by {} ({})",
            plain(&answer.join(", ")),
            by.principal,
            by.door
        ))?;
        self.screen
            .say(&format!("waited:    {}, for $0, and through the death of its engine", span(waited)))?;
        self.screen.say(&format!("redone:    nothing; {}", kept(last)))?;
        self.screen.blank()?;
        self.screen.title("The same with your own agent, in a repository of yours:")?;
        self.screen
            .lines("  ", "agora run \"make the failing test green; ask if it is unclear what is right\"")?;
        if let Some(name) = could {
            self.screen.lines(
                "  ",
                &format!("agora demo --agent {name}     # this one again, with {name}: it costs money"),
            )?;
        }
        Ok(())
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

    fn agora(&self) -> Result<Agora, Failure> {
        match self.cast {
            Cast::Scripted => own_agora(&self.context.config, &self.place.home()),
            Cast::Real(_) => self.context.config.dispatching(),
        }
    }

    fn home(&self) -> std::path::PathBuf {
        match self.cast {
            Cast::Scripted => self.place.home(),
            Cast::Real(_) => self.context.config.home().to_owned(),
        }
    }

    fn speaker(&self) -> &'static str {
        match self.cast {
            Cast::Scripted => "The script",
            Cast::Real(vendor) => vendor.name,
        }
    }

    fn agent(&self) -> &'static str {
        match self.cast {
            Cast::Scripted => "scripted",
            Cast::Real(vendor) => vendor.name,
        }
    }
}

fn words(reply: &agora_core::answer::Reply) -> String {
    match reply {
        agora_core::answer::Reply::One(text) => text.clone(),
        agora_core::answer::Reply::Many(texts) => texts.join(", "),
    }
}

/// Says with what it went on.
fn kept(last: &DispatchResult) -> String {
    match &last.resumed_with {
        Some(with) if with.session => {
            "it went on with its workspace, its own session and its notes".to_owned()
        }
        Some(with) if with.workspace => "it went on with its workspace and its notes".to_owned(),
        Some(_) | None => "it went on with its notes".to_owned(),
    }
}

/// How long the question was open.
fn waited(first: &DispatchResult, answered: &Answered, opened: Timestamp) -> u64 {
    let from = first.ended_at.unwrap_or(opened).as_millis();
    u64::try_from(answered.receipt.statement.at.as_millis() - from).unwrap_or(0)
}

fn first_option(asked: &AskedQuestion) -> Option<String> {
    match asked.question.items() {
        [item] => item.options().first().map(|choice| choice.label.clone()),
        _ => None,
    }
}

/// Returns what a person looks at in a diff: the files, and the lines that come and go.
fn shortened(diff: &str) -> String {
    let line = |line: &&str| {
        let is_file = line.starts_with("+++ ");
        is_file || (line.starts_with(['+', '-']) && !line.starts_with("--- "))
    };
    let lines: Vec<String> =
        diff.lines().filter(line).map(|line| plain(line.strip_prefix("+++ b/").unwrap_or(line))).collect();
    let more = lines.len().saturating_sub(DIFF_LINES);
    let mut shown: Vec<String> = lines.into_iter().take(DIFF_LINES).collect();
    shown.extend((more > 0).then(|| format!("… and {}", counted(more, "more line"))));
    shown.join("\n")
}

/// What the engine's process said went wrong.
fn broken(error: &Value) -> Failure {
    let message = error["message"].as_str().unwrap_or("the demo's engine failed");
    let hints = error["hints"].as_array().into_iter().flatten().filter_map(Value::as_str);
    hints.fold(Failure::outside("demo-failed", message), Failure::hint)
}

/// What `agora doctor` says about the wall, where it has something to say.
fn wall_hints(context: &Context) -> Vec<String> {
    let found = doctor::examine(&context.config.surroundings(Vec::new()));
    let walls = found.into_iter().filter(|one| one.topic == "sandbox" && one.status != doctor::Status::Ok);
    let told = walls.map(|one| match one.fix {
        Some(fix) => format!("{}\n{fix}", one.detail),
        None => one.detail,
    });
    told.chain(["`agora doctor` shows what this machine can do".to_owned()]).collect()
}
