//! What an adapter is told, what it may answer, and everything that it may do wrong.

use std::fs;
use std::path::Path;

use agora_core::reason::FailureCode;
use agora_testkit::part;
use serde_json::{Value, json};

use super::support::{adapter, documented, keys, print, run};

#[test]
fn the_invocation_is_what_the_page_says() {
    let subagent = json!({"systemPrompt": "You count.", "promptTemplate": "Count {{task}}", "model": "max",
        "outputSchema": {"type": "object"}});
    let script =
        "cat > invocation.json; pwd > where; env | cut -d= -f1 | sort > names; echo '{\"success\": true}'";
    let ended = adapter(subagent, script)
        .input(json!({"task": "the files"}))
        .variable("AWS_SECRET_ACCESS_KEY", "ambient")
        .env(&[("MINE", "1")])
        .with(|manifest| manifest.limits.budget = serde_json::from_value(json!({"turns": 20})).unwrap())
        .run();
    ended.finished();
    let mut told: Value = serde_json::from_str(&ended.file("invocation.json").unwrap()).unwrap();
    assert_eq!(keys(&told), keys(&documented(0)), "the page has every field, and no other");
    assert!(told["teaching"].take().as_str().unwrap().starts_with("# Asking a question"));
    // As they are behind the wall, for a worker without a home of its own.
    let (work, home) = (Path::new("/workspace"), Path::new("/home/agent"));
    let expected = json!({
        "schema": 1, "dispatchId": "d_1", "threadId": "t_1", "workspace": work, "home": home,
        "sessionDir": home.join(".agora-session"), "prompt": "Count the files", "followUp": "Count the files",
        "systemPrompt": "You count.", "teaching": null, "model": "max", "input": {"task": "the files"},
        "partialState": null, "resume": null, "session": null, "outputSchema": {"type": "object"},
        "budget": {"turns": 20, "tokens": null, "usd": null}, "timeoutSeconds": 120,
    });
    assert_eq!(told, expected);
    assert_eq!(ended.file("where").unwrap().trim_end(), work.display().to_string());
    assert_eq!(ended.file("names").unwrap(), "HOME\nMINE\nPATH\nPWD\nTMPDIR\n");
}

#[test]
fn a_model_is_the_word_that_was_asked_for() {
    for model in ["fast", "standard", "max", "qwen3:32b"] {
        let ended =
            adapter(json!({"model": model, "ask": "never"}), "cat; echo; echo '{\"success\": true}'").run();
        ended.finished();
        let log = fs::read_to_string(ended.out("agent.stdout.log")).unwrap();
        let told: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        assert_eq!((&told["model"], &told["teaching"]), (&json!(model), &Value::Null));
    }
}

#[test]
fn the_answer_is_what_the_page_says() {
    let answer = documented(1);
    let ended = adapter(json!({"outputSchema": {"type": "object"}}), &print(&format!("{answer:#}"))).run();
    let report = ended.finished();
    assert_eq!(
        (&json!(report.output.text), &report.output.structured.unwrap()),
        (&answer["text"], &answer["structured"])
    );
    let mut usage = serde_json::to_value(report.usage.unwrap()).unwrap();
    usage.as_object_mut().unwrap().remove("durationMs");
    assert_eq!(usage, answer["usage"]);
    let session = report.session.unwrap();
    assert_eq!((session.runtime.as_str(), &json!(session.id)), ("mine", &answer["session"]));
    assert_eq!(json!(report.versions.runtime), answer["runtimeVersion"]);
    assert_eq!(report.versions.adapter, "mine");
    let unasked = run(&print(&answer.to_string())).finished();
    assert_eq!(unasked.output.structured, None, "nobody asked for it");
}

