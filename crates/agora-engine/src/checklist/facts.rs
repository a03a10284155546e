//! What the records hold of a thread's pauses.

use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::job::Job;
use agora_core::provider::ledger::DispatchView;
use agora_core::record::Record;
use agora_core::state::{AskedQuestion, QuestionState, Thread as Folded};
use agora_core::wire::manifest::Continuation;
use agora_core::wire::receipt::Receipt;
use agora_core::wire::report::Report;
use agora_core::{DispatchId, QuestionId, ThreadId};

use super::Calls;
use crate::agora::Agora;
use crate::carry::{CarryError, Engine};
use crate::error::Error;
use crate::inbox::asked_by;

/// How many entries are read at once.
const PAGE: usize = 500;
/// What of an agent's stream is looked through for what it did.
const LOG_BYTES: u64 = 16 << 20;

/// One pause: what was asked, what was left, and what came of it.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) asked: AskedQuestion,
    /// Everything that happened to the thread.
    pub(crate) entries: Vec<Entry>,
    /// Whether folding the entries from the beginning gives what the ledger says.
    pub(crate) folds_alike: bool,
    pub(crate) before: Option<Report>,
    /// Whether what the agent would go on with can be read. `None`: it needs it no more.
    pub(crate) sealed: Option<bool>,
    /// Whether the receipt that stands with the answer is genuine. `None`: there is none with it.
    pub(crate) receipt_holds: Option<bool>,
    pub(crate) next: Option<Next>,
}

/// The dispatch that went on with the answer.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) job: Job,
    pub(crate) report: Option<Report>,
    pub(crate) receipt_holds: Option<bool>,
    pub(crate) calls: Option<Calls>,
}

impl Agora {
    /// Gathers the facts of every pause of a thread.
    pub(crate) async fn facts(&self, thread: &ThreadId) -> Result<Vec<Facts>, Error> {
        let engine = self.engine()?;
        let view = engine.view(thread).await.map_err(Error::Carry)?;
        let entries = entries(&engine, thread).await?;
        let folds_alike = folded(&entries).is_some_and(|folded| folded == view.thread);
        let mut facts = Vec::new();
        for asked in view.thread.questions() {
            let asker = asked_by(&asked.id);
            let before = match &asker {
                Some(asker) => engine.report_of(asker).await.map_err(Error::Carry)?,
                None => None,
            };
            let sealed = match (&asker, asked.state, &before) {
                (Some(asker), QuestionState::Open, Some(report)) if report.workspace_saved => {
                    Some(self.is_kept(asker, report).await?)
                }
                _ => None,
            };
            let receipt_holds = match receipt_of(&entries, &asked.id) {
                Some(receipt) => Some(self.check_receipt(receipt).await?.is_ok()),
                None => None,
            };
            facts.push(Facts {
                receipt_holds,
                next: self.next_of(&engine, asked, &view.thread).await?,
                asked: asked.clone(),
                entries: entries.clone(),
                folds_alike,
                before,
                sealed,
            });
        }
        Ok(facts)
    }

    /// Tells whether what was sealed for the next dispatch is still there, where it is a file of its own.
    async fn is_kept(&self, asker: &DispatchId, report: &Report) -> Result<bool, Error> {
        let sealed = || self.read_left(asker, Report::WORKSPACE, 0, 1);
        Ok(!report.leaves_workspace() || sealed().await?.is_some())
    }

    /// Finds the dispatch that an answer led to.
    async fn next_of(
        &self,
        engine: &Engine,
        asked: &AskedQuestion,
        thread: &Folded,
    ) -> Result<Option<Next>, Error> {
        for (id, _) in thread.dispatches() {
            let DispatchView { job, .. } = engine.papers(id).await.map_err(Error::Carry)?;
            let Some(Continuation::Answered(answer)) = &job.continuation else {
                continue;
            };
            if answer.question_id != asked.id {
                continue;
            }
            let report = engine.report_of(id).await.map_err(Error::Carry)?;
            let receipt_holds = Some(self.check_receipt(&answer.receipt).await?.is_ok());
            let calls = self.calls(engine, &job, report.as_ref()).await?;
            return Ok(Some(Next { job, report, receipt_holds, calls }));
        }
        Ok(None)
    }

    /// Compares what the agent did before with what it did after, where its runtime tells.
    async fn calls(
        &self,
        engine: &Engine,
        job: &Job,
        report: Option<&Report>,
    ) -> Result<Option<Calls>, Error> {
        let (Some(after), Some(_)) = (&job.after, report) else { return Ok(None) };
        if engine.report_of(after).await.map_err(Error::Carry)?.is_none() {
            return Ok(None);
        }
        let log = "agent.stdout.log";
        let before = self.read_left(after, log, 0, LOG_BYTES).await?;
        let later = self.read_left(&job.dispatch_id, log, 0, LOG_BYTES).await?;
        Ok(before.zip(later).and_then(|(before, later)| Calls::compare(&job.runtime, &before, &later)))
    }
}

async fn entries(engine: &Engine, thread: &ThreadId) -> Result<Vec<Entry>, Error> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let seen = all.last().map_or(0, |entry| entry.seq);
        let more = engine.world().ledger.read(thread, seen, PAGE).await;
        let more = more.map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
        if more.is_empty() {
            return Ok(all);
        }
        all.extend(more);
    }
}

/// Returns the receipt that stands with the answer to a question.
fn receipt_of<'e>(entries: &'e [Entry], question: &QuestionId) -> Option<&'e Receipt> {
    entries.iter().find_map(|entry| match &entry.what {
        Happening::Record(Record::QuestionAnswered { question_id, receipt, .. })
            if question_id == question =>
        {
            receipt.as_deref()
        }
        Happening::Event(_) | Happening::Record(_) => None,
    })
}

/// Folds what happened, as recovery does.
fn folded(entries: &[Entry]) -> Option<Folded> {
    let (first, rest) = entries.split_first()?;
    let begun = Folded::begin(&first.what).ok()?;
    rest.iter().try_fold(begun, |thread, entry| thread.after(&entry.what)).ok()
}

impl Facts {
    /// Returns the number of the first entry from a place on that something is true of.
    pub(crate) fn seq(&self, from: u64, is: impl Fn(&Happening) -> bool) -> Option<u64> {
        self.entries.iter().find(|entry| entry.seq >= from && is(&entry.what)).map(|entry| entry.seq)
    }

    /// Returns where the next dispatch was accepted.
    pub(crate) fn accepted_seq(&self) -> Option<u64> {
        let id = &self.next.as_ref()?.job.dispatch_id;
        self.seq(
            1,
            |what| matches!(what, Happening::Event(Event::Accepted { dispatch_id, .. }) if dispatch_id == id),
        )
    }
}
