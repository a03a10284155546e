//! A thread driven to its end by whoever holds it: any number of pauses, one function that is asked.

use agora_core::QuestionId;
use agora_core::answer::{Answerer, Given};
use agora_core::provider::ledger::LedgerError;
use agora_core::stale::{self, Despite};

use super::answer::{Answered, Onward, Refusal};
use super::asked_by;
use crate::agora::Agora;
use crate::carry::{CarryError, live_dispatch};
use crate::dispatch::login::Again;
use crate::dispatch::result::{DispatchResult, NeedsInput};
use crate::error::Error;
use crate::handle::Thread;

/// What somebody who was asked wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    Answer(Given),
    /// Nobody will answer: the thread ends.
    Decline,
    /// Not now: the question stays open, and nothing runs.
    Leave,
}

impl From<Given> for Reaction {
    fn from(given: Given) -> Self {
        Self::Answer(given)
    }
}

impl From<String> for Reaction {
    fn from(text: String) -> Self {
        Self::Answer(Given::Text(text))
    }
}

impl From<&str> for Reaction {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Agora {
    /// Answers a question, from any process, and begins to carry the thread on in this one. When this returns the answer is
    /// durable and the next dispatch is accepted.
    ///
    /// ```no_run
    /// # async fn example(agora: agora_engine::Agora) -> Result<(), Box<dyn std::error::Error>> {
    /// use agora_engine::{Answerer, Given};
    ///
    /// let by = Answerer::new("user:ann", "slack");
    /// let (thread, answered) = agora.answer(&"q_7f3k".parse()?, &Given::Text("sqlite".into()), &by).await?;
    /// println!("{} goes on as {}", answered.thread_id, answered.dispatch_id);
    /// let result = thread.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn answer(
        &self,
        question: &QuestionId,
        given: &Given,
        by: &Answerer,
    ) -> Result<(Thread, Answered), Error> {
        self.asker(question).await?.answer_despite(Despite::Nothing, question, given, by).await
    }

    /// As [`Agora::answer`], by somebody who knows what of all that the question rested on has changed ([`Agora::stale`]). Where the
    /// route asks again when something changed, only this counts.
    pub async fn answer_despite(
        &self,
        despite: Despite,
        question: &QuestionId,
        given: &Given,
        by: &Answerer,
    ) -> Result<(Thread, Answered), Error> {
        self.asker(question).await?.answer_despite(despite, question, given, by).await
    }

    /// Declines a question: its thread has failed.
    pub async fn decline(&self, question: &QuestionId, by: &Answerer) -> Result<(), Error> {
        self.asker(question).await?.decline(question, by).await
    }
}

impl Thread {
    /// Answers the question that is open.
    pub async fn answer(&self, given: impl Into<Given>, by: &Answerer) -> Result<(Self, Answered), Error> {
        let question = self.open_question().await?;
        self.answer_despite(Despite::Nothing, &question, &given.into(), by).await
    }

