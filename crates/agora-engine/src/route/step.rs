//! A step that is a command: asked by whoever carries the thread, and heard out for as long as the question is open.

use std::time::Duration;

use agora_core::QuestionId;
use agora_core::answer::Answerer;
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{LedgerError, ThreadView};
use agora_core::question::Item;
use agora_core::record::{Record, RouteOutcome};
use agora_core::route::{CommandStep, IfStale};
use agora_core::state::AskedQuestion;

use super::Heard;
use super::said::{self, Told};
use crate::carry::{CarryError, Engine};
use crate::inbox::Onward;
use crate::notice::NoticeKind;

impl Engine {
    /// Asks the command that is next, and records what came of it: its answer with the next dispatch, or that there is none.
    pub(crate) async fn ask_command(&self, view: &ThreadView, lease: &dyn Lease) -> Result<(), CarryError> {
        let Some((asked, command)) = view.thread.command_to_ask() else { return Ok(()) };
        let step = asked.progress.step;
        let told = if asked.question.items().iter().any(Item::is_for_humans) {
            Told::NoChannel("only a person may answer it".to_owned())
        } else {
            match self.hear_out(view, asked, command).await? {
                Some(heard) => said::understand(&asked.question, heard),
                // Somebody was faster, or nobody wants it any more.
                None => return Ok(()),
            }
        };
        let by = Answerer::new(format!("command:{}", command.name()), "route");
        self.record_step(view, (&asked.id, step), told, &by, lease).await
    }

    /// Runs the command for its time, and no longer than the question is open. `None`: it is not.
    async fn hear_out(
        &self,
        view: &ThreadView,
        asked: &AskedQuestion,
        command: &CommandStep,
    ) -> Result<Option<Heard>, CarryError> {
        let job = self.last_job(view).await?;
        let input = said::question(&job, asked, asked.progress.step);
        let world = self.world();
        let until = world.clock.now().plus(Duration::from_millis(command.timeout_ms));
        let mut watch = world.ledger.watch().map_err(CarryError::Ledger)?;
        let mut running = world.commands.run(command, &input);
        loop {
            let now = self.view(&view.thread_id).await?;
            let still = now.thread.command_to_ask();
            if !still.is_some_and(|(now, _)| now.id == asked.id && now.progress.step == asked.progress.step) {
                return Ok(None);
            }
            tokio::select! {
                biased;
                heard = &mut running => return Ok(Some(heard)),
                () = world.alarm.at(until) => {
                    let seconds = command.timeout_ms as f64 / 1000.0;
                    return Ok(Some(Heard::NoResponse(format!("it did not end within {seconds} s"))));
                }
                heard = watch.next() => heard.map_err(CarryError::Ledger)?,
            }
        }
    }

    /// Records what a step came to, unless the question has moved on: then it does not matter any more.
    async fn record_step(
        &self,
        view: &ThreadView,
        (question, step): (&QuestionId, u32),
        told: Told,
        by: &Answerer,
        lease: &dyn Lease,
    ) -> Result<(), CarryError> {
        let mut view = view.clone();
        loop {
            let Some((asked, _)) = view.thread.command_to_ask() else { return Ok(()) };
            if asked.id != *question || asked.progress.step != step {
                return Ok(());
            }
            if self.is_over(asked) {
                // Late is late, also for a program.
                return self.expire(&view, asked, Some(lease)).await;
            }
            let question_id = || asked.id.clone();
            let routed = |outcome, detail, escalate_at| Record::QuestionRouted {
                question_id: question_id(),
                step,
                outcome,
                detail,
                escalate_at,
            };
            let stale = match &told {
                Told::Answer(_) => self.stale_since(&self.last_papers(&view).await?, view.began_at).await,
                Told::NoResponse(_) | Told::NoChannel(_) => Vec::new(),
            };
            // A program cannot be shown what has changed: where that matters, people decide.
            let moved =
                Told::NoResponse("what the question rested on has changed since it was asked".to_owned());
            let told = match asked.terms.if_stale {
                IfStale::AskAgain | IfStale::Fail if !stale.is_empty() => &moved,
                IfStale::Show | IfStale::AskAgain | IfStale::Fail => &told,
            };
            let written = match told {
                Told::Answer(answers) => {
                    let (question_hash, by_whom) = (asked.hash, by.clone());
                    let answers = answers.clone();
                    let answered = Record::QuestionAnswered {
                        question_id: question_id(),
                        question_hash,
                        answers: answers.clone(),
                        by: by_whom,
                        stale,
                        receipt: None,
                    };
                    let records = vec![routed(RouteOutcome::Answered, None, None).into(), answered.into()];
                    let onward = Onward { lease: Some(lease), login: None };
                    let next = self.go_on_with(&view, asked, &answers, by, records, onward).await?;
                    next.map(|_| NoticeKind::Answered)
                }
                Told::NoResponse(why) | Told::NoChannel(why) => {
                    let outcome = match told {
                        Told::NoChannel(_) => RouteOutcome::NoChannel,
                        Told::NoResponse(_) | Told::Answer(_) => RouteOutcome::NoResponse,
                    };
                    let escalate_at = asked.terms.escalation(step + 1, self.world().clock.now());
                    let record = routed(outcome, Some(why.clone()), escalate_at);
                    match self.append(&view, vec![record.into()], Vec::new()).await {
                        Ok(()) => Some(NoticeKind::Escalated),
                        Err(LedgerError::Moved { .. }) => None,
                        Err(error) => return Err(CarryError::Ledger(error)),
                    }
                }
            };
            let now = self.view(&view.thread_id).await?;
            if let Some(kind) = written {
                let told_of = now.thread.questions().iter().find(|asked| asked.id == *question);
                if let Some(asked) =
                    told_of.filter(|_| kind == NoticeKind::Answered || now.thread.open().is_some())
                {
                    self.tell_of(kind, &now, asked).await;
                }
                return Ok(());
            }
            view = now;
        }
    }
}
