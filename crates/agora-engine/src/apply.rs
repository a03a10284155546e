//! Brings a thread's work into the tree that it was taken from.

use std::sync::atomic::AtomicBool;

use agora_core::ThreadId;
use agora_core::job::Job;
use agora_core::wire::report::Report;
use agora_providers::ground::{AppliedWork, ApplyError, ApplyTo, LocalGrounds, OnSight};

use crate::agora::Agora;
use crate::carry::CarryError;
use crate::error::Error;

/// A thread's work as a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkPatch {
    pub bytes: Vec<u8>,
    /// What of the thread's work is not in it.
    pub warnings: Vec<String>,
}

/// More than any patch has.
const PATCH_BYTES: u64 = 1 << 30;

impl Agora {
    /// Brings a thread's work, as the last of its dispatches left it, into the tree that it was taken from. All of it, or nothing,
    /// also where somebody wants it stopped meanwhile.
    pub async fn apply_work(
        &self,
        thread: &ThreadId,
        to: ApplyTo,
        on_sight: OnSight,
        stop: &AtomicBool,
    ) -> Result<AppliedWork, Error> {
        let (job, report) = self.last_work(thread).await?;
        self.grounds().apply(&job, &report, &to, on_sight, stop).map_err(unapplied(thread))
    }

    fn grounds(&self) -> LocalGrounds {
        let environment =
            self.settings().map(|settings| settings.git_environment.clone()).unwrap_or_default();
        LocalGrounds::new(self.home().clone(), &environment)
    }

    /// Returns a thread's work as a patch that `git apply` takes.
    pub async fn work_patch(&self, thread: &ThreadId) -> Result<WorkPatch, Error> {
        let (job, report) = self.last_work(thread).await?;
        let unreached = |error| Error::Carry(CarryError::Shelf(error));
        let warnings = self.grounds().not_in(&job, &report).map_err(unreached)?.into_iter().collect();
        let patch = report.patch.ok_or(ApplyError::Nothing).map_err(unapplied(thread))?;
        let bytes = self.read_left(&job.dispatch_id, &patch.artifact.path, 0, PATCH_BYTES).await?;
        let bytes = bytes.ok_or(ApplyError::Nothing).map_err(unapplied(thread))?;
        Ok(WorkPatch { bytes, warnings })
    }

    /// Finds the last dispatch of a thread that left a patch. One that changed nothing, and began without what was done before, has less
    /// to bring than that.
    async fn last_work(&self, thread: &ThreadId) -> Result<(Job, Report), Error> {
        let engine = self.engine()?;
        let view = engine.view(thread).await.map_err(Error::Carry)?;
        for (id, state) in view.thread.dispatches().iter().rev() {
            if state.is_live() {
                continue;
            }
            let papers = engine.papers(id).await.map_err(Error::Carry)?;
            let report = papers.report.as_ref().and_then(|text| engine.read_report(id, text));
            let counts = |report: &Report| {
                report.patch.as_ref().is_some_and(|patch| patch.files > 0 || report.lacks.is_none())
            };
            if let Some(report) = report.filter(counts) {
                return Ok((papers.job, report));
            }
        }
        let runs = view.thread.dispatches().iter().any(|(_, state)| state.is_live());
        Err(unapplied(thread)(if runs { ApplyError::Running } else { ApplyError::Nothing }))
    }
}

fn unapplied(thread: &ThreadId) -> impl FnOnce(ApplyError) -> Error {
    let thread = thread.clone();
    move |why| Error::Apply { thread, why }
}
