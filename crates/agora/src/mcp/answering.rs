//! `agora_answer`: a model passes on its user's words, as far as the user lets it. And `agora_dispatch_cancel`.

use agora_core::QuestionId;
use agora_core::state::ThreadState;
use agora_engine::{Answerer, Error, Given, NotEntitled, Refusal};

use super::Trouble;
use super::arguments::{AnswerArguments, IdArguments};
use super::asked::{STORE_A_SECRET, Way, quoted};
use super::client::Client;
use super::desk::{Desk, Opened};
use super::heard::News;
use super::reply::{AnsweredReply, CancelledReply};
use super::standing::{Standing, state_word};

impl Desk {
    pub(crate) async fn answer(
        &self,
        client: &Client,
        arguments: AnswerArguments,
    ) -> Result<AnsweredReply, Trouble> {
        let opened = self.opened().await?;
        let question = self.question(opened, &arguments.question_id).await?;
        let given = match (arguments.answer, arguments.answers) {
            (Some(text), None) => Given::Text(text),
            (None, Some(values)) => Given::ByItem(values),
            _ => return Err(Trouble::new("bad-arguments", "give `answer` or `answers`, and one of them")),
        };
        self.refuse_secrets(opened, &question).await?;
        // A model has no words of its own here: it passes on what its user said, and that is recorded.
        let by = Answerer::new(self.around.person(), client.door()).relayed_by(client.agent());
        let answered = opened.agora.answer(&question, &given, &by).await;
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
        let why = match why {
            NotEntitled::HumansOnly => "only a person may answer it, by a door of their own",
            NotEntitled::AgentsRefused => {
                "your user lets no agent answer, not even by passing words on (`answers.agents`)"
            }
            NotEntitled::NotNamed => "your user is not among those who may answer it",
            NotEntitled::Asker | NotEntitled::RelayOnly | NotEntitled::Nobody => return self.explain(error),
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

    /// A secret goes neither through a form nor through a model.
    async fn refuse_secrets(&self, opened: &Opened, question: &QuestionId) -> Result<(), Trouble> {
        let thread = self.thread(opened, question.as_str()).await?;
        let Some(open) = self.open_now(&thread).await?.filter(|open| open.id == *question) else {
            return Ok(());
        };
        if open.way != Way::NotAtAll {
            return Ok(());
        }
        Err(Trouble::new("not-entitled", "the question asks for a secret, which must not go through a model")
            .hint("a secret reaches an agent by an env bundle, which your user registers; cancel this thread and dispatch it again with that bundle in `env`")
            .for_user(STORE_A_SECRET))
    }

    /// Finds a question by its id, the beginning of one, or whatever names its thread.
    async fn question(&self, opened: &Opened, text: &str) -> Result<QuestionId, Trouble> {
        let thread = self.thread(opened, text).await?;
        let view = thread.view().await.map_err(|error| self.explain(error))?;
        let mut asked = view.thread.questions().iter().rev().map(|asked| &asked.id);
        // Also one that is closed: who answers it is told that, and not something else answered.
        if let Some(named) = asked.find(|id| id.as_str().starts_with(text)) {
            return Ok(named.clone());
        }
        let open = self.open_now(&thread).await?.filter(|_| !text.starts_with("q_"));
        open.map(|open| open.id).ok_or_else(|| {
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
        let thread = self.thread(opened, &arguments.id).await?;
        let view = thread.cancel().await.map_err(|error| self.explain(error))?;
        let state = state_word(view.thread.state(), "running");
        if matches!(self.look(&thread).await?, Standing::Rests) {
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
