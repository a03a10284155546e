//! What the play shows: the question with the diff so far, the end, the story.

use agora_core::answer::Reply;
use agora_engine::{Agora, Answered, DispatchResult};
use serde_json::{Value, json};

use super::Cast;
use super::play::{End, Halt, Paused, Play};
use crate::cli::{Context, counted, span};
use crate::failure::Failure;
use crate::plain::plain;
use crate::{asking, dispatch_story, doctor};

/// What is shown of a diff.
const DIFF_BYTES: u64 = 64 * 1024;
const DIFF_LINES: usize = 12;

impl Play<'_> {
    /// A real agent may find it clear. And where no wall can be built, nothing runs.
    pub(super) async fn never_asked(&mut self, paused: &Paused) -> Result<Value, Halt> {
        let agora = self.agora()?;
        let result = agora.find(&paused.thread).await?.describe().await?;
        if let Some(failure) = &result.failure {
            let failed = Failure::outside("demo-failed", format!("the dispatch failed ({})", failure.code));
            let failed = failed.because(plain(failure.detail.trim()));
            let hints = failure.hint.iter().cloned().chain(wall_hints(self.context));
            return Err(Halt::Failed(hints.fold(failed, Failure::hint)));
        }
        self.screen.say("It asked nothing. What it said:")?;
        self.screen.lines("     ", &plain(&dispatch_story::words(&result)))?;
        Ok(
            json!({"agent": self.agent(), "threadId": result.thread_id, "asked": false, "state": result.state}),
        )
    }

    /// Says what became of a question that got no answer.
    pub(super) fn tell_leaving(&self, played: &Result<End, Failure>, keep: bool) -> Result<(), Failure> {
        self.screen.say(match played {
            Ok(End::Unanswered) if keep => "You left it open, and it waits, for days if need be.",
            Ok(End::Unanswered) => {
                "You left it open. In your own work it would wait, for days if need be; this one was cancelled, because its place goes with the demo."
            }
            Ok(End::Declined) => "You declined: its thread has ended, and nothing waits any more.",
            Ok(End::Whole(_) | End::Interrupted) | Err(_) => return Ok(()),
        })
    }

    pub(super) async fn show_question(&self, agora: &Agora, first: &DispatchResult) -> Result<(), Halt> {
        let said = dispatch_story::words(first);
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
            self.screen.say(&format!("The diff so far: {}", dispatch_story::change(patch)))?;
            let diff = agora.read_left(&first.dispatch_id, "patch.diff", 0, DIFF_BYTES).await?;
            self.screen.lines("     ", &shortened(&String::from_utf8_lossy(&diff.unwrap_or_default())))?;
        }
        Ok(())
    }

    pub(super) async fn show_end(
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
            "isolation": last.isolation.as_ref().map(|wall| wall.level),
        }))
    }

    pub(super) async fn tell_story(
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
        self.screen.say(&format!("kept:      {}; nothing had to be done again", kept(last)))?;
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

fn words(reply: &Reply) -> String {
    match reply {
        Reply::One(text) => text.clone(),
        Reply::Many(texts) => texts.join(", "),
    }
}

/// Says with what it went on.
fn kept(last: &DispatchResult) -> &'static str {
    match &last.resumed_with {
        Some(with) if with.session => "its workspace, its own session and its notes",
        Some(with) if with.workspace => "its workspace and its notes",
        Some(_) | None => "its notes",
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
