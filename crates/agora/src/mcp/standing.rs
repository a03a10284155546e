//! Where a thread stands, for who waits for it or asks about it. The thread's own state says it, never that of its last dispatch: a question
//! that was declined or cancelled ends the thread, and the dispatch that asked stays as it was.

use agora_core::provider::ledger::ThreadView;
use agora_core::route::entitled;
use agora_core::state::{AskedQuestion, QuestionState, ThreadState};
use agora_engine::Thread;

use super::Trouble;
use super::asked::Way;
use super::asking::OpenNow;
use super::client::Client;
use super::desk::{Desk, Opened};
use super::secrets::wants_a_secret;

/// Where a thread stands.
pub(crate) enum Standing {
    Working,
    Asks(Box<OpenNow>),
    Rests,
}

/// Returns the word for a thread's state, by that of its last dispatch where that says more.
pub(crate) fn state_word(thread: &ThreadState, dispatch: &'static str) -> &'static str {
    match thread {
        ThreadState::Running => dispatch,
        ThreadState::Resuming => "queued",
        ThreadState::Waiting => "needs_input",
        ThreadState::Finished => "finished",
        ThreadState::Failed(_) => "failed",
        ThreadState::Cancelled => "cancelled",
    }
}

pub(crate) fn question_word(state: QuestionState) -> &'static str {
    match state {
        QuestionState::Asked | QuestionState::Open => "open",
        QuestionState::Answered => "answered",
        QuestionState::Declined => "declined",
        QuestionState::Expired | QuestionState::Stale => "expired",
        QuestionState::Cancelled => "cancelled",
    }
}

/// Returns the question of a thread that is open.
fn open_question(questions: &[AskedQuestion]) -> Option<&AskedQuestion> {
    questions.iter().rev().find(|asked| asked.state == QuestionState::Open)
}

impl Desk {
    /// Looks where a thread stands now.
    pub(crate) async fn look(&self, client: &Client, thread: &Thread) -> Result<Standing, Trouble> {
        let view = thread.view().await.map_err(|error| self.explain(error))?;
        match view.thread.state() {
            ThreadState::Running | ThreadState::Resuming => Ok(Standing::Working),
            ThreadState::Finished | ThreadState::Failed(_) | ThreadState::Cancelled => Ok(Standing::Rests),
            ThreadState::Waiting => match open_question(view.thread.questions()) {
                // Asked, and not yet recorded as open: in a moment it is.
                None => Ok(Standing::Working),
                Some(asked) => {
                    let subagent = thread.describe().await.map_err(|error| self.explain(error))?.subagent;
                    Ok(Standing::Asks(Box::new(OpenNow {
                        id: asked.id.clone(),
                        hash: asked.hash,
                        thread: view.thread_id.clone(),
                        subagent: subagent.to_string(),
                        question: asked.question.clone(),
                        way: self.way(self.opened().await?, client, &view, asked),
                    })))
                }
            },
        }
    }

    /// Returns the question of a thread that is open now.
    pub(crate) async fn open_now(
        &self,
        client: &Client,
        thread: &Thread,
    ) -> Result<Option<OpenNow>, Trouble> {
        Ok(match self.look(client, thread).await? {
            Standing::Asks(open) => Some(*open),
            Standing::Working | Standing::Rests => None,
        })
    }

    /// Tells how a client may bring a question's answer, without trying it.
    pub(crate) fn way(
        &self,
        opened: &Opened,
        client: &Client,
        view: &ThreadView,
        asked: &AskedQuestion,
    ) -> Way {
        let relay = client.relays(self.around.person());
        let thread = (&view.thread_id, &view.thread);
        let may = entitled(thread, (&asked.question, &asked.terms), &relay, opened.engine.world().agents);
        match may {
            _ if wants_a_secret(&asked.question) => Way::NotAtAll,
            Ok(()) => Way::Relayed,
            Err(_) => Way::InPerson,
        }
    }
}
