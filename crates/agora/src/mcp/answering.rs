//! `agora_answer`: a model passes on its user's words, as far as the user lets it. And `agora_dispatch_cancel`.

use agora_core::QuestionId;
use agora_core::state::ThreadState;
use agora_engine::{Answerer, Error, Given, Refusal};

use super::Trouble;
use super::arguments::{AnswerArguments, IdArguments};
use super::asked::{Way, line_for_user, quoted};
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
        let is_for_people = matches!(&error, Error::Answer(Refusal::NotEntitled { .. }));
        let trouble = self.explain(error);
        if !is_for_people {
            return trouble;
        }
        let line = match given {
            Given::Text(text) => format!("agora answer {question} {}", quoted(text)),
            Given::ByItem(values) => {
                format!(
                    "agora answer {question} --answers {}",
                    quoted(&serde_json::Value::Object(values.clone()).to_string())
                )
            }
        };
        trouble
            .for_user(line)
            .hint("show your user the question and the line; when they have answered, call agora_wait")
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
            .hint("a secret reaches an agent by an env bundle: `agora env register --name NAME --secret KEY=prompt`")
            .for_user(line_for_user(question, open.question.items())))
    }

    async fn question(&self, opened: &Opened, text: &str) -> Result<QuestionId, Trouble> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let thread = self.thread(opened, text).await?;
        let open = self.open_now(&thread).await?;
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
