use agora_core::reason::FailureCode;
use agora_core::sentinel;
use serde_json::json;

use super::*;

fn question(text: &str) -> Question {
    sentinel::parse(json!({"question": text}).to_string().as_bytes()).unwrap()
}

fn malformed() -> Unreadable {
    Unreadable::NotAFile("a FIFO")
}

/// Nothing but success.
fn plain() -> Evidence {
    Evidence { sentinel: Ok(None), spoken: None, limit: None, verdict: Verdict::Success }
}

/// Everything at once, so that only the order decides.
fn everything() -> Evidence {
    Evidence {
        sentinel: Ok(Some(question("sentinel"))),
        spoken: Some(Ok(question("spoken"))),
        limit: Some(Limit::Time(1)),
        verdict: Verdict::failed(FailureCode::AgentExit, "exit"),
    }
}

fn say(ending: Ending) -> String {
    match ending {
        Ending::Finished => "finished".to_owned(),
        Ending::NeedsInput(question) => format!("needs_input {}", question.items()[0].question()),
        Ending::Failed(fault) => {
            let failure = fault.failure();
            format!("failed {} {}", failure.reason, failure.code)
        }
        Ending::Cancelled(kept) => {
            format!("cancelled, kept {:?}", kept.map(|question| question.items()[0].question().to_owned()))
        }
    }
}

#[test]
fn the_order_of_decision_is_the_contracts() {
    let order: [(Evidence, bool, &str); 8] = [
        (everything(), true, "cancelled, kept Some(\"sentinel\")"),
        (everything(), false, "needs_input sentinel"),
        (
            Evidence { sentinel: Err(malformed()), ..everything() },
            false,
            "failed worker-failed sentinel-malformed",
        ),
        (Evidence { sentinel: Ok(None), ..everything() }, false, "needs_input spoken"),
        (
            Evidence { sentinel: Ok(None), spoken: Some(Err(malformed())), ..everything() },
            false,
            "failed worker-failed sentinel-malformed",
        ),
        (
            Evidence { sentinel: Ok(None), spoken: None, ..everything() },
            false,
            "failed provider-failed time-limit",
        ),
        (
            Evidence { sentinel: Ok(None), spoken: None, limit: None, ..everything() },
            false,
            "failed provider-failed agent-exit",
        ),
        (plain(), false, "finished"),
    ];
    for (evidence, cancelled, expected) in order {
        assert_eq!(say(decide(evidence, cancelled)), expected);
    }
}

#[test]
fn a_cancel_keeps_a_question_and_opens_none() {
    assert_eq!(say(decide(plain(), true)), "cancelled, kept None");
    let spoken = Evidence { spoken: Some(Ok(question("spoken"))), ..plain() };
    assert_eq!(say(decide(spoken, true)), "cancelled, kept Some(\"spoken\")");
    let broken = Evidence { sentinel: Err(malformed()), ..everything() };
    assert_eq!(say(decide(broken, true)), "cancelled, kept Some(\"spoken\")");
}

#[test]
fn a_budget_pauses_unless_it_is_to_fail() {
    let budget = |fails: bool| {
        let asks = (!fails).then(|| Budget { turns: Some(2), ..Budget::default() });
        Evidence { limit: Some(Limit::Budget { part: "turns", what: "2 turns".into(), asks }), ..plain() }
    };
    assert_eq!(say(decide(budget(true), false)), "failed provider-failed budget");
    assert!(
        say(decide(budget(false), false)).starts_with("needs_input The thread's budget is used up: 2 turns.")
    );
    let Ending::NeedsInput(question) = decide(budget(false), false) else { panic!("it pauses") };
    assert!(question.items()[0].is_for_humans(), "an agent does not raise its own limit");
}

#[test]
fn the_protocol_in_the_output_is_heard_and_its_file_stays_inside() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("work");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("state.json"), r#"{"question": "Which?", "done": 1}"#).unwrap();
    std::fs::write(dir.path().join("outside.json"), r#"{"question": "hunter2"}"#).unwrap();
    std::os::unix::fs::symlink("../outside.json", root.join("link.json")).unwrap();
    let seen_as = Path::new("/workspace");
    let ask = |file: &str| in_output(&format!("PAUSED_FOR_INPUT: {file}"), &root, seen_as).unwrap();
    for file in ["state.json", "./state.json", "/workspace/state.json", "/workspace/./state.json"] {
        assert_eq!(ask(file).unwrap().items()[0].question(), "Which?");
    }
    let absolute = root.join("state.json").display().to_string();
    let outside =
        ["../outside.json", "./../outside.json", "/workspace/../outside.json", "/workspaces/x", &absolute];
    for file in outside.into_iter().chain(["link.json", "/etc/passwd", "nothing.json", ""]) {
        let error = ask(file).unwrap_err();
        assert!(matches!(error, Unreadable::StateFile(_)), "{file}: {error}");
    }
    assert!(in_output("all done", &root, seen_as).is_none());
}
