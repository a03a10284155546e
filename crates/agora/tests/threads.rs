//! Threads as a list and as a story: what became of each, and who had a hand in it.

use agora_testkit::cli::{Cli, steady_json};
use serde_json::{Value, json};

/// Asks until it was answered, and ends then.
const ASKER: &str =
    r#"[ -f .agora/resume.json ] || echo '{"question": "Which database?"}' > .agora/needs_input.json"#;

fn cli() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let register = ["subagent", "register", "--name", "asker", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", ASKER]].concat()).success();
    cli
}

/// Lets a thread ask. Its label is its name.
fn pause(cli: &Cli, name: &str) {
    let id = format!("d_{name}");
    let call =
        ["dispatch", "run", "--subagent", "asker", "--label", name, "--dispatch-id", &id, "--pause-ok"];
    cli.run(&call).success();
}

#[test]
fn a_thread_is_listed_once_with_a_state_of_its_own() {
    let cli = cli();
    for name in ["answered", "declined", "cancelled", "open"] {
        pause(&cli, name);
    }
    cli.run(&["answer", "answered", "sqlite", "--follow"]).success();
    cli.run(&["answer", "declined", "--decline"]).success();
    cli.run(&["cancel", "cancelled"]).success();

    let threads = cli.run(&["thread", "list", "--json"]).json();
    let rows: Vec<(&str, &str, u64)> = threads
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap();
            (text("state"), row["labels"][0].as_str().unwrap(), row["dispatches"].as_u64().unwrap())
        })
        .collect();
    let expected = [
        ("finished", "answered", 2),
        ("waiting", "open", 1),
        ("cancelled", "cancelled", 1),
        ("failed", "declined", 1),
    ];
    assert_eq!(rows, expected, "the one with the newest dispatch first");
    assert_eq!(
        steady_json(&threads[1]),
        json!({
            "threadId": "t_[ID]", "state": "waiting", "subagent": "asker", "labels": ["open"],
            "dispatchId": "d_open", "dispatches": 1, "questionId": "q_open", "question": "Which database?",
            "beganAt": "[TIME]", "movedAt": "[TIME]"
        })
    );
    // A column is as wide as the times in it.
    let told = cli.steady(&cli.run(&["thread", "list", "-n", "2"]).success());
    let words: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["THREAD", "STATE", "SUBAGENT", "DISPATCHES", "AGE", "LABELS", "ASKS"]);
    assert_eq!(words[1], ["t_[ID]", "finished", "asker", "2", "[SPAN]", "answered"]);
    assert_eq!(words[2], ["t_[ID]", "waiting", "asker", "1", "[SPAN]", "open", "Which", "database?"]);
    let labelled = cli.run(&["thread", "list", "--label", "declined", "--json"]).json();
    assert_eq!(labelled.as_array().unwrap().len(), 1);
    assert_eq!(cli.run(&["thread", "list", "--live", "--json"]).json(), Value::Array(Vec::new()));
}

#[test]
fn a_question_that_a_cancel_came_before_is_kept_and_shown() {
    let cli = cli();
    let ready = cli.work().join("ready");
    cli.grant_work();
    let script = format!(
        r#"echo '{{"question": "Drop it?", "options": ["yes", "no"], "context": "It is empty."}}' > .agora/needs_input.json
           touch {}; exec sleep 1000"#,
        ready.display()
    );
    let register = ["subagent", "register", "--name", "slow", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", &script]].concat()).success();
    cli.run(&["dispatch", "run", "--subagent", "slow", "--detach"]).success();
    while !ready.exists() {
        std::thread::yield_now();
    }
    cli.run(&["cancel", "@"]).success();
    let shown = cli.run(&["show", "@", "--json"]).json();
    assert_eq!((&shown["state"], shown.get("needsInput")), (&json!("cancelled"), None));
    let kept = &shown["keptQuestion"];
    assert_eq!(
        (&kept["question"], &kept["options"], &kept["context"]),
        (&json!("Drop it?"), &json!(["yes", "no"]), &json!("It is empty."))
    );
    let told = cli.run(&["show", "@"]).success();
    assert!(told.contains("nobody is asked") && told.contains("  1. yes"), "{told}");
    assert_eq!(cli.run(&["inbox", "--json"]).json(), json!([]));
}

#[test]
fn whoever_cancels_what_runs_stands_in_its_story() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let sleeper =
        ["subagent", "register", "--name", "sleeper", "--runtime", "command", "--", "sleep", "1000"];
    cli.run(&sleeper).success();
    let ran = cli.run(&["dispatch", "run", "--subagent", "sleeper", "--label", "long", "--detach", "--json"]);
    let id = ran.json()["dispatchId"].clone();
    cli.run(&["cancel", "long"]).success();
    let story = cli.run(&["thread", "show", "long", "--json"]).json();
    let state = (&story["state"], &story["dispatches"][0]["state"], &story["dispatches"][0]["dispatchId"]);
    assert_eq!(state, (&json!("cancelled"), &json!("cancelled"), &id));
    assert_eq!(story["cancelledBy"]["door"], "cli");
    let user = story["cancelledBy"]["principal"].as_str().unwrap();
    let told = cli.run(&["thread", "show", "long"]).success();
    assert!(told.contains(&format!("the thread was cancelled by {user} through cli")), "{told}");
}

#[test]
fn a_story_has_who_continued_and_cancelled_it_and_what_they_said() {
    let cli = cli();
    pause(&cli, "long");
    let answered = cli.run(&["answer", "long", "sqlite", "--follow", "--json"]).json();
    cli.run(&["continue", "long", "also a test", "--json", "--pause-ok"]).success();
    let story = cli.run(&["thread", "show", "long", "--json"]).json();
    assert_eq!(story["questions"][0]["answer"]["at"], answered["receipt"]["statement"]["at"]);
    let by = &answered["receipt"]["statement"]["by"];
    let last = &story["dispatches"][2];
    let continued = json!([{
        "dispatchId": last["dispatchId"], "at": last["acceptedAt"], "message": "also a test", "by": by
    }]);
    assert_eq!((&story["continued"], &story["cancelledAt"]), (&continued, &Value::Null));

    cli.run(&["cancel", "long"]).success();
    let story = cli.run(&["thread", "show", "long", "--json"]).json();
    assert_eq!((&story["state"], &story["cancelledBy"]), (&json!("cancelled"), by));
    assert!(story["cancelledAt"].is_string());
    assert_eq!(story["cancelledAt"], story["questions"][1]["closedAt"]);
    let user = by["principal"].as_str().unwrap();
    let told = cli.run(&["thread", "show", "long"]).success();
    for part in ["continued", "the question was cancelled", "the thread was cancelled"] {
        assert!(told.contains(&format!("{part} by {user} through cli")), "{part}: {told}");
    }
    let late = cli.run(&["answer", "long", "sqlite"]).failure(2);
    assert!(late.contains(&format!("it was ended by `{user}` through `cli`")), "{late}");
    assert!(late.contains("the question was cancelled"), "{late}");
}
