//! An open question brought to a person through the client, and what they decided brought to the ledger.

use std::collections::BTreeMap;

use agora_core::question::Question;
use agora_core::{ContentHash, QuestionId, ThreadId};
use agora_engine::{Despite, Error, Refusal, Thread};
use rmcp::model::{ElicitRequest, ElicitRequestParams, InputRequest, InputRequiredResult, InputResponses};

use super::Trouble;
use super::asked::{AskedReply, Way};
use super::client::{Asking, Client};
use super::desk::{Desk, Opened};
use super::form::{Filled, filled_json, form};
use super::secrets::{LINE, credential_in};

/// A question that is open now.
#[derive(Clone, Debug)]
pub(crate) struct OpenNow {
    pub(crate) id: QuestionId,
    pub(crate) hash: ContentHash,
    pub(crate) thread: ThreadId,
    pub(crate) subagent: String,
    pub(crate) question: Question,
    pub(crate) way: Way,
}

impl OpenNow {
    /// Returns it as a model reads it.
    pub(crate) fn reply(&self) -> AskedReply {
        AskedReply::new(&self.id, &self.thread, &self.subagent, &self.question, self.way)
    }
}

/// What came of an answer.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The thread goes on, or has ended by the decline.
    Moved,
    /// It stays open.
    Left,
    /// It is not open any more: somebody else was first.
    Closed,
    /// It does not fit; these are the words for it.
    Unfit(String),
}

impl OpenNow {
    /// Returns how it is asked through a client. A secret goes through no form, and what has too many options goes into none.
    pub(crate) fn asking(&self, client: &Client) -> Asking {
        let has_form = self.way != Way::NotAtAll && self.form(client, None).is_some();
        if has_form { client.asking } else { Asking::Plain }
    }

    fn form(&self, client: &Client, problem: Option<&str>) -> Option<ElicitRequestParams> {
        form(&self.id, &self.subagent, &self.question, client.chooses_several, problem)
    }
}

impl Desk {
    /// Makes the end of a call that is to come back with an answer.
    pub(crate) fn input_required(
        &self,
        opened: &Opened,
        client: &Client,
        open: &OpenNow,
        problem: Option<&str>,
    ) -> Result<InputRequiredResult, Trouble> {
        let requests = BTreeMap::from([(open.id.to_string(), self.input_request(client, open, problem)?)]);
        let nonce = opened.random::<16>();
        let state = opened.states()?.seal(&open.id, open.hash, client.owner.as_str(), nonce, opened.now());
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }

    pub(crate) fn input_request(
        &self,
        client: &Client,
        open: &OpenNow,
        problem: Option<&str>,
    ) -> Result<InputRequest, Trouble> {
        self.form(client, open, problem).map(|form| InputRequest::Elicitation(ElicitRequest::new(form)))
    }

    pub(crate) fn form(
        &self,
        client: &Client,
        open: &OpenNow,
        problem: Option<&str>,
    ) -> Result<ElicitRequestParams, Trouble> {
        let form = open.form(client, problem);
        form.ok_or_else(|| Trouble::new("bug", "the question is no form, and was to be asked by one"))
    }

    /// Does what a person decided: their answer counts as theirs, through this client.
    pub(crate) async fn decided(
        &self,
        opened: &Opened,
        client: &Client,
        question: &QuestionId,
        filled: Filled,
    ) -> Result<Outcome, Trouble> {
        if let Filled::Answer(given) = &filled
            && let Some(pattern) = credential_in(given)
        {
            // It has gone through the client; at least it does not stand in the ledger.
            return Ok(Outcome::Unfit(format!("it looks like a secret ({pattern}), which `{LINE}` stores")));
        }
        let by = client.answers(self.around.person());
        let asker = opened.agora.asker(question).await.map_err(|error| self.explain(error))?;
        let answered = match filled {
            Filled::Dismissed => return Ok(Outcome::Left),
            Filled::Nonsense => return Ok(Outcome::Unfit("nothing was filled in".to_owned())),
            Filled::Declined => asker.decline(question, &by).await.map(|()| None),
            Filled::Answer(given) => {
                let answered = asker.answer_despite(Despite::Nothing, question, &given, &by).await;
                answered.map(|(thread, _)| Some(thread))
            }
        };
        self.leave_what_follows(&asker).await?;
        match answered {
            Ok(None) => Ok(Outcome::Moved),
            Ok(Some(thread)) => self.leave_to_a_carrier(&thread).await.map(|()| Outcome::Moved),
            Err(Error::Answer(Refusal::Unfit { why, .. })) => Ok(Outcome::Unfit(why.to_string())),
            Err(Error::Answer(
                Refusal::AnsweredBefore { .. } | Refusal::Closed { .. } | Refusal::NotOpen(_),
            )) => Ok(Outcome::Closed),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// As [`Desk::leave_to_a_carrier`], for what a thread goes on with although an answer did not count.
    pub(crate) async fn leave_what_follows(&self, asker: &Thread) -> Result<(), Trouble> {
        if asker.let_go().await { self.around.carry(std::slice::from_ref(asker.id())) } else { Ok(()) }
    }

    /// Lets a thread that goes on be carried by a process of its own: this one lives only as long as its client.
    pub(crate) async fn leave_to_a_carrier(&self, thread: &Thread) -> Result<(), Trouble> {
        let mut events = thread.events(0).map_err(|error| self.explain(error))?;
        // It had room with the answer, or has to wait: a worker that is on its way is left when it is there.
        while thread.describe().await.map_err(|error| self.explain(error))?.state == "starting" {
            if events.next().await.map_err(|error| self.explain(error))?.is_none() {
                break;
            }
        }
        thread.let_go().await;
        self.around.carry(std::slice::from_ref(thread.id()))
    }
}

/// Returns what was filled in for a question, where a client brought it.
pub(crate) fn response(responses: Option<&InputResponses>, question: &QuestionId) -> Option<Filled> {
    responses?.get(question.as_str()).map(filled_json)
}
