//! `agora_answer`: a model passes on its user's words, as far as the user lets it. And `agora_dispatch_cancel`.

use agora_core::QuestionId;
use agora_core::state::ThreadState;
use agora_engine::{Answerer, Despite, Error, Given, NotEntitled, Refusal, Thread};

use super::Trouble;
use super::arguments::{AnswerArguments, IdArguments};
use super::asked::Way;
use super::client::Client;
use super::desk::{Desk, Opened};
use super::heard::News;
use super::reply::{AnsweredReply, CancelledReply};
use super::secrets::{LINE, credential_in};
use super::standing::{Standing, state_word};
use crate::answer_line::quoted;

impl Desk {
    pub(crate) async fn answer(
        &self,
        client: &Client,
        arguments: AnswerArguments,
    ) -> Result<AnsweredReply, Trouble> {
        let opened = self.opened().await?;
        let (thread, question) = self.question(opened, client, &arguments.question_id).await?;
        let given = match (arguments.answer, arguments.answers) {
            (Some(text), None) => Given::Text(text),
            (None, Some(values)) => Given::ByItem(values),
            _ => return Err(Trouble::new("bad-arguments", "give `answer` or `answers`, and one of them")),
        };
        self.refuse_secrets(client, &thread, &question, &given).await?;
        // A model has no words of its own here: it passes on what its user said, and that is recorded.
        let by = client.relays(self.around.person());
        let asker = opened.agora.asker(&question).await.map_err(|error| self.explain(error))?;
        let answered = asker.answer_despite(Despite::Nothing, &question, &given, &by).await;
        self.leave_what_follows(&asker).await?;
        let (thread, answered) = match answered {
            Ok(answered) => answered,
            Err(error) => return Err(self.answer_refused(&question, &given, error)),
        };
        self.leave_to_a_carrier(&thread).await?;
        Ok(AnsweredReply {
            question_id: answered.question_id.to_string(),
            thread_id: answered.thread_id.to_string(),
            dispatch_id: answered.dispatch_id.to_string(),
            recorded_as: recorded_as(&answered.receipt.statement.by),
            next: "The agent goes on where it stopped. Call agora_wait.".to_owned(),
        })
    }

    /// Says why an answer did not count, with the line that the user can type where only a person may.
    fn answer_refused(&self, question: &QuestionId, given: &Given, error: Error) -> Trouble {
        let Error::Answer(Refusal::NotEntitled { why, .. }) = &error else { return self.explain(error) };
        let words = why.to_string();
        let why = match why {
            NotEntitled::HumansOnly => "only a person may answer it, by a door of their own",
            NotEntitled::AgentsRefused => {
                "your user lets no agent answer, not even by passing words on (`answers.agents`)"
            }
            NotEntitled::NotNamed => "your user is not among those who may answer it",
            NotEntitled::Asker | NotEntitled::RelayOnly => words.as_str(),
            NotEntitled::Nobody => return self.explain(error),
        };
        let line = match given {
            Given::Text(text) => format!("agora answer {question} {}", quoted(text)),
            Given::ByItem(values) => {
                format!(
                    "agora answer {question} --answers {}",
                    quoted(&serde_json::Value::Object(values.clone()).to_string())
                )
            }
        };
        Trouble::new("not-entitled", format!("you may not pass on an answer to `{question}`: {why}"))
            .for_user(line)
            .hint("show your user the question and the line; when it is answered, call agora_wait")
    }

    /// A secret goes neither through a form nor through a model, whether it is asked for or only given.
    async fn refuse_secrets(
        &self,
        client: &Client,
        thread: &Thread,
        question: &QuestionId,
        given: &Given,
    ) -> Result<(), Trouble> {
        let open = self.open_now(client, thread).await?.filter(|open| open.id == *question);
        let words = match (credential_in(given), open) {
            (Some(pattern), _) => {
                format!("the answer looks like a secret ({pattern}), which must not go through a model")
            }
            (None, Some(open)) if open.way == Way::NotAtAll => {
                "the question asks for a secret, which must not go through a model".to_owned()
            }
            (None, _) => return Ok(()),
        };
        Err(Trouble::new("not-entitled", words)
            .hint("a secret reaches an agent by an env bundle, which your user registers; cancel this thread and dispatch it again with that bundle in `env`")
            .for_user(LINE))
    }

    /// Finds a question by its id, the beginning of one, or whatever names its thread.
    async fn question(
        &self,
        opened: &Opened,
        client: &Client,
        text: &str,
    ) -> Result<(Thread, QuestionId), Trouble> {
        let thread = self.thread(opened, client, text).await?;
        let view = thread.view().await.map_err(|error| self.explain(error))?;
        let mut asked = view.thread.questions().iter().rev().map(|asked| &asked.id);
        // Also one that is closed: who answers it is told that, and not something else answered.
        if let Some(named) = asked.find(|id| id.as_str().starts_with(text)) {
            return Ok((thread, named.clone()));
        }
        let open = self.open_now(client, &thread).await?.filter(|_| !text.starts_with("q_"));
        open.map(|open| (thread, open.id)).ok_or_else(|| {
            Trouble::new("nothing-asked", format!("`{text}` has no open question"))
                .hint("agora_questions_list shows what is open")
        })
    }

    pub(crate) async fn cancel(
        &self,
        client: &Client,
        arguments: IdArguments,
    ) -> Result<CancelledReply, Trouble> {
        let opened = self.opened().await?;
        let thread = self.thread(opened, client, &arguments.id).await?;
        let by = client.relays(self.around.person());
        let view = thread.cancel_by(&by).await.map_err(|error| self.explain(error))?;
        let state = state_word(view.thread.state(), "running");
        if matches!(self.look(client, &thread).await?, Standing::Rests) {
            self.heard.add(&client.owner, News::Ended(thread.dispatch_id().clone()));
        }
        Ok(CancelledReply {
            thread_id: thread.id().to_string(),
            dispatch_id: thread.dispatch_id().to_string(),
            state: state.to_owned(),
            cancelled: *view.thread.state() == ThreadState::Cancelled,
        })
    }
}

fn recorded_as(by: &Answerer) -> String {
    let relayed = by.relayed_by.as_ref().map(|agent| format!(", passed on by {agent}"));
    format!("{} through {}{}", by.principal, by.door, relayed.unwrap_or_default())
}
