//! What an agent did, as its runtime's stream tells it: the calls of tools before a pause and after it.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

/// How many calls of tools there were, and how many of the later ones are the same as an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Calls {
    pub before: usize,
    pub after: usize,
    pub repeated: usize,
}

impl Calls {
    /// Compares two streams. `None`: this runtime's stream does not tell.
    pub(super) fn compare(runtime: &str, before: &[u8], after: &[u8]) -> Option<Self> {
        let read: fn(&Value) -> Vec<String> = match runtime {
            "claude-code" => claude,
            "codex" => codex,
            _ => return None,
        };
        let (before, after) = (calls(before, read), calls(after, read));
        let known: BTreeSet<&String> = before.iter().collect();
        let repeated = after.iter().filter(|call| known.contains(call)).count();
        Some(Self { before: before.len(), after: after.len(), repeated })
    }
}

fn calls(stream: &[u8], read: fn(&Value) -> Vec<String>) -> Vec<String> {
    let lines = stream.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).flat_map(|line: Value| read(&line)).collect()
}

/// Reads what Claude Code prints: messages of the assistant, with the tools that it uses.
fn claude(line: &Value) -> Vec<String> {
    if line["type"] != "assistant" {
        return Vec::new();
    }
    let blocks = line["message"]["content"].as_array().into_iter().flatten();
    let used = blocks.filter(|block| block["type"] == "tool_use");
    used.map(|block| format!("{} {}", block["name"], block["input"])).collect()
}

/// Reads what Codex prints: items that are complete, of the kinds that do something.
fn codex(line: &Value) -> Vec<String> {
    let item = &line["item"];
    match (line["type"].as_str(), item["type"].as_str()) {
        (Some("item.completed"), Some("command_execution")) => vec![item["command"].to_string()],
        (Some("item.completed"), Some("file_change")) => vec![item["changes"].to_string()],
        (Some("item.completed"), Some("mcp_tool_call")) => {
            vec![format!("{} {} {}", item["server"], item["tool"], item["arguments"])]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tool_with_the_same_words_is_a_repetition() {
        let used = |command: &str| {
            format!(
                r#"{{"type":"assistant","message":{{"content":[{{"type":"text"}},{{"type":"tool_use","name":"Bash","input":{{"command":"{command}"}}}}]}}}}"#
            )
        };
        let before = format!("noise\n{}\n{}\n", used("ls"), used("cat a"));
        let after = format!("{}\n{}", used("cat a"), used("cat b"));
        let compared = Calls::compare("claude-code", before.as_bytes(), after.as_bytes());
        assert_eq!(compared, Some(Calls { before: 2, after: 2, repeated: 1 }));
        let ran = |command: &str| {
            format!(
                r#"{{"type":"item.completed","item":{{"type":"command_execution","command":"{command}"}}}}"#
            )
        };
        let compared = Calls::compare("codex", ran("ls").as_bytes(), ran("make").as_bytes());
        assert_eq!(compared, Some(Calls { before: 1, after: 1, repeated: 0 }));
        assert_eq!(Calls::compare("command", b"", b""), None);
    }
}
