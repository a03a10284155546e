//! The Anthropic Messages wire.

use serde_json::{Value, json};

use super::request::Request;
use super::script::{Block, Refusal, Reply};

/// Returns the reply as the events of a stream.
pub(super) fn events(reply: &Reply, request: &Request, number: u64) -> Vec<Value> {
    let mut message = message(reply, request, number);
    let stop_reason = message["stop_reason"].take();
    let Value::Array(blocks) = message["content"].take() else { return Vec::new() };
    message["content"] = json!([]);
    message["usage"]["output_tokens"] = json!(1);

    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, block) in blocks.into_iter().enumerate() {
        let (opening, delta) = taken_apart(block);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": opening}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason, "stop_sequence": null},
        "usage": {"output_tokens": reply.usage.output},
    }));
    events.push(json!({"type": "message_stop"}));
    events
}

/// Splits a whole block into the one that a stream opens with and the one delta that fills it.
fn taken_apart(block: Value) -> (Value, Value) {
    let mut opening = block;
    if opening["type"] == "text" {
        let text = std::mem::replace(&mut opening["text"], json!(""));
        (opening, json!({"type": "text_delta", "text": text}))
    } else {
        let input = std::mem::replace(&mut opening["input"], json!({}));
        (opening, json!({"type": "input_json_delta", "partial_json": input.to_string()}))
    }
}

/// Returns the reply as one message, for a client that does not stream.
pub(super) fn message(reply: &Reply, request: &Request, number: u64) -> Value {
    let blocks = (0..).zip(&reply.blocks);
    let calls = reply.blocks.iter().any(|block| !matches!(block, Block::Text(_)));
    json!({
        "id": format!("msg_{number:08}"),
        "type": "message",
        "role": "assistant",
        "model": request.body["model"],
        "content": blocks.map(|(index, block)| content(block, number, index)).collect::<Vec<_>>(),
        "stop_reason": if calls { "tool_use" } else { "end_turn" },
        "stop_sequence": null,
        "usage": {
            "input_tokens": reply.usage.input,
            "output_tokens": reply.usage.output,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    })
}

fn content(block: &Block, number: u64, index: u64) -> Value {
    let call = |name: &str, input: Value| json!({"type": "tool_use", "id": format!("toolu_{number:08}_{index}"), "name": name, "input": input});
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Tool { name, input } => call(name, input.clone()),
        Block::Shell(command) => call("Bash", json!({"command": command, "description": "Runs a command"})),
        Block::WriteFile { path, content } => call("Write", json!({"file_path": path, "content": content})),
    }
}

pub(super) fn error(refusal: &Refusal, number: u64) -> Value {
    json!({
        "type": "error",
        "error": {"type": refusal.kind, "message": refusal.message},
        "request_id": format!("req_{number:08}"),
    })
}
