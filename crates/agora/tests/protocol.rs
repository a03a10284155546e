//! `agora protocol check`: the user input protocol's checklist over a real thread.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use agora_testkit::cli::Cli;
use serde_json::Value;

/// Asks as it should, by a checkpoint's output; then goes on.
const CAREFUL: &str = r#"if [ -f .agora/resume.json ]; then cat notes; exit; fi
echo half > notes
cat <<'END'
AWAITING_USER_INPUT
{"context": "Two parsers read the same field.", "stateFile": "notes",
 "questions": [{"id": "parser", "question": "Which one?", "options": [
   {"label": "strict", "description": "refuses old files"}, {"label": "lenient", "description": "takes wrong ones"}]}]}
END"#;

/// Asks as nobody should: no reason, no state, one option that says nothing.
const CARELESS: &str = r#"[ -f .agora/resume.json ] ||
    echo '{"question": "What should I do?", "options": ["go on"]}' > .agora/needs_input.json"#;

fn place() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    for (name, script) in [("careful", CAREFUL), ("careless", CARELESS), ("silent", "true")] {
        let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
        cli.run(&[&register[..], &["/bin/sh", "-c", script]].concat()).success();
    }
    cli
}

fn dispatch(cli: &Cli, name: &str) {
    let ran = cli.run(&["dispatch", "run", "--subagent", name, "--pause-ok", "--json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

fn verdicts(document: &Value) -> Vec<String> {
    let points = document["pauses"][0]["points"].as_array().unwrap().iter();
    points
        .map(|point| format!("{} {}", point["verdict"].as_str().unwrap(), point["point"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_pause_by_the_book_passes_before_and_after_the_answer() {
    let cli = place();
    dispatch(&cli, "careful");
    let open = cli.run(&["protocol", "check", "@", "--json"]);
    assert_eq!(open.code, Some(0));
    let verdicts_open = verdicts(&open.json());
    assert!(verdicts_open.contains(&"not-applicable answer-kept".to_owned()), "{verdicts_open:?}");
    assert!(verdicts_open.contains(&"passed restart-survived".to_owned()), "{verdicts_open:?}");
    let answered = cli.run(&["answer", "@", "strict", "--follow"]);
    assert_eq!((answered.code, answered.stdout.as_str()), (Some(0), "half\n"), "{}", answered.stderr);
    let ran = cli.run(&["protocol", "check", "@"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let told = cli.steady(&ran.stdout);
    for line in [
        "passed    state saved         the partial state has 1 entry; workspace sealed: yes; session sealed: no\n",
        "passed    options imply       2 of 2 options say what they imply\n",
        "passed    pause seen          dispatch.needs_input is entry 3, question.opened entry 4\n",
        "passed    answer kept         stored as entry 5, before dispatch.accepted, entry 6; receipt: verified\n",
        "workspace: yes, partial state: yes, session resumed: no\n",
        "unproven  nothing redone      in the same tree; what it did inside cannot be proven from the records\n",
        "passed    survives a restart  9 entries read anew give the same state\n",
    ] {
        assert!(told.contains(line), "{line} is missing:\n{told}");
    }
}

#[test]
fn a_careless_question_fails_by_name() {
    let cli = place();
    dispatch(&cli, "careless");
    let ran = cli.run(&["protocol", "check", "@", "--json"]);
    assert_eq!(ran.code, Some(1));
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["passed"], false);
    let failed: Vec<String> =
        verdicts(&document).into_iter().filter(|verdict| verdict.starts_with("failed")).collect();
    assert_eq!(failed, ["failed state-saved", "failed context-given", "failed options-imply"]);
    assert!(cli.run(&["protocol", "check"]).stdout.contains("one option is no choice"));
}

#[test]
fn a_thread_that_asked_nothing_has_nothing_to_check() {
    let cli = place();
    dispatch(&cli, "silent");
    let ran = cli.run(&["protocol", "check", "@"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("has asked nothing"), "{}", ran.stderr);
}
