//! The end of a dispatch: whose outcome holds, and what is recorded of it.

use std::time::Duration;

use agora_core::Timestamp;
use agora_core::answer::Answerer;
use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::job::{Attendance, Job};
use agora_core::provider::compute::WorkerLife;
use agora_core::provider::ledger::{Append, DispatchView, LedgerError, Paper, ThreadView};
use agora_core::provider::shelf::{Clearing, Concluded};
use agora_core::question::Question;
use agora_core::reason::{Failure, FailureCode};
use agora_core::record::Record;
use agora_core::route::{Asking, Terms};
use agora_core::state::DispatchState;
use agora_core::wire::line::{Line, Said};

use super::follow::look;
use super::{CarryError, Engine};
use crate::notice::NoticeKind;
use crate::sabotage::{self, Bug};

/// How long a worker may take to end when its outcome is stored.
const LAST_BREATH: Duration = Duration::from_secs(20);

impl Engine {
    /// Ends a dispatch as failed, unless its worker has stored another outcome.
    pub(super) async fn fail(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        failure: Failure,
    ) -> Result<(), CarryError> {
        let dispatch_id = dispatch.job.dispatch_id.clone();
        self.conclude(view, dispatch, Event::Failed { dispatch_id, duration_ms: 0, failure }).await
    }

    /// Ends a dispatch as cancelled, unless its worker has stored another outcome.
    pub(super) async fn end_cancelled(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
    ) -> Result<(), CarryError> {
        let dispatch_id = dispatch.job.dispatch_id.clone();
        self.conclude(view, dispatch, Event::Cancelled { dispatch_id, duration_ms: 0 }).await
    }

    /// Stores an outcome of ours, unless there is one, and takes in the one that holds. From then on no worker of the dispatch can
    /// be started, not even by another who believes that it is their turn.
    async fn conclude(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        event: Event,
    ) -> Result<(), CarryError> {
        let id = &dispatch.job.dispatch_id;
        let line = Line { seq: 0, at: self.world.clock.now(), said: Said::Event(event) };
        let text = line.to_text(&self.world.keys.event_key(id)).unwrap_or_default();
        match self.world.shelf.conclude(id, &text).await.map_err(CarryError::Shelf)? {
            Concluded::Theirs(theirs) if !sabotage::is(Bug::ForgetsOutcome) => {
                self.take_in(view, dispatch, &theirs).await
            }
            Concluded::Ours | Concluded::Theirs(_) => self.take_in(view, dispatch, &text).await,
        }
    }

    /// Takes in the outcome that is stored: the worker's, or an engine's.
    pub(super) async fn take_in(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        text: &str,
    ) -> Result<(), CarryError> {
        let id = &dispatch.job.dispatch_id;
        self.see_it_gone(dispatch).await?;
        let report = self.world.shelf.report(id).await.map_err(CarryError::Shelf)?;
        let event = self.read_outcome(dispatch, text);
        self.record_end(view, dispatch, event, report).await
    }

    /// Returns when no process of the dispatch is left: an end is recorded only then.
    async fn see_it_gone(&self, dispatch: &DispatchView) -> Result<(), CarryError> {
        if sabotage::is(Bug::EndsTooEarly) {
            return Ok(());
        }
        let id = &dispatch.job.dispatch_id;
        let Some(target) = self.target(&dispatch.job.target) else { return Ok(()) };
        if look(target, id).await? != WorkerLife::Running {
            return Ok(());
        }
        // It has stored its outcome, and has only to end. One that was started in spite of ours does not know that yet.
        let patience = self.world.clock.now().plus(LAST_BREATH);
        tokio::select! {
            biased;
            life = target.compute.wait(id) => life.map(drop).map_err(CarryError::Compute),
            () = self.world.alarm.at(patience) => {
                target.compute.stop(id, LAST_BREATH).await.map_err(CarryError::Compute)
            }
        }
    }

    /// Reads a stored outcome. One that nobody signed was put there by somebody else: the worker's own is lost.
    fn read_outcome(&self, dispatch: &DispatchView, text: &str) -> Event {
        let id = &dispatch.job.dispatch_id;
        let read = Line::parse(text.trim_end(), &self.world.keys.event_key(id));
        let why = match read {
            Ok(Line { said: Said::Event(event), .. }) if event.is_terminal() && event.dispatch_id() == id => {
                return recordable(&dispatch.job, event, self.world.clock.now());
            }
            Ok(_) => "it is no end of this dispatch".to_owned(),
            Err(error) => error.to_string(),
        };
        let detail = format!("what is stored as its outcome is not its worker's: {why}");
        let failure = Failure::new(FailureCode::WorkerLost, detail);
        Event::Failed { dispatch_id: id.clone(), duration_ms: 0, failure }
    }

