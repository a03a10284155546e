//! What goes back to a model, by type. `bounds` keeps it as small as a model should read.

use agora_core::state::ThreadState;
use agora_engine::DispatchResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::asked::AskedReply;
use super::standing::state_word;

/// What `agora_dispatch` started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DispatchedReply {
    /// One for each input, in their order.
    pub(crate) dispatches: Vec<Started>,
    /// What to do next.
    pub(crate) next: String,
    /// What your user should know.
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    /// The piece of work. This id stays the same across questions.
    pub(crate) thread_id: String,
    /// This run of it.
    pub(crate) dispatch_id: String,
    /// `queued`, `starting` or `running`.
    pub(crate) state: String,
}

/// What `agora_wait` heard.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitedReply {
    pub(crate) status: WaitStatus,
    /// The question to show to your user, with status `needs_input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AskedReply>")]
    pub(crate) question: Option<Value>,
    /// What became of the threads that have ended, and where the others stand.
    #[schemars(with = "Vec<ThreadReply>")]
    pub(crate) threads: Vec<Value>,
    /// How many more threads there are that did not fit. The same call again tells of those first that you have not heard the end of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) omitted_threads: Option<usize>,
    /// What to do next.
    pub(crate) next: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WaitStatus {
    /// What was waited for has ended.
    Ended,
    /// An agent asks something.
    NeedsInput,
    /// Not yet: call it again.
    Running,
    /// There is nothing to wait for.
    Nothing,
}

/// Where a thread stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadReply {
    pub(crate) thread_id: String,
    /// Its last dispatch.
    pub(crate) dispatch_id: String,
    pub(crate) subagent: String,
    /// `queued`, `starting`, `running`, `finished`, `needs_input`, `failed` or `cancelled`.
    pub(crate) state: String,
    /// The agent's final words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The agent's final words as data, where its subagent has an output schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) structured: Option<Value>,
    /// What it changed, and the git ref that the work came home as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<ChangeReply>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
    pub(crate) duration_ms: u64,
    /// Where all of it can be read.
    pub(crate) resource: String,
    /// Where a list ends early, by its path: how many entries are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) omitted: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeReply {
    pub(crate) files: u64,
    pub(crate) insertions: u64,
    pub(crate) deletions: u64,
    /// Such as `refs/agora/t_…`, in the repository that the workspace was taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) git_ref: Option<String>,
    /// What your user runs to bring it home.
    pub(crate) apply: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuestionsReply {
    #[schemars(with = "Vec<AskedReply>")]
    pub(crate) questions: Vec<Value>,
    /// Give it as `after` for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_after: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnsweredReply {
    pub(crate) question_id: String,
    pub(crate) thread_id: String,
    /// The dispatch that goes on with the answer.
    pub(crate) dispatch_id: String,
    /// How it is recorded.
    pub(crate) recorded_as: String,
    pub(crate) next: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelledReply {
    pub(crate) thread_id: String,
    pub(crate) dispatch_id: String,
    /// `cancelled`, or how it had ended before.
    pub(crate) state: String,
    pub(crate) cancelled: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogueReply {
    #[schemars(with = "Vec<Entry>")]
    pub(crate) entries: Vec<Value>,
    /// Give it as `after` for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_after: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) content_hash: String,
    pub(crate) registered_at: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubagentsReply {
    #[schemars(with = "Vec<SubagentEntry>")]
    pub(crate) subagents: Vec<Value>,
    /// Give it as `after` for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_after: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubagentEntry {
    pub(crate) name: String,
    pub(crate) content_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// What runs it: `claude-code`, `codex`, `command`, or an external adapter.
    pub(crate) runtime: String,
    /// The JSON schema of its input.
    pub(crate) input_schema: Map<String, Value>,
}

/// What `agora_dispatch_describe` tells: the result of `agora show --json` without the streams. These are its main fields.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DescribedReply {
    pub(crate) dispatch_id: String,
    pub(crate) thread_id: String,
    /// Of this dispatch: one that asked stays `needs_input`, whatever became of its question.
    pub(crate) state: String,
    /// Of the whole thread.
    pub(crate) thread_state: String,
    /// Why the whole thread failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread_failure: Option<Map<String, Value>>,
    pub(crate) subagent: String,
    pub(crate) duration_ms: u64,
    /// `text` are the agent's final words.
    pub(crate) output: Map<String, Value>,
    /// The exact content of everything that ran.
    pub(crate) resolved: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) needs_input: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) patch: Option<Map<String, Value>>,
    /// Where the rest can be read.
    pub(crate) resource: String,
    /// Where a list ends early, by its path: how many entries are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) omitted: Option<Map<String, Value>>,
}

impl ThreadReply {
    /// Tells of a thread by what is known of its last dispatch. Where it stands is the thread's own: a question that was declined, or
    /// cancelled, ends the thread and not the dispatch that asked it.
    pub(crate) fn new(result: &DispatchResult, state: &ThreadState) -> Self {
        let failure = match state {
            ThreadState::Failed(failure) => Some(failure),
            _ => result.failure.as_ref(),
        };
        let text = Some(result.output.text.clone()).filter(|text| !text.is_empty());
        let change = result.patch.as_ref().filter(|patch| patch.files > 0).map(|patch| ChangeReply {
            files: patch.files,
            insertions: patch.insertions,
            deletions: patch.deletions,
            git_ref: patch.git_ref.clone(),
            apply: format!("agora apply {}", result.thread_id),
        });
        Self {
            thread_id: result.thread_id.to_string(),
            dispatch_id: result.dispatch_id.to_string(),
            subagent: result.subagent.to_string(),
            state: state_word(state, result.state).to_owned(),
            text,
            structured: result.output.structured.clone(),
            change,
            failure: failure.map(|failure| json!(failure)),
            cost_usd: result.usage.as_ref().and_then(|usage| usage.cost_usd),
            duration_ms: result.duration_ms,
            resource: super::resources::thread_uri(&result.thread_id),
            omitted: None,
        }
    }
}
