//! What Claude Code is doing, from its stream.

use serde_json::Value;

use crate::progress::Progress;

/// The fields of a tool's input that say best what it is used for, the best first.
const TELLING: [&str; 8] =
    ["command", "file_path", "notebook_path", "pattern", "path", "url", "query", "description"];

/// What it does, and what it has used so far.
#[derive(Debug, Default)]
pub(super) struct Doing {
    action: Option<String>,
    turns: u64,
    /// The message that is being written. It comes in several lines, each with what it has used so far.
    message: Option<String>,
    tokens_before: u64,
    tokens: u64,
}

impl Doing {
    /// Hears a line of a message.
    pub(super) fn hear(&mut self, message: &Value) {
        let id = message["id"].as_str();
        if id.is_none() || id != self.message.as_deref() {
            self.message = id.map(str::to_owned);
            self.turns += 1;
            self.tokens_before = self.tokens_before.saturating_add(std::mem::take(&mut self.tokens));
        }
        let number = |key: &str| message["usage"][key].as_u64().unwrap_or(0);
        let used =
            ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"];
        self.tokens = used.map(number).iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
        for block in message["content"].as_array().into_iter().flatten() {
            if let Some(action) = action(block) {
                self.action = Some(action);
            }
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            action: self.action.clone(),
            turns: Some(self.turns),
            tokens: Some(self.tokens_before.saturating_add(self.tokens)),
            cost_usd: None,
        }
    }
}

fn action(block: &Value) -> Option<String> {
    match block["type"].as_str()? {
        "text" => block["text"].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned),
        "tool_use" => {
            let name = block["name"].as_str()?;
            let telling = TELLING.iter().find_map(|field| block["input"][*field].as_str());
            Some(telling.map_or_else(|| name.to_owned(), |telling| format!("{name}: {telling}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_action_counts_and_a_message_in_pieces_is_one_turn() {
        let mut doing = Doing::default();
        let usage = json!({"input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 3});
        doing.hear(
            &json!({"id": "m1", "usage": usage, "content": [{"type": "text", "text": "Let me look."}]}),
        );
        let call =
            json!({"type": "tool_use", "name": "Bash", "input": {"command": "cargo test", "timeout": 1}});
        doing.hear(&json!({"id": "m1", "usage": usage, "content": [call]}));
        let progress = |action: &str, turns, tokens| Progress {
            action: Some(action.to_owned()),
            turns: Some(turns),
            tokens: Some(tokens),
            cost_usd: None,
        };
        assert_eq!(doing.progress(), progress("Bash: cargo test", 1, 123));
        doing.hear(&json!({"id": "m2", "usage": usage, "content": [{"type": "thinking", "thinking": "hm"}]}));
        assert_eq!(doing.progress(), progress("Bash: cargo test", 2, 246));
        let call = json!({"type": "tool_use", "name": "TodoWrite", "input": {"todos": []}});
        doing.hear(
            &json!({"id": "m2", "usage": {"input_tokens": u64::MAX, "output_tokens": 1}, "content": [call]}),
        );
        assert_eq!(doing.progress(), progress("TodoWrite", 2, u64::MAX));
        doing.hear(&json!("no message"));
    }
}
