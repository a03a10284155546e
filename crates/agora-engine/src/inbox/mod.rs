//! The pause, on this side: questions that are open, and what ends them.

mod answer;
mod drive;
mod news;
mod receipt;
pub(crate) mod rested;
mod story;

use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_core::{DispatchId, QuestionId};

use crate::agora::Agora;
use crate::carry::CarryError;
use crate::error::Error;
use crate::handle::Thread;

pub(crate) use answer::Onward;
pub use answer::{Answered, Refusal};
pub use drive::Reaction;
pub use news::{Closing, InboxNews, InboxWatch};
pub use story::{
    ContinuedStory, Passed, QuestionStory, RoutedStep, StoryAnswer, ThreadStory, Totals, thread_state,
};

impl Agora {
    /// Returns questions that are open, those that wait longest first.
    pub async fn inbox(&self, filter: &OpenFilter) -> Result<Vec<OpenQuestion>, Error> {
        let open = self.engine()?.world().ledger.questions(filter).await;
        open.map_err(|error| Error::Carry(CarryError::Ledger(error)))
    }

    /// Returns the thread that asked a question, with the dispatch that asked.
    pub async fn asker(&self, question: &QuestionId) -> Result<Thread, Error> {
        let engine = self.engine()?;
        let unknown = || Error::Answer(Refusal::Unknown(question.clone()));
        let dispatch = asked_by(question).ok_or_else(unknown)?;
        let papers = engine.world().ledger.dispatch(&dispatch).await;
        let papers = papers.map_err(|error| Error::Carry(CarryError::Ledger(error)))?.ok_or_else(unknown)?;
        Ok(Thread::new(self.clone(), engine, papers.job.thread_id, dispatch))
    }
}

/// Returns the dispatch that asked: it has the same digits.
pub(crate) fn asked_by(question: &QuestionId) -> Option<DispatchId> {
    format!("d_{}", question.as_str().strip_prefix("q_")?).parse().ok()
}
