//! An adapter that puts secrets wherever its answer has room for words.

use serde_json::{Value, json};

use super::support::{adapter, print};

const SECRET: &str = "pa55word \"and\" more";

#[track_caller]
fn assert_hidden(answer: &Value, ending: &str) {
    // What the shell fills in would need escapes; the answer comes word for word.
    let ended = adapter(json!({"outputSchema": {"type": "object"}}), &print(&answer.to_string()))
        .env_with_secrets(&[], &[("A", "local:a")])
        .secret("local:a", SECRET)
        .run();
    assert_eq!(ended.kinds().last().unwrap(), ending, "{}", ended.stdout);
    let escaped = json!(SECRET).to_string();
    let twice = json!(escaped.trim_matches('"')).to_string();
    for (name, bytes) in ended.everything() {
        let text = String::from_utf8_lossy(&bytes);
        for form in [SECRET, escaped.trim_matches('"'), twice.trim_matches('"')] {
            assert!(!text.contains(form), "{name} holds {form}: {text}");
        }
        assert!(!text.contains("pa55word"), "{name} holds a part of it: {text}");
    }
}

#[test]
fn no_field_of_an_answer_lets_a_secret_out() {
    let said = format!("it is {SECRET}.");
    let usage = json!({"turns": 1, "models": [{"model": said, "inputTokens": 1}]});
    assert_hidden(
        &json!({"success": true, "text": said, "structured": {SECRET: [said]}, "session": SECRET,
            "runtimeVersion": said, "usage": usage}),
        "dispatch.finished",
    );
    assert_hidden(&json!({"success": false, "failure": {"code": "auth", "detail": said}}), "dispatch.failed");
    assert_hidden(&json!({"success": false, "failure": {"code": SECRET, "detail": said}}), "dispatch.failed");
    // As much as is shown, so that a cut would leave half of it.
    let long = format!("{}{SECRET}", "x".repeat(8 * 1024 - SECRET.len()));
    assert_hidden(&json!({"success": false, "failure": {"detail": long}}), "dispatch.failed");
    assert_hidden(&json!({"success": true, SECRET: 1}), "dispatch.failed");
    assert_hidden(
        &json!({"question": {"question": said, "header": "h", "context": said, "options": [said, SECRET],
            "default": SECRET, "partial_state": {SECRET: said}}}),
        "dispatch.needs_input",
    );
    assert_hidden(&json!({"question": {"question": said, SECRET: said, "options": [5]}}), "dispatch.failed");
}
