//! A thread as a task of the protocol's extension: one id across all pauses, which is the thread's own.

use agora_core::reason::{Failure, FailureCode, FailureReason};
use agora_core::state::ThreadState;
use agora_engine::Thread;
use rmcp::model::{
    DetailedTask, ErrorData, InputRequests, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde::Serialize;
use serde_json::Value;

use super::Trouble;
use super::asking::{Outcome, response};
use super::bounds::{clipped, done, named, page};
use super::client::{Asking, Client};
use super::desk::{Desk, Opened};
use super::heard::News;
use super::reply::{WaitStatus, WaitedReply};
use super::resources::internal;

/// What a client is asked to wait between two looks.
const POLL_MS: u64 = 500;
/// What is said at most of what was filled in and does not fit.
const WORDS_BYTES: usize = 1024;

impl Desk {
    /// Finds the thread that a task is. A task is its client's alone: the thread can be waited for by others, and they are asked by
    /// their own calls.
    pub(crate) async fn task_thread(
        &self,
        client: &Client,
        id: &str,
    ) -> Result<(&Opened, Thread), ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("there is no task `{}`", named(id)), None);
        let thread = id.parse().map_err(|_| unknown())?;
        let opened = self.opened().await.map_err(internal)?;
        let thread = opened.agora.thread(&thread).await.map_err(|_| unknown())?;
        let is_own = self.owns(opened, client, thread.id()).await.map_err(internal)?;
        if is_own { Ok((opened, thread)) } else { Err(unknown()) }
    }

    /// Tells where a task stands.
    pub(crate) async fn task(&self, client: &Client, thread: &Thread) -> Result<DetailedTask, Trouble> {
        let view = thread.view().await.map_err(|error| self.explain(error))?;
        let task = Task::new(
            view.thread_id.as_str(),
            TaskStatus::Working,
            view.began_at.to_string(),
            view.moved_at.to_string(),
        )
        .with_poll_interval_ms(POLL_MS);
        let payload = match view.thread.state() {
            ThreadState::Running | ThreadState::Resuming => TaskPayload::Working,
            ThreadState::Cancelled => TaskPayload::Cancelled,
            ThreadState::Finished => {
                TaskPayload::Completed { result: self.ended(client, thread, false).await? }
            }
            // What the agent came to, or a person decided, is a result; that it could not run at all is not.
            ThreadState::Failed(failure) if is_a_result(failure) => {
                TaskPayload::Completed { result: self.ended(client, thread, true).await? }
            }
            ThreadState::Failed(failure) => {
                let error =
                    ErrorData::internal_error(failure.detail.clone(), serde_json::to_value(failure).ok());
                TaskPayload::Failed { error: object(&error) }
            }
            ThreadState::Waiting => match self.open_now(client, thread).await? {
                None => TaskPayload::Working,
                // Who cannot be asked would wait for ever: the call has its end, and says what is asked.
                Some(open) if open.asking(client) == Asking::Plain => {
                    let reply = self.needs_input(thread, &open.reply()).await?;
                    TaskPayload::Completed { result: object(&done(&reply)) }
                }
                Some(open) => {
                    let request = self.input_request(client, &open, None)?;
                    TaskPayload::InputRequired {
                        input_requests: InputRequests::from([(open.id.to_string(), request)]),
                    }
                }
            },
        };
        Ok(DetailedTask::new(task, payload))
    }

    /// Returns what `agora_wait` would have returned.
    async fn ended(&self, client: &Client, thread: &Thread, is_error: bool) -> Result<JsonObject, Trouble> {
        let reply = WaitedReply {
            status: WaitStatus::Ended,
            question: None,
            threads: page(&[self.thread_reply(thread).await?]).0,
            omitted_threads: None,
            next: "Tell your user what came of it, with the git ref.".to_owned(),
        };
        self.heard.add(&client.owner, News::Ended(thread.dispatch_id().clone()));
        let mut result = done(&reply);
        result.is_error = Some(is_error);
        Ok(object(&result))
    }

    /// Takes in what a person decided about the question of a task. What is not about it is left aside.
    pub(crate) async fn update_task(
        &self,
        client: &Client,
        id: &str,
        responses: &InputResponses,
    ) -> Result<(), ErrorData> {
        let (opened, thread) = self.task_thread(client, id).await?;
        let Some(open) = self.open_now(client, &thread).await.map_err(internal)? else { return Ok(()) };
        let Some(filled) = response(Some(responses), &open.id) else { return Ok(()) };
        if open.asking(client) == Asking::Plain {
            return Err(ErrorData::invalid_params("the question is not asked through this client", None));
        }
        match self.decided(opened, client, &open.id, filled).await.map_err(internal)? {
            Outcome::Moved | Outcome::Closed | Outcome::Left => Ok(()),
            Outcome::Unfit(words) => {
                let words = clipped(&words, WORDS_BYTES, None);
                Err(ErrorData::invalid_params(format!("that was not taken: {words}"), None))
            }
        }
    }

    pub(crate) async fn cancel_task(&self, client: &Client, id: &str) -> Result<(), ErrorData> {
        let (_, thread) = self.task_thread(client, id).await?;
        let by = client.relays(self.around.person());
        thread.cancel_by(&by).await.map(drop).map_err(|error| internal(self.explain(error)))
    }
}

/// Tells whether a thread that failed has something to tell, beside that it could not run.
fn is_a_result(failure: &Failure) -> bool {
    let by_a_person = [FailureCode::QuestionDeclined, FailureCode::QuestionExpired];
    failure.reason == FailureReason::ProviderFailed || by_a_person.contains(&failure.code)
}

fn object(result: &impl Serialize) -> JsonObject {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}