/// Sloppy and hostile adapters. Nothing hangs, nothing is a success by accident, and the detail says what to do.
#[test]
fn what_an_adapter_does_wrong() {
    let table = [
        ("true", FailureCode::AgentExit, "ended with code 0; it printed no answer: one JSON object"),
        (
            "echo 'no key' >&2; exit 4",
            FailureCode::AgentExit,
            "ended with code 4: no key; it printed no answer",
        ),
        (
            "echo '{\"success\": true}'; exit 3",
            FailureCode::AgentExit,
            "counts only when it ends with code 0",
        ),
        ("echo '{\"success\": true}'; kill -9 $$", FailureCode::AgentExit, "was ended by signal 9"),
        ("echo '{\"success\": 1}'", FailureCode::AgentExit, "`success` is not true or false"),
        ("printf '{\"success\": true, \"text\": \"\\377\"}'", FailureCode::AgentExit, "not UTF-8"),
        (
            "echo '{\"success\": true}'; echo '{\"type\": \"end\"}'",
            FailureCode::AgentExit,
            "`success` is missing",
        ),
        (
            "head -c 17825792 /dev/zero | tr '\\0' '{'; echo; yes '{' | head -c 17825792",
            FailureCode::AgentExit,
            "print it as one line",
        ),
        (
            r#"echo '{"success": false, "failure": {"code": "auth", "detail": "the key is old"}}'; exit 1"#,
            FailureCode::Auth,
            "the key is old",
        ),
        (
            r#"echo '{"success": false, "failure": {"code": "hash-mismatch", "detail": "trust me"}}'"#,
            FailureCode::AgentExit,
            "trust me",
        ),
        (r#"echo '{"question": {"question": ""}}'"#, FailureCode::SentinelMalformed, "blank question"),
        (r#"echo '{"success": true, "question": []}'"#, FailureCode::SentinelMalformed, "not a JSON object"),
    ];
    for (script, code, expected) in table {
        let ended = run(&format!("echo work > work.txt\n{script}"));
        let failure = ended.failed();
        assert_eq!(failure.code, code, "{script}: {}", failure.detail);
        assert!(failure.detail.contains(expected), "{script}: {}", failure.detail);
        assert_eq!(ended.report().patch.unwrap().files, 1, "{script}: the work is kept");
    }
}

#[test]
fn any_amount_of_talk_comes_before_an_answer() {
    let amount = if part::full() { 600 } else { 40 } << 20;
    let ended = run(&format!(
        "yes 'talk, talk' | head -c {amount}; echo; {}",
        print(r#"{"success": true, "text": "done"}"#)
    ));
    assert_eq!(ended.finished().output.text, "done");
}

#[test]
fn a_limit_of_the_provider_says_when_it_ends_and_one_of_the_budget_asks() {
    let limited = r#"{"success": false, "failure": {"code": "rate-limited", "detail": "429", "retryAt": "2026-11-15T19:00:00Z"}}"#;
    let ended = run(&print(limited));
    let failure = ended.failed();
    assert_eq!((&failure.code, failure.retryable), (&FailureCode::RateLimited, true));
    assert_eq!(failure.retry_at.unwrap().to_string(), "2026-11-15T19:00:00.000Z");

    let spent = print(r#"{"success": false, "failure": {"code": "budget", "limit": "turns"}}"#);
    let with = |budget: Value| {
        let budget = serde_json::from_value(budget).unwrap();
        adapter(json!({}), &spent).with(move |manifest| manifest.limits.budget = budget).run()
    };
    let asks = with(json!({"turns": 3, "onLimit": "ask"}));
    assert!(asks.asked().items()[0].question().contains("3 turns"), "{:?}", asks.asked());
    assert_eq!(with(json!({"turns": 3, "onLimit": "fail"})).failed().code, FailureCode::Budget);
    assert_eq!(with(Value::Null).failed().code, FailureCode::Budget, "a limit of the runtime's own");
}

#[test]
fn what_is_said_after_the_soft_signal_is_kept() {
    let last_words = r#"{"success": true, "text": "half", "session": "s", "usage": {"turns": 3}}"#;
    let script = format!(
        "trap \"echo '{}'; exit 0\" TERM\nwhile true; do sleep 0.05; done",
        last_words.replace('"', "\\\"")
    );
    let ended = adapter(json!({}), &script).with(|manifest| manifest.limits.timeout_seconds = 2).run();
    assert_eq!(ended.failed().code, FailureCode::TimeLimit, "the limit decides, not the answer");
    let report = ended.report();
    assert_eq!((report.output.text.as_str(), report.session.unwrap().id.as_str()), ("half", "s"));
    assert_eq!(report.usage.unwrap().turns, 3);
}
