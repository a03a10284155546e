//! The OpenAI Responses wire.

use serde_json::{Value, json};

use super::request::{Request, list};
use super::script::{Block, Refusal, Reply};

/// How long codex waits for a command before it tells the model that it still runs. This is its upper limit: a
/// script has no turn for "still running".
const YIELD_MILLIS: u32 = 30_000;

/// Returns the reply as the events of a stream.
pub(super) fn events(reply: &Reply, request: &Request, number: u64) -> Vec<Value> {
    let whole = response(reply, request, number);
    let mut open = whole.clone();
    open["status"] = json!("in_progress");
    open["output"] = json!([]);
    open["usage"] = Value::Null;

    let mut events = vec![json!({"type": "response.created", "response": open})];
    for (index, item) in list(&whole["output"]).iter().enumerate() {
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": opening(item)}),
        );
        events.extend(text_delta(item, index));
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole}));
    for (sequence, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(sequence);
    }
    events
}

/// Returns an item as it is before anything of it has come.
fn opening(item: &Value) -> Value {
    let mut opening = item.clone();
    opening["status"] = json!("in_progress");
    for (field, empty) in [("content", json!([])), ("arguments", json!("")), ("input", json!(""))] {
        if let Some(value) = opening.get_mut(field) {
            *value = empty;
        }
    }
    opening
}

fn text_delta(item: &Value, index: usize) -> Option<Value> {
    let text = item["content"][0]["text"].as_str()?;
    Some(json!({
        "type": "response.output_text.delta",
        "item_id": item["id"],
        "output_index": index,
        "content_index": 0,
        "delta": text,
    }))
}

/// Returns the reply as one response, for a client that does not stream.
pub(super) fn response(reply: &Reply, request: &Request, number: u64) -> Value {
    let blocks = (0..).zip(&reply.blocks);
    let output: Vec<_> = blocks.map(|(index, block)| item(block, request, number, index)).collect();
    json!({
        "id": format!("resp_{number:08}"),
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": request.body["model"],
        "output": output,
        "error": null,
        "incomplete_details": null,
        "usage": {
            "input_tokens": reply.usage.input,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": reply.usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.usage.input + reply.usage.output,
        },
    })
}

fn item(block: &Block, request: &Request, number: u64, index: u64) -> Value {
    let (id, call_id) = (format!("item_{number:08}_{index}"), format!("call_{number:08}_{index}"));
    match block {
        Block::Text(text) => json!({
            "type": "message",
            "id": id,
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Block::Tool { name, input } => call(name, input, request, &id, &call_id),
        Block::Shell(command) => shell(command, request, &id, &call_id),
        Block::WriteFile { path, content } => shell(&write_command(path, content), request, &id, &call_id),
    }
}

/// Returns a call in the form of the offered tool: a function, a function in a namespace, or free text.
fn call(name: &str, input: &Value, request: &Request, id: &str, call_id: &str) -> Value {
    let offered = list(&request.body["tools"]);
    let free_text = offered.iter().any(|tool| tool["type"] == "custom" && tool["name"] == name);
    if let (true, Some(text)) = (free_text, input.as_str()) {
        return json!({"type": "custom_tool_call", "id": id, "call_id": call_id, "name": name, "input": text});
    }
    let mut call = json!({
        "type": "function_call",
        "id": id,
        "call_id": call_id,
        "name": name,
        "arguments": input.to_string(),
        "status": "completed",
    });
    if let Some((namespace, inner)) = name.split_once('.')
        && offered.iter().any(|tool| tool["type"] == "namespace" && tool["name"] == namespace)
    {
        call["namespace"] = json!(namespace);
        call["name"] = json!(inner);
    }
    call
}

/// Runs a command with the one of codex's shell tools that this request offers. Which one that is depends on the
/// model's name and on the features that are on.
fn shell(command: &str, request: &Request, id: &str, call_id: &str) -> Value {
    let tools = request.tools();
    let offers = |name: &str| tools.iter().any(|tool| tool == name);
    let (name, input) = if offers("shell_command") {
        ("shell_command", json!({"command": command}))
    } else if offers("shell") {
        ("shell", json!({"command": ["bash", "-c", command]}))
    } else {
        ("exec_command", json!({"cmd": command, "yield_time_ms": YIELD_MILLIS}))
    };
    call(name, &input, request, id, call_id)
}

/// Returns a command that writes a file, whatever its content.
fn write_command(path: &str, content: &str) -> String {
    let path = quoted(path);
    let mut end = String::from("END_OF_FILE");
    while content.lines().any(|line| line == end) {
        end.push('_');
    }
    let newline = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
    format!("mkdir -p -- \"$(dirname -- {path})\" && cat > {path} <<'{end}'\n{content}{newline}{end}\n")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub(super) fn error(refusal: &Refusal) -> Value {
    json!({"error": {"type": refusal.kind, "message": refusal.message, "code": refusal.kind, "param": null}})
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_shell_writes_what_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        for content in ["", "one\n", "no newline", "$HOME `id` \\ ' \"\n", "END_OF_FILE\nEND_OF_FILE_\n"] {
            let path = dir.path().join("a 'b' $c/-d");
            let command = write_command(path.to_str().unwrap(), content);
            assert!(Command::new("/bin/sh").args(["-c", &command]).status().unwrap().success());
            let written = fs::read_to_string(&path).unwrap();
            assert_eq!(written.trim_end_matches('\n'), content.trim_end_matches('\n'));
            assert!(written.is_empty() || written.ends_with('\n'));
        }
    }
}
