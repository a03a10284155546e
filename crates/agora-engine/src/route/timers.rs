//! Timers of an open question: whoever looks first turns what is due, and nobody turns it twice.

use agora_core::answer::{Answerer, Replies};
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{LedgerError, ThreadView};
use agora_core::record::{AtExpiry, Record};
use agora_core::route::AtEnd;
use agora_core::state::AskedQuestion;
use agora_core::{ThreadId, Timestamp};

use crate::carry::{CarryError, Engine};
use crate::inbox::Onward;
use crate::notice::NoticeKind;
use crate::sabotage::{self, Bug};

impl Engine {
    /// Tells whether a question is past its end, whether or not anybody has recorded that.
    pub(crate) fn is_over(&self, asked: &AskedQuestion) -> bool {
        let over = asked.terms.expiry.is_some_and(|expiry| expiry.at <= self.world().clock.now());
        over && !sabotage::is(Bug::IgnoresExpiry)
    }

    /// Does what is due about a thread's open question: its end, others who are to be asked, a reminder.
    pub(crate) async fn turn(&self, thread: &ThreadId) -> Result<(), CarryError> {
        loop {
            let view = self.view(thread).await?;
            let Some(asked) = view.thread.open() else { return Ok(()) };
            let now = self.world().clock.now();
            let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
            if due(asked.terms.expiry.map(|expiry| expiry.at)) {
                self.expire(&view, asked, None).await?;
            } else if due(asked.progress.escalate_at) {
                let step = asked.progress.step + 1;
                let escalate_at = asked.terms.escalation(step, now);
                let record = Record::QuestionEscalated { question_id: asked.id.clone(), step, escalate_at };
                self.note(&view, record, NoticeKind::Escalated).await?;
            } else if due(asked.progress.remind_at) {
                if sabotage::is(Bug::ReminderAnswers) && defaults(asked).len() == asked.question.items().len()
                {
                    return self.answer_by_silence(&view, asked).await;
                }
                let next_at = asked.progress.next_reminder(&asked.terms, now);
                let record = Record::QuestionReminded { question_id: asked.id.clone(), next_at };
                self.note(&view, record, NoticeKind::Reminded).await?;
            } else {
                return Ok(());
            }
        }
    }

    /// A mistake that somebody could make: whoever does not answer a reminder has agreed.
    async fn answer_by_silence(&self, view: &ThreadView, asked: &AskedQuestion) -> Result<(), CarryError> {
        let (question_id, question_hash, by) =
            (asked.id.clone(), asked.hash, Answerer::new("user:ann", "silence"));
        let answers = defaults(asked);
        let replies = answers.clone();
        let agreed = Record::QuestionAnswered {
            question_id,
            question_hash,
            answers,
            by: by.clone(),
            stale: Vec::new(),
            receipt: None,
        };
        self.go_on_with(view, asked, &replies, &by, vec![agreed.into()], Onward::default()).await.map(drop)
    }

    /// Records something that leaves the question open, and tells people. Somebody else may have been faster.
    async fn note(&self, view: &ThreadView, record: Record, kind: NoticeKind) -> Result<(), CarryError> {
        match self.append(view, vec![record.into()], Vec::new()).await {
            Ok(()) => {}
            Err(LedgerError::Moved { .. }) => return Ok(()),
            Err(error) => return Err(CarryError::Ledger(error)),
        }
        let now = self.view(&view.thread_id).await?;
        if let Some(asked) = now.thread.open() {
            self.tell_of(kind, &now, asked).await;
        }
        Ok(())
    }

    /// Ends a question whose time is over, as its terms say. Somebody else may have been faster.
    pub(crate) async fn expire(
        &self,
        view: &ThreadView,
        asked: &AskedQuestion,
        lease: Option<&dyn Lease>,
    ) -> Result<(), CarryError> {
        let Some(expiry) = asked.terms.expiry else { return Ok(()) };
        let question_id = asked.id.clone();
        match expiry.then {
            AtEnd::Fail => {
                let expired = Record::QuestionExpired { question_id, at_expiry: AtExpiry::Fail };
                match self.append(view, vec![expired.into()], Vec::new()).await {
                    Ok(()) => self.close(&view.thread_id).await?,
                    Err(LedgerError::Moved { .. }) => return Ok(()),
                    Err(error) => return Err(CarryError::Ledger(error)),
                }
            }
            AtEnd::UseDefault => {
                let replies = defaults(asked);
                let at_expiry = AtExpiry::UseDefault(replies.clone());
                let records = vec![Record::QuestionExpired { question_id, at_expiry }.into()];
                let by = Answerer::new("default", "expiry");
                let onward = Onward { lease, login: None };
                if self.go_on_with(view, asked, &replies, &by, records, onward).await?.is_none() {
                    return Ok(());
                }
            }
        }
        self.tell_of(NoticeKind::Expired, view, asked).await;
        Ok(())
    }
}

/// Returns what the asker named for want of an answer.
fn defaults(asked: &AskedQuestion) -> Replies {
    let items = asked.question.items().iter();
    items.filter_map(|item| Some((item.id().clone(), item.default_reply()?.clone()))).collect()
}
