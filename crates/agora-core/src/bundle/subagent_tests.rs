use serde_json::json;

use super::*;
use crate::bundle::{Bundle, Manifest};

fn subagent(value: Value) -> Result<Subagent, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn identity(value: Value) -> crate::ContentHash {
    Manifest::new(Bundle::Subagent(Box::new(subagent(value).unwrap()))).encode().unwrap().hash
}

#[test]
fn what_was_written_is_what_is_read_back() {
    let full = json!({
        "description": "plans", "systemPrompt": "You plan.", "promptTemplate": "Plan: {{input.task}}",
        "model": "max", "runtime": "codex", "capabilities": ["style", "tools@sha256:0123456789ab"],
        "inputs": {"type": "object"}, "outputSchema": {"type": "object"},
        "verify": {"command": "cargo test", "timeoutSeconds": 60}, "ask": "eager",
        "budget": {"turns": 10, "usd": 1.5, "onLimit": "fail"}, "claude": {"tools": "Read"}
    });
    assert_eq!(serde_json::to_value(subagent(full.clone()).unwrap()).unwrap(), full);
}

#[test]
fn a_default_said_and_a_default_left_unsaid_are_one_bundle() {
    let short = identity(json!({"systemPrompt": "x"}));
    let long =
        json!({"systemPrompt": "x", "runtime": "claude-code", "ask": "when-blocked", "capabilities": []});
    assert_eq!(short, identity(long));
}

#[test]
fn the_order_of_capabilities_is_part_of_the_identity() {
    let with = |list: Value| identity(json!({"systemPrompt": "x", "capabilities": list}));
    assert_ne!(with(json!(["a", "b"])), with(json!(["b", "a"])));
}

#[test]
fn a_bad_definition_is_refused_by_its_field() {
    let cases = [
        (json!({}), "nothing to run"),
        (json!({"systemPrompt": "  "}), "`systemPrompt` is blank"),
        (json!({"systemPrompt": "x", "sytemPrompt": "y"}), "sytemPrompt"),
        (json!({"systemPrompt": "x", "verify": {"comand": "y"}}), "comand"),
        (json!({"systemPrompt": "x", "runtime": "command"}), "wants `command`"),
        (json!({"runtime": "command", "command": []}), "wants `command`"),
        (json!({"runtime": "command", "command": [""]}), "wants `command`"),
        (json!({"systemPrompt": "x", "command": ["ls"]}), "only for `runtime: command`"),
        (json!({"systemPrompt": "x", "runtime": "a/b"}), "external adapter"),
        (json!({"systemPrompt": "x", "capabilities": ["a", "a@2026-01-01T00:00:00Z"]}), "listed twice"),
        (
            json!({"systemPrompt": "x", "verify": {"command": "y", "timeoutSeconds": 0}}),
            "verify.timeoutSeconds",
        ),
        (json!({"systemPrompt": "x", "budget": {}}), "no limit"),
        (json!({"systemPrompt": "x", "budget": {"usd": -1.0}}), "budget.usd"),
        (json!({"systemPrompt": "x", "budget": {"turns": 0}}), "budget.turns"),
        (json!({"systemPrompt": "x", "budget": 5}), "expected an object"),
        (json!({"systemPrompt": "x", "budget": [1]}), "expected an object"),
        (
            json!({"systemPrompt": "x", "budget": {"turns": "two"}}),
            "`turns` is \"two\", and must be a whole number from 1 to 100000",
        ),
        (json!({"systemPrompt": "x", "budget": {"tokens": -1}}), "`tokens` is -1"),
        (json!({"systemPrompt": "x", "budget": {"minutes": 4_294_967_296_u64}}), "`minutes` is 4294967296"),
        (json!({"systemPrompt": "x", "budget": {"usd": "2"}}), "`usd` is \"2\", and must be a number"),
        (json!({"systemPrompt": "x", "ask": "sometimes"}), "sometimes"),
        (json!({"systemPrompt": "x", "promptTemplate": "{{#a}}"}), "template"),
        (json!({"systemPrompt": "x\u{0}"}), "NUL"),
        (json!({"systemPrompt": "x".repeat(PROMPT_BYTES + 1)}), "1048577 bytes"),
    ];
    for (value, expected) in cases {
        let error = subagent(value.clone()).expect_err(expected);
        assert!(error.contains(expected), "{error} should mention {expected}");
    }
}

#[test]
fn an_external_adapter_needs_no_words_of_ours() {
    let external = subagent(json!({"runtime": "my-adapter"})).unwrap();
    assert_eq!(external.runtime, Runtime::External("my-adapter".parse().unwrap()));
    assert_eq!(external.ask, Ask::WhenBlocked);
}