    /// Answers a question of the thread, as [`Agora::answer_despite`]. What the thread goes on with although the answer did not count
    /// is carried here as well, until [`Thread::let_go`].
    pub async fn answer_despite(
        &self,
        despite: Despite,
        question: &QuestionId,
        given: &Given,
        by: &Answerer,
    ) -> Result<(Self, Answered), Error> {
        let lease = self.try_lease().await?;
        let is_open = self.view().await?.thread.open().is_some_and(|asked| asked.id == *question);
        let again = if is_open { Some(self.log_in_again().await?) } else { None };
        if let Some(Again { staged, .. }) = &again {
            self.agora.stage(staged, self.id()).await?;
        }
        let login = again.as_ref().map(|again| &again.login);
        let onward = Onward { lease: lease.as_deref(), login };
        let answered = self.engine.answer_as(despite, self.id(), question, (given, by), onward).await;
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) => {
                drop(lease);
                return Err(self.carried_on_after(error).await);
            }
        };
        let dispatch_id = answered.dispatch_id.clone();
        let next = Self::new(self.agora.clone(), self.engine.clone(), self.id().clone(), dispatch_id);
        let used = again.and_then(|again| again.used).filter(|_| answered.goes_on);
        let next = next.with_login(used);
        match lease {
            _ if !answered.goes_on => {}
            Some(lease) => next.carry_accepted(lease),
            None => next.carry().await?,
        }
        Ok((next, answered))
    }

    /// Declines a question of the thread: the thread has failed.
    pub async fn decline(&self, question: &QuestionId, by: &Answerer) -> Result<(), Error> {
        match self.engine.decline(self.id(), question, by).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.carried_on_after(error).await),
        }
    }

    /// Sees that somebody carries the thread after an answer that did not count. Whoever comes after the end of a question may be the
    /// first to look at the clock, and then the asker's default makes the next dispatch; and whoever held the lease for a moment may
    /// have kept it from the carrier of an answer that counts.
    async fn carried_on_after(&self, refused: Error) -> Error {
        // What cannot be carried now is found by whoever recovers; the caller is told why the answer did not count.
        if matches!(refused, Error::Answer(Refusal::Closed { .. } | Refusal::AnsweredBefore { .. }))
            && self.view().await.is_ok_and(|view| live_dispatch(&view.thread).is_some())
        {
            let _ = self.carry().await;
        }
        refused
    }

    async fn open_question(&self) -> Result<QuestionId, Error> {
        let view = self.view().await?;
        let asked = view.thread.questions().last();
        asked.map(|asked| asked.id.clone()).ok_or_else(|| Error::NothingAsked(self.id().clone()))
    }

    /// Waits for the thread, and asks whenever it has a question, until it has ended or its question is left open. Others may answer
    /// as well: then whoever is asked is not waited for any more, what they say is dropped, and it goes on. What does not fit the
    /// question is asked for again, and so is an answer to a question whose ground has moved, where its route wants that; but the
    /// same answer that did not fit is not heard twice.
    ///
    /// ```no_run
    /// # async fn example(agora: agora_engine::Agora) -> Result<(), Box<dyn std::error::Error>> {
    /// use agora_engine::{Answerer, Dispatch};
    ///
    /// let me = Answerer::new("user:ann", "example");
    /// let thread = agora.dispatch(Dispatch::to("planner")).await?;
    /// let done = thread.drive(&me, |asked| async move { format!("whatever fits {}", asked.question) }).await?;
    /// println!("{}", done.output.text);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drive<Ask, Asking>(self, by: &Answerer, mut ask: Ask) -> Result<DispatchResult, Error>
    where
        Ask: FnMut(NeedsInput) -> Asking,
        Asking: Future<Output: Into<Reaction>>,
    {
        let mut thread = self;
        let mut unfit: Option<Given> = None;
        loop {
            let result = thread.wait().await?;
            let Some(asked) = result.needs_input.clone() else { return Ok(result) };
            let question = asked.question_id.clone();
            // Whoever is asked sees it.
            let despite = match stale::hash(&asked.stale) {
                Ok(seen) if !asked.stale.is_empty() => Despite::Seen(seen),
                Ok(_) | Err(_) => Despite::Nothing,
            };
            let reaction: Option<Reaction> = tokio::select! {
                biased;
                closed = thread.closed(&question) => closed.map(|_| None)?,
                reaction = async { ask(asked).await.into() } => Some(reaction),
            };
            let reacted = match &reaction {
                // A command of its route, or somebody else, was faster.
                None => Ok(None),
                Some(Reaction::Leave) => return Ok(result),
                Some(Reaction::Decline) => thread.decline(&question, by).await.map(|()| None),
                Some(Reaction::Answer(given)) => {
                    thread.answer_despite(despite, &question, given, by).await.map(|(next, _)| Some(next))
                }
            };
            thread = match reacted {
                Ok(Some(next)) => next,
                Ok(None) => thread.latest().await?,
                Err(Error::Answer(
                    Refusal::AnsweredBefore { .. } | Refusal::Closed { .. } | Refusal::Stale { .. },
                )) => thread.latest().await?,
                Err(Error::Answer(Refusal::Changed { .. })) => continue,
                Err(error @ Error::Answer(Refusal::Unfit { .. })) => match reaction {
                    Some(Reaction::Answer(given)) if unfit.as_ref() != Some(&given) => {
                        unfit = Some(given);
                        continue;
                    }
                    _ => return Err(error),
                },
                Err(error) => return Err(error),
            };
            unfit = None;
            if asked_by(&question).as_ref() == Some(thread.dispatch_id()) {
                // Nothing follows: it was declined, cancelled or has expired, or the answer was to stop.
                return thread.describe().await;
            }
        }
    }

    /// Returns when a question is not open any more, with what an answer to it would hear. What is due about it until then is done
    /// here: nobody else may look at the clock.
    pub async fn closed(&self, question: &QuestionId) -> Result<Refusal, Error> {
        let world = self.engine.world();
        let mut watch = world.ledger.watch().map_err(failed)?;
        loop {
            self.engine.turn(self.id()).await.map_err(Error::Carry)?;
            let view = self.view().await?;
            match self.engine.open_question(&view, question).await {
                Ok(_) | Err(Error::Answer(Refusal::NotOpen(_))) => {}
                Err(Error::Answer(closed)) => return Ok(closed),
                Err(error) => return Err(error),
            }
            let due = async {
                match view.thread.question_due_at() {
                    Some(moment) => world.alarm.at(moment).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                heard = watch.next() => heard.map_err(failed)?,
                () = due => {}
            }
        }
    }
}

fn failed(error: LedgerError) -> Error {
    Error::Carry(CarryError::Ledger(error))
}