    /// Records the end. What only the run needed is taken away before: after it, nobody would come back for it.
    async fn record_end(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        event: Event,
        report: Option<String>,
    ) -> Result<(), CarryError> {
        let job = &dispatch.job;
        // Of a person who waited for room, and whose worker never came.
        self.terminals().remove(&job.dispatch_id);
        let known = report.as_ref().and_then(|text| self.read_report(&job.dispatch_id, text));
        if let Some(report) = &known {
            // Before anything of the run goes, and before the end is recorded: whoever comes back does it again.
            self.world.grounds.bring_home(job, report).await.map_err(CarryError::Shelf)?;
        }
        let saved = known.as_ref().is_some_and(|report| report.workspace_saved);
        let closes = closes(&event, job);
        if saved || closes {
            let cleared = self.world.shelf.clear(&job.dispatch_id, Clearing::Workspace).await;
            cleared.map_err(CarryError::Shelf)?;
        }
        if closes {
            // Each may have had a login of its own.
            for (id, _) in view.thread.dispatches().iter().filter(|(id, _)| *id != job.dispatch_id) {
                let earlier = self.papers(id).await?.job;
                self.world.vault.forget(&earlier).await.map_err(CarryError::Secret)?;
            }
            self.world.vault.forget(job).await.map_err(CarryError::Secret)?;
        }
        let papers = match (report, known) {
            (Some(text), Some(_)) => vec![Paper::Report { dispatch_id: job.dispatch_id.clone(), text }],
            _ => Vec::new(),
        };
        let asks = matches!(event, Event::NeedsInput { .. });
        // By itself: whoever cancelled it knows that it has ended.
        let ended = match &event {
            Event::Finished { .. } => Some(None),
            Event::Failed { failure, .. } if closes => Some(Some(failure.clone())),
            _ => None,
        };
        let canceller = view.cancel_wish.as_ref().and_then(|wish| wish.by.clone());
        let what = happenings(event, dispatch, closes, canceller, self.world.clock.now());
        match self.append(view, what, papers).await {
            Ok(()) if asks => {
                let now = self.view(&view.thread_id).await?;
                if let Some(asked) = now.thread.open() {
                    self.tell(NoticeKind::Opened, &view.thread_id, job, asked).await;
                }
                Ok(())
            }
            Ok(()) => {
                if let Some(failure) = ended {
                    self.tell_ended(job, failure).await;
                }
                Ok(())
            }
            Err(LedgerError::Moved { .. }) => Ok(()),
            // What a worker signed and yet cannot have happened: the thread must not be stuck with it.
            Err(LedgerError::Illegal(why)) => {
                let failure = Failure::new(
                    FailureCode::WorkerLost,
                    format!("its worker told an end that cannot be: {why}"),
                );
                let (dispatch_id, duration_ms) = (job.dispatch_id.clone(), 0);
                let event = Event::Failed { dispatch_id, duration_ms, failure };
                let what = vec![event.into(), Record::ThreadEnded {}.into()];
                match self.append(view, what, Vec::new()).await {
                    Ok(_) | Err(LedgerError::Moved { .. }) => Ok(()),
                    Err(error) => Err(CarryError::Ledger(error)),
                }
            }
            Err(error) => Err(CarryError::Ledger(error)),
        }
    }

    pub(crate) async fn append(
        &self,
        view: &ThreadView,
        what: Vec<Happening>,
        papers: Vec<Paper>,
    ) -> Result<(), LedgerError> {
        let (namespace, thread_id) = (view.namespace.clone(), view.thread_id.clone());
        let append = Append { namespace, thread_id, seen: view.seen, what, papers };
        self.world.ledger.append(append).await.map(drop)
    }
}

/// Tells whether the thread's books are closed with this end. Not when it goes on by itself, or waits for an answer.
fn closes(event: &Event, job: &Job) -> bool {
    match event {
        Event::NeedsInput { .. } => false,
        Event::Failed { failure, .. } => rests(failure, job),
        Event::Accepted { .. } | Event::Started { .. } | Event::Finished { .. } | Event::Cancelled { .. } => {
            true
        }
    }
}

/// Tells whether a thread rests with a failure: it does not go on by itself.
pub(super) fn rests(failure: &Failure, job: &Job) -> bool {
    failure.retry_at.is_none() || job.attendance != Attendance::Detached
}

/// Returns what holds for a question from now on, whatever is configured later or elsewhere.
fn terms(job: &Job, question: &Question, now: Timestamp) -> Terms {
    job.routes.terms(Asking {
        subagent: &job.resolved.subagent.name,
        labels: &job.labels,
        question,
        owner: job.owner.as_ref(),
        now,
    })
}

