//! What Codex is doing, from its stream.

use serde_json::Value;

/// Says what an item is, if it says something. Whole: it is hidden and cut by whoever shows it.
pub(super) fn action(item: &Value) -> Option<String> {
    let text = |key: &str| item[key].as_str().filter(|text| !text.trim().is_empty());
    let said = |what: &str, telling: Option<&str>| {
        telling.map_or_else(|| what.to_owned(), |telling| format!("{what}: {telling}"))
    };
    match item["type"].as_str()? {
        "agent_message" | "reasoning" => text("text").map(str::to_owned),
        "command_execution" => Some(said("shell", text("command"))),
        "file_change" => Some(said("edit", item["changes"][0]["path"].as_str())),
        "mcp_tool_call" => Some(said(text("server").unwrap_or("mcp"), text("tool"))),
        "web_search" => Some(said("search", text("query"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_says_what_is_done() {
        let cases = [
            (json!({"type": "command_execution", "command": "cargo test"}), Some("shell: cargo test")),
            (
                json!({"type": "file_change", "changes": [{"path": "a.rs", "kind": "add"}]}),
                Some("edit: a.rs"),
            ),
            (json!({"type": "mcp_tool_call", "server": "git", "tool": "log"}), Some("git: log")),
            (json!({"type": "agent_message", "text": "Done."}), Some("Done.")),
            (json!({"type": "web_search"}), Some("search")),
            (json!({"type": "todo_list"}), None),
            (json!(7), None),
        ];
        for (item, expected) in cases {
            assert_eq!(action(&item).as_deref(), expected, "{item}");
        }
    }
}
