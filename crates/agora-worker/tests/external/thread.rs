//! Asking and going on: by the sentinel, by an answer, and with a session; and the example in Python.

use std::fs;
use std::path::Path;

use agora_core::reason::FailureCode;
use agora_testkit::part;
use agora_testkit::worker::{Dispatch, Ended};
use serde_json::{Value, json};

use super::support::{WORKER, adapter, documented, install, keys, print, run};

const EXAMPLE: &str = include_str!("../../../../examples/adapters/transcript.py");

#[test]
fn the_sentinel_works_for_every_runtime() {
    let by_file = run("echo '{\"question\": \"A or B?\"}' > .agora/needs_input.json; kill -9 $$");
    assert_eq!(by_file.asked().items()[0].question(), "A or B?");
    let text = json!({"success": true, "text": "So far.\nAWAITING_USER_INPUT\n{\"questions\": [{\"question\": \"C?\"}]}"});
    assert_eq!(run(&print(&text.to_string())).asked().items()[0].question(), "C?");
    let both = "echo '{\"question\": \"the file\"}' > .agora/needs_input.json; echo '{\"question\": {\"question\": \"the answer\"}}'";
    assert_eq!(run(both).asked().items()[0].question(), "the file");
}

/// Asks; is answered elsewhere and dies without a word; is continued in a third place. The conversation and the answer come along.
#[test]
fn a_session_comes_back_with_its_files_and_survives_a_crash() {
    let script = r#"cat > told.json; cd "$HOME/.agora-session"; ls > "$OLDPWD/found"; echo more >> log
        case $(wc -l < log) in
        1) mkfifo fifo; ln -s / link; mkdir dir; echo '{"session": "s1", "question": {"question": "Go on?"}}';;
        2) exit 9;;
        *) cat log >&2; echo '{"success": true, "session": "s3"}';;
        esac"#;
    let told = |ended: &Ended| serde_json::from_str::<Value>(&ended.file("told.json").unwrap()).unwrap();
    let first = adapter(json!({}), script).input(json!({"task": "the task"})).run();
    assert_eq!(first.asked().items()[0].question(), "Go on?");
    assert_eq!(first.file("found").unwrap(), "");

    let second = first.answered(json!({"q1": "yes"})).run();
    assert_eq!(second.failed().code, FailureCode::AgentExit);
    assert_eq!(second.file("found").unwrap(), "dir\nlog\n", "neither links nor FIFOs are kept");
    let resumed = told(&second);
    assert_eq!((&resumed["session"], &resumed["resume"]["answer"]), (&json!("s1"), &json!("yes")));
    let example = documented(0);
    assert_eq!(keys(&resumed["resume"]), keys(&example["resume"]));
    assert!(resumed["prompt"].as_str().unwrap().ends_with("the task"));
    assert!(!resumed["followUp"].as_str().unwrap().contains("the task"), "{}", resumed["followUp"]);
    assert!(second.report().resumed_with.unwrap().session);

    let third = second.continued(Some("once more")).run();
    third.finished();
    let continued = told(&third);
    // The answer came to nothing: it is told again.
    assert_eq!((&continued["session"], &continued["resume"]), (&json!("s1"), &resumed["resume"]));
    let follow_up = continued["followUp"].as_str().unwrap();
    assert!(follow_up.starts_with("USER_INPUT_RESPONSE {\"q1\":\"yes\"}"), "{follow_up}");
    assert!(follow_up.contains("\n\nonce more\n\n"), "{follow_up}");
    assert_eq!(third.adapter_ran().unwrap().stderr, "more\nmore\nmore\n");
    assert_eq!(third.report().session.unwrap().id, "s3");
}

/// A Python that the worker finds as `python3`.
fn with_python(dispatch: Dispatch) -> Option<Dispatch> {
    let usual = ["/usr/local/bin/python3", "/usr/bin/python3"].iter().any(|path| Path::new(path).is_file());
    if usual {
        return Some(dispatch);
    }
    part::find("AGORA_TEST_PYTHON").map(|python| dispatch.program("python3", &python))
}

/// The example with a little agent: asks, is answered in another directory, and goes on with its transcript.
#[test]
fn the_example_asks_and_goes_on() {
    let agent = "#!/bin/sh\ncat > heard; echo \"model $1\" >&2
        grep -q USER_INPUT_RESPONSE heard && { echo 'postgres it is'; exit 0; }
        echo 'sqlite or postgres?'; exit 10\n";
    let (dir, file) = install(EXAMPLE);
    fs::rename(&file, dir.path().join("transcript")).unwrap();
    let subagent = json!({"runtime": "transcript", "systemPrompt": "You plan.", "promptTemplate": "Task: {{task}}", "model": "max"});
    let dispatch = |agent_command: &[(&str, &str)]| {
        let dispatch = Dispatch::of(WORKER, subagent.clone()).variable("AGORA_ADAPTERS_DIR", dir.path());
        let dispatch = dispatch.input(json!({"task": "choose"})).capability("agent", &[("agent.sh*", agent)]);
        with_python(dispatch.env(agent_command))
    };
    let Some(first) = dispatch(&[("AGENT_COMMAND", "./agent.sh")]) else { return };
    let first = first.run();
    assert_eq!(first.asked().items()[0].question(), "sqlite or postgres?");
    assert_eq!(first.asked().partial_state(), &json!({"turns": 1}));
    assert_eq!(first.adapter_ran().unwrap().stderr, "model max\n");
    let heard = first.file("heard").unwrap();
    assert!(
        heard.starts_with("user: You plan.\n\n# Asking a question") && heard.ends_with("Task: choose"),
        "{heard}"
    );

    let second = first.answered(json!({"q1": "postgres"})).run();
    let report = second.finished();
    assert_ne!(second.dispatch.dir(), first.dispatch.dir());
    assert_eq!((report.output.text.as_str(), report.usage.unwrap().turns), ("postgres it is", 1));
    assert!(report.resumed_with.unwrap().session);
    let heard_later = second.file("heard").unwrap();
    let goes_on =
        format!("{heard}\n\nagent: sqlite or postgres?\n\nuser: USER_INPUT_RESPONSE {{\"q1\":\"postgres\"}}");
    assert!(heard_later.starts_with(&goes_on), "{heard_later}");

    let unset = dispatch(&[]).unwrap().run();
    assert!(unset.failed().detail.contains("AGENT_COMMAND is not set"), "{}", unset.failed().detail);
    let broken = dispatch(&[("AGENT_COMMAND", "sh -c 'exit 7'")]).unwrap().run();
    assert_eq!(broken.failed().detail, "`sh` ended with code 7");
    let missing = dispatch(&[("AGENT_COMMAND", "./no-such")]).unwrap().run();
    assert!(missing.failed().detail.contains("FileNotFoundError"), "{}", missing.failed().detail);
}

#[test]
fn the_example_is_as_short_as_we_say() {
    assert!(EXAMPLE.lines().count() <= 42, "{}", EXAMPLE.lines().count());
}
