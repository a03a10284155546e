//! A thread driven to its end by whoever holds it: any number of pauses, one function that is asked.

use agora_core::QuestionId;
use agora_core::answer::{Answerer, Given};
use agora_core::stale::{self, Despite};

use super::answer::Answered;
use crate::agora::Agora;
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
        self.asker(question).await?.answer_to(Despite::Nothing, question, given, by).await
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
        self.asker(question).await?.answer_to(despite, question, given, by).await
    }

    /// Declines a question: its thread has failed.
    pub async fn decline(&self, question: &QuestionId, by: &Answerer) -> Result<(), Error> {
        let asker = self.asker(question).await?;
        asker.engine.decline(asker.id(), question, by).await.map(drop)
    }
}

impl Thread {
    /// Answers the question that is open.
    pub async fn answer(&self, given: impl Into<Given>, by: &Answerer) -> Result<(Self, Answered), Error> {
        let question = self.open_question().await?;
        self.answer_to(Despite::Nothing, &question, &given.into(), by).await
    }

    async fn answer_to(
        &self,
        despite: Despite,
        question: &QuestionId,
        given: &Given,
        by: &Answerer,
    ) -> Result<(Self, Answered), Error> {
        let lease = self.try_lease().await?;
        let answered =
            self.engine.answer_despite(despite, self.id(), question, given, by, lease.as_deref()).await?;
        let dispatch_id = answered.dispatch_id.clone();
        let next = Self::new(self.agora.clone(), self.engine.clone(), self.id().clone(), dispatch_id);
        match lease {
            _ if !answered.goes_on => {}
            Some(lease) => next.carry_accepted(lease),
            None => next.carry().await?,
        }
        Ok((next, answered))
    }

    async fn open_question(&self) -> Result<QuestionId, Error> {
        let view = self.view().await?;
        let asked = view.thread.questions().last();
        asked.map(|asked| asked.id.clone()).ok_or_else(|| Error::NothingAsked(self.id().clone()))
    }

    /// Waits for the thread, and asks whenever it has a question, until it has ended or its question is left open.
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
        loop {
            let result = thread.wait().await?;
            let Some(asked) = result.needs_input.clone() else { return Ok(result) };
            let question = asked.question_id.clone();
            // Whoever is asked sees it.
            let despite = match stale::hash(&asked.stale) {
                Ok(seen) if !asked.stale.is_empty() => Despite::Seen(seen),
                Ok(_) | Err(_) => Despite::Nothing,
            };
            match ask(asked).await.into() {
                Reaction::Leave => return Ok(result),
                Reaction::Decline => {
                    thread.engine.decline(thread.id(), &question, by).await?;
                    return thread.describe().await;
                }
                Reaction::Answer(given) => {
                    let answered;
                    (thread, answered) = thread.answer_to(despite, &question, &given, by).await?;
                    if !answered.goes_on {
                        return thread.describe().await;
                    }
                }
            }
        }
    }
}
