//! What a wait tells: a question with how to answer it, or where threads stand and what to do next.

use agora_engine::Thread;
use serde_json::json;

use super::Trouble;
use super::asked::{AskedReply, Way};
use super::asking::OpenNow;
use super::bounds::fitted;
use super::client::Client;
use super::desk::Desk;
use super::heard::News;
use super::reply::{ThreadReply, WaitStatus, WaitedReply};

/// What of an answer that asks is the question's.
const QUESTION_BYTES: usize = 20 * 1024;
/// And what is its thread's.
const THREAD_BYTES: usize = 8 * 1024;

impl Desk {
    /// Tells that a form came back without an answer, and that the question is still there.
    pub(crate) async fn left_open(
        &self,
        client: &Client,
        thread: &Thread,
        open: &OpenNow,
    ) -> Result<WaitedReply, Trouble> {
        let then = match open.way {
            Way::Relayed => "If your user tells you an answer, pass it on with agora_answer.",
            Way::InPerson | Way::NotAtAll => "Your user goes on with the line in `forYourUser`.",
        };
        let how_to_answer = format!(
            "The form was closed without an answer: the question stays open, and nothing runs. Do not ask again at once; do other work, or ask \
             your user how to go on. {then}"
        );
        let reply = self.needs_input(thread, &AskedReply { how_to_answer, ..open.reply() }).await?;
        self.heard.add(&client.owner, News::Asked(open.id.clone()));
        Ok(reply)
    }

    /// Tells a question to a model, which is to bring it to its user.
    pub(crate) async fn needs_input(
        &self,
        thread: &Thread,
        asked: &AskedReply,
    ) -> Result<WaitedReply, Trouble> {
        let standing = self.thread_reply(thread).await?;
        Ok(WaitedReply {
            status: WaitStatus::NeedsInput,
            question: Some(fitted(&json!(asked), QUESTION_BYTES)),
            threads: vec![fitted(&json!(standing), THREAD_BYTES)],
            omitted_threads: None,
            next: asked.how_to_answer.clone(),
        })
    }

    /// Tells where a thread stands, and what came of it.
    pub(crate) async fn thread_reply(&self, thread: &Thread) -> Result<ThreadReply, Trouble> {
        let result = thread.describe().await.map_err(|error| self.explain(error))?;
        let view = thread.view().await.map_err(|error| self.explain(error))?;
        Ok(ThreadReply::new(&result, view.thread.state()))
    }
}

/// Says what to do next, while others run or not. `untold` have ended, and did not fit.
pub(super) fn what_next(status: WaitStatus, others: bool, untold: usize) -> String {
    match status {
        WaitStatus::Ended if untold > 0 => {
            return format!("{untold} more have ended than fit here: make the same call again to hear of them.");
        }
        WaitStatus::Ended if others => "Some have ended. Call agora_wait again for the others.",
        WaitStatus::Ended => "All have ended. Tell your user what came of it, with the git refs.",
        WaitStatus::Running if untold > 0 => {
            "Not all have ended yet, and more have ended than fit here. Call agora_wait again."
        }
        WaitStatus::Running => "Not all have ended yet. Call agora_wait again.",
        WaitStatus::Nothing => {
            "You have no threads that you have not heard the end of. If you started some before this server was started, name them."
        }
        WaitStatus::NeedsInput => "",
    }
    .to_owned()
}