fn happenings(
    event: Event,
    dispatch: &DispatchView,
    closes: bool,
    canceller: Option<Answerer>,
    now: Timestamp,
) -> Vec<Happening> {
    let mut what: Vec<Happening> = Vec::new();
    let wants_start = match &event {
        Event::Finished { .. } | Event::NeedsInput { .. } => true,
        // Time is counted from the start.
        Event::Failed { duration_ms, .. } | Event::Cancelled { duration_ms, .. } => *duration_ms > 0,
        Event::Accepted { .. } | Event::Started { .. } => false,
    };
    if wants_start && dispatch.state == DispatchState::Accepted {
        // The worker said so before it said this; nobody was there to record it.
        what.push(Event::Started { dispatch_id: dispatch.job.dispatch_id.clone() }.into());
    }
    let opened = match &event {
        // A question without a hash is refused with the event that carries it.
        Event::NeedsInput { question_id, question, .. } => question.hash().ok().map(|question_hash| {
            let terms = Box::new(terms(&dispatch.job, question, now));
            Happening::from(Record::QuestionOpened { question_id: question_id.clone(), question_hash, terms })
        }),
        _ => None,
    };
    // A worker that was told to end does not know who wished it.
    let cancelled = canceller.filter(|_| matches!(event, Event::Cancelled { .. }));
    what.push(event.into());
    what.extend(cancelled.map(|by| Record::ThreadCancelled { by: Some(by) }.into()));
    what.extend(opened.filter(|_| !sabotage::is(Bug::LosesQuestion)));
    if closes {
        what.push(Record::ThreadEnded {}.into());
    }
    what
}

/// Returns the event, or a failure where an entry of it could never be read again: a thread that nobody can read can neither be
/// answered nor ended. Only a question holds what an agent wrote.
fn recordable(job: &Job, event: Event, now: Timestamp) -> Event {
    let Event::NeedsInput { duration_ms, .. } = event else { return event };
    let (namespace, thread_id) = (job.namespace.clone(), job.thread_id.clone());
    let entry = Entry { seq: 0, at: now, namespace, thread_id, what: event.clone().into() };
    match entry.encode() {
        Ok(_) => event,
        Err(why) => {
            let detail = format!("what it asks could not be read again once it is recorded: {why}");
            let failure = Failure::new(FailureCode::SentinelMalformed, detail);
            Event::Failed { dispatch_id: job.dispatch_id.clone(), duration_ms, failure }
        }
    }
}

#[cfg(test)]
mod tests {
    use agora_testkit::ledger::sample::job;
    use serde_json::json;

    use super::*;

    /// A carrier may see the end before it hears of the start.
    #[test]
    fn what_took_time_has_started_however_it_ended() {
        let now = Timestamp::from_millis(0);
        let dispatch = DispatchView {
            job: job("t_1", "d_1"),
            state: DispatchState::Accepted,
            accepted_at: now,
            started_at: None,
            ended_at: None,
            duration_ms: None,
            claim: None,
            report: None,
        };
        let kinds = |duration_ms: u64| {
            let event = Event::Cancelled { dispatch_id: dispatch.job.dispatch_id.clone(), duration_ms };
            let by = Answerer::new("user:ann", "cli");
            let what = happenings(event, &dispatch, true, Some(by), now);
            what.iter().map(Happening::kind).collect::<Vec<_>>()
        };
        let ended = ["dispatch.cancelled", "thread.cancelled", "thread.ended"];
        assert_eq!(kinds(0), ended);
        assert_eq!(kinds(2), [&["dispatch.started"][..], &ended].concat());
    }

    #[test]
    fn a_question_that_could_not_be_read_again_is_a_failure_and_not_an_entry() {
        let asked = |depth: usize| {
            let state = (0..depth).fold(json!(1), |inner, _| json!([inner]));
            let question = json!({"questions": [{"question": "?"}], "partialState": state});
            Event::NeedsInput {
                dispatch_id: "d_1".parse().unwrap(),
                duration_ms: 7,
                question_id: "q_1".parse().unwrap(),
                question: serde_json::from_value(question).unwrap(),
            }
        };
        let taken = |depth: usize| recordable(&job("t_1", "d_1"), asked(depth), Timestamp::from_millis(0));
        assert_eq!(taken(127), asked(127));
        // Its line can be read: what stands around a question in an entry is a level more.
        let Event::Failed { failure, duration_ms, .. } = taken(142) else { panic!("it was recorded") };
        assert_eq!((failure.code, duration_ms), (FailureCode::SentinelMalformed, 7));
    }
}
