//! What happens in an inbox, as it happens: questions that open, and what closes them.

use std::collections::VecDeque;

use agora_core::answer::{Answerer, Replies};
use agora_core::entry::{Entry, Happening};
use agora_core::provider::ledger::{LedgerError, OpenFilter, OpenQuestion, Watch};
use agora_core::record::{AtExpiry, Record};
use agora_core::{Namespace, QuestionId, ThreadId, Timestamp};

use super::asked_by;
use crate::agora::Agora;
use crate::carry::{CarryError, Engine};
use crate::error::Error;

/// How many entries, or questions, are read at once.
const PAGE: usize = 100;

/// Something that happened in an inbox.
#[derive(Clone, Debug, PartialEq)]
pub enum InboxNews {
    Opened(Box<OpenQuestion>),
    Closed { question_id: QuestionId, thread_id: ThreadId, at: Timestamp, how: Closing },
}

/// What closed a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    Answered {
        by: Answerer,
        answers: Replies,
    },
    Declined {
        by: Answerer,
    },
    Expired,
    /// What it rested on had changed, and its route says that it fails then.
    Stale,
    Cancelled,
}

impl Closing {
    /// Returns the kind of the record that says so.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Answered { .. } => "question.answered",
            Self::Declined { .. } => "question.declined",
            Self::Expired | Self::Stale => "question.expired",
            Self::Cancelled => "question.cancelled",
        }
    }
}

/// Follows an inbox. Nothing is missed, and nobody asks again and again: it waits for the ledger's bell.
#[derive(Debug)]
pub struct InboxWatch {
    engine: Engine,
    namespace: Namespace,
    /// How far the ledger was read.
    seen: u64,
    ready: VecDeque<InboxNews>,
    watch: Box<dyn Watch>,
}

impl Agora {
    /// Begins to follow the inbox: first come the questions that are open now, those that wait longest first.
    ///
    /// ```no_run
    /// # async fn example(agora: agora_engine::Agora) -> Result<(), Box<dyn std::error::Error>> {
    /// use agora_engine::InboxNews;
    ///
    /// let mut inbox = agora.watch_inbox().await?;
    /// loop {
    ///     match inbox.next().await? {
    ///         InboxNews::Opened(open) => println!("{} asks {}", open.subagent, open.question_id),
    ///         InboxNews::Closed { question_id, how, .. } => println!("{question_id}: {}", how.kind()),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn watch_inbox(&self) -> Result<InboxWatch, Error> {
        let engine = self.engine()?;
        let namespace = self.catalogue().namespace().clone();
        let ledger = &engine.world().ledger;
        // In this order: what is recorded in between is heard, and told once.
        let watch = ledger.watch().map_err(failed)?;
        let seen = ledger.end().await.map_err(failed)?;
        let mut inbox = InboxWatch { engine: engine.clone(), namespace, seen, ready: VecDeque::new(), watch };
        inbox.read_open().await?;
        Ok(inbox)
    }
}

impl InboxWatch {
    /// Returns the next thing that happens.
    pub async fn next(&mut self) -> Result<InboxNews, Error> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Ok(news);
            }
            let ledger = &self.engine.world().ledger;
            let entries = ledger.read_all(&self.namespace, self.seen, PAGE).await.map_err(failed)?;
            if entries.is_empty() {
                self.watch.next().await.map_err(failed)?;
            }
            for (place, entry) in entries {
                self.seen = place;
                let news = self.news(&entry).await?;
                self.ready.extend(news);
            }
        }
    }

    /// Reads what is open. Those that opened after the place from which entries are read are told by their entries.
    async fn read_open(&mut self) -> Result<(), Error> {
        let mut after = None;
        loop {
            let filter = OpenFilter { namespace: Some(self.namespace.clone()), after, most: PAGE };
            let ledger = &self.engine.world().ledger;
            let page = ledger.questions(&filter).await.map_err(failed)?;
            let Some(last) = page.last() else { break };
            after = Some((last.thread_id.clone(), last.question_id.clone()));
            let full = page.len() == PAGE;
            self.ready.extend(page.into_iter().map(|open| InboxNews::Opened(Box::new(open))));
            if !full {
                break;
            }
        }
        self.leave_out_the_new().await
    }

    /// Takes those out that opened between the two readings.
    async fn leave_out_the_new(&mut self) -> Result<(), Error> {
        let ledger = &self.engine.world().ledger;
        let mut from = self.seen;
        loop {
            let entries = ledger.read_all(&self.namespace, from, PAGE).await.map_err(failed)?;
            let Some((last, _)) = entries.last() else { return Ok(()) };
            from = *last;
            for (_, entry) in &entries {
                if let Happening::Record(Record::QuestionOpened { question_id, .. }) = &entry.what {
                    self.ready.retain(
                        |news| !matches!(news, InboxNews::Opened(open) if open.question_id == *question_id),
                    );
                }
            }
        }
    }

    async fn news(&self, entry: &Entry) -> Result<Option<InboxNews>, Error> {
        let Happening::Record(record) = &entry.what else { return Ok(None) };
        let closed = |question_id: &QuestionId, how| {
            let (question_id, thread_id) = (question_id.clone(), entry.thread_id.clone());
            Ok(Some(InboxNews::Closed { question_id, thread_id, at: entry.at, how }))
        };
        match record {
            Record::QuestionOpened { question_id, .. } => self.opened(question_id, entry).await,
            Record::QuestionAnswered { question_id, answers, by, .. } => {
                closed(question_id, Closing::Answered { by: by.clone(), answers: answers.clone() })
            }
            Record::QuestionDeclined { question_id, by, .. } => {
                closed(question_id, Closing::Declined { by: by.clone() })
            }
            Record::QuestionExpired { question_id, at_expiry: AtExpiry::Stale(_) } => {
                closed(question_id, Closing::Stale)
            }
            Record::QuestionExpired { question_id, .. } => closed(question_id, Closing::Expired),
            Record::QuestionCancelled { question_id, .. } => closed(question_id, Closing::Cancelled),
            _ => Ok(None),
        }
    }

    /// Reads what was asked. `None`: the thread was forgotten meanwhile.
    async fn opened(&self, question: &QuestionId, entry: &Entry) -> Result<Option<InboxNews>, Error> {
        let ledger = &self.engine.world().ledger;
        let Some(dispatch_id) = asked_by(question) else { return Ok(None) };
        let (papers, view) =
            match (ledger.dispatch(&dispatch_id).await, ledger.thread(&entry.thread_id).await) {
                // One that cannot be read has no news; the others have.
                (Err(LedgerError::ThreadDamaged { .. }), _) | (_, Err(LedgerError::ThreadDamaged { .. })) => {
                    return Ok(None);
                }
                (papers, view) => (papers.map_err(failed)?, view.map_err(failed)?),
            };
        let (Some(papers), Some(view)) = (papers, view) else { return Ok(None) };
        let asked = view.thread.questions().iter().find(|asked| asked.id == *question);
        let Some(asked) = asked else { return Ok(None) };
        Ok(Some(InboxNews::Opened(Box::new(OpenQuestion {
            question_id: question.clone(),
            namespace: entry.namespace.clone(),
            thread_id: entry.thread_id.clone(),
            dispatch_id,
            subagent: papers.job.resolved.subagent.name,
            labels: papers.job.labels,
            question: asked.question.clone(),
            asked_at: entry.at,
        }))))
    }
}

fn failed(error: LedgerError) -> Error {
    Error::Carry(CarryError::Ledger(error))
}
