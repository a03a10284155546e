//! What goes back to a model: small, typed, and never more than a model should read. The rest is a resource.

use agora_core::provider::ledger::OpenQuestion;
use agora_core::question::{Item, Question};
use agora_core::{QuestionId, ThreadId};
use agora_engine::DispatchResult;
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Trouble, secrets};
use crate::answer_line::{line, quoted};

/// What one answer to a model has at most, all of it together.
pub(crate) const MOST_BYTES: usize = 32 * 1024;

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
    pub(crate) question: Option<AskedReply>,
    /// What became of the threads that have ended, and where the others stand.
    pub(crate) threads: Vec<ThreadReply>,
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

/// A question that waits for a person.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskedReply {
    pub(crate) question_id: String,
    pub(crate) thread_id: String,
    pub(crate) subagent: String,
    /// The words of its first item.
    pub(crate) question: String,
    /// The labels of its first item's options.
    pub(crate) options: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// Every item with all that it says.
    pub(crate) questions: Vec<Value>,
    /// How it is answered.
    pub(crate) how_to_answer: String,
    /// The line that your user can run instead.
    pub(crate) for_your_user: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuestionsReply {
    pub(crate) questions: Vec<AskedReply>,
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
    pub(crate) entries: Vec<Entry>,
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
    pub(crate) subagents: Vec<SubagentEntry>,
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
    pub(crate) state: String,
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
}

impl AskedReply {
    pub(crate) fn new(id: &QuestionId, thread: &ThreadId, subagent: &str, question: &Question) -> Self {
        let items = question.items();
        let first = items.first();
        let (how_to_answer, for_your_user) = if secrets::wants_a_secret(question) {
            (secrets::HOW.to_owned(), secrets::LINE.to_owned())
        } else {
            (how_to_answer(id, items), line_for_user(id, items))
        };
        Self {
            question_id: id.to_string(),
            thread_id: thread.to_string(),
            subagent: subagent.to_owned(),
            question: first.map(|item| item.question().to_owned()).unwrap_or_default(),
            options: first.map(labels).unwrap_or_default(),
            context: question.context().map(str::to_owned),
            questions: items.iter().map(|item| json!(item)).collect(),
            how_to_answer,
            for_your_user,
        }
    }

    pub(crate) fn open(open: &OpenQuestion) -> Self {
        Self::new(&open.question_id, &open.thread_id, open.subagent.as_str(), &open.question)
    }
}

fn labels(item: &Item) -> Vec<String> {
    item.options().iter().map(|choice| choice.label.clone()).collect()
}

fn how_to_answer(id: &QuestionId, items: &[Item]) -> String {
    let ask =
        "Show it to your user with all its options, and wait for their words. Then call agora_answer with";
    match items {
        [_] => format!("{ask} {{\"questionId\": \"{id}\", \"answer\": \"…\"}}."),
        _ => {
            let answers: Vec<String> = items.iter().map(|item| format!("\"{}\": \"…\"", item.id())).collect();
            format!("{ask} {{\"questionId\": \"{id}\", \"answers\": {{{}}}}}.", answers.join(", "))
        }
    }
}

/// Returns what a person types to answer.
fn line_for_user(id: &QuestionId, items: &[Item]) -> String {
    match items {
        [item] => match item.options().first() {
            Some(choice) => format!("agora answer {id} {}", quoted(&choice.label)),
            None => format!("agora answer {id} 'YOUR ANSWER'"),
        },
        _ => line(id, items),
    }
}

impl ThreadReply {
    pub(crate) fn new(result: &DispatchResult) -> Self {
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
            state: result.state.to_owned(),
            text,
            structured: result.output.structured.clone(),
            change,
            failure: result.failure.as_ref().map(|failure| json!(failure)),
            cost_usd: result.usage.as_ref().and_then(|usage| usage.cost_usd),
            duration_ms: result.duration_ms,
            resource: super::resources::thread_uri(&result.thread_id),
        }
    }
}

/// Makes a tool's result, in bounds.
pub(crate) fn done(reply: &impl Serialize) -> CallToolResult {
    bounded(serde_json::to_value(reply).unwrap_or_default(), CallToolResult::structured)
}

/// Makes a tool's result that says why it did nothing. Without structured content: that would have to fit the tool's output schema.
pub(crate) fn refused(trouble: &Trouble) -> CallToolResult {
    let as_text = |value: Value| {
        CallToolResult::error(vec![rmcp::model::ContentBlock::text(json!({"error": value}).to_string())])
    };
    bounded(serde_json::to_value(trouble).unwrap_or_default(), as_text)
}

/// Shortens the longest texts, then the longest lists, until the whole fits.
fn bounded(value: Value, result: impl Fn(Value) -> CallToolResult) -> CallToolResult {
    let fits = |result: &CallToolResult| {
        serde_json::to_string(result).map_or(usize::MAX, |text| text.len()) <= MOST_BYTES
    };
    let whole = result(value.clone());
    if fits(&whole) {
        return whole;
    }
    let (mut longest, mut most) = (8 * 1024, usize::MAX);
    loop {
        let shorter = result(shortened(&value, longest, most));
        if fits(&shorter) || longest < 32 {
            return shorter;
        }
        longest /= 2;
        // Texts are shortened first: half a sentence says more than no entry.
        if longest < 512 {
            most = if most == usize::MAX { 64 } else { (most / 2).max(1) };
        }
    }
}

fn shortened(value: &Value, longest: usize, most: usize) -> Value {
    match value {
        Value::String(text) => Value::String(clipped(text, longest)),
        Value::Array(values) => {
            values.iter().take(most).map(|value| shortened(value, longest, most)).collect()
        }
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), shortened(value, longest, most))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Cuts a text, and says how much is missing and that it can be had.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}… [{} more bytes: read the resource]", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(result: &CallToolResult) -> usize {
        serde_json::to_string(result).unwrap().len()
    }

    #[test]
    fn whatever_an_agent_says_a_model_gets_at_most_so_much() {
        let words = "word \"quoted\" \u{1F600}\n".repeat(20_000);
        let one = done(&json!({"text": words, "threadId": "t_1"}));
        assert!(size(&one) <= MOST_BYTES);
        let kept = one.structured_content.unwrap();
        assert_eq!(kept["threadId"], "t_1");
        assert!(kept["text"].as_str().unwrap().contains("more bytes: read the resource"));
        let many: Vec<Value> =
            (0..5000).map(|at| json!({"threadId": format!("t_{at}"), "text": "x".repeat(300)})).collect();
        let many = done(&json!({"threads": many}));
        assert!(size(&many) <= MOST_BYTES);
        assert!(!many.structured_content.unwrap()["threads"].as_array().unwrap().is_empty());
    }

    #[test]
    fn what_is_small_stays_whole() {
        let value = json!({"text": "x".repeat(9000)});
        assert_eq!(done(&value).structured_content, Some(value));
    }
}
