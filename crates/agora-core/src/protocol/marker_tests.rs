use proptest::prelude::*;

use super::*;

fn asked(output: &str) -> Question {
    match find(output) {
        Some(Marker::Asked(Ok(question))) => question,
        other => panic!("{output}: {other:?}"),
    }
}

#[test]
fn a_question_in_the_output_is_heard() {
    let json = r#"{"context": "97% score", "stateFile": "notes.md", "questions": [
        {"id": "tasks", "question": "Create } tasks?", "header": "Mutants",
         "options": [{"label": "Yes", "description": "three"}, {"label": "No"}], "multiSelect": false}]}"#;
    for output in [
        format!("Done so far.\nAWAITING_USER_INPUT\n{json}\nWaiting."),
        format!("AWAITING_USER_INPUT\n```json\n{json}\n```\n"),
        format!("AWAITING_USER_INPUT {json}"),
        format!("first AWAITING_USER_INPUT was talk\nAWAITING_USER_INPUT:\n{json}"),
    ] {
        let question = asked(&output);
        assert_eq!(question.items()[0].id().as_str(), "tasks", "{output}");
        assert_eq!(question.items()[0].options()[0].description.as_deref(), Some("three"));
        assert_eq!(question.context(), Some("97% score"));
        assert_eq!(question.partial_state(), &json!({"stateFile": "notes.md"}));
    }
}

#[test]
fn a_state_and_a_state_file_are_both_kept() {
    let question = |state: &str| {
        asked(&format!(
            r#"AWAITING_USER_INPUT {{"question": "?", "stateFile": "n.md", "partial_state": {state}}}"#
        ))
    };
    assert_eq!(question(r#"{"a": 1}"#).partial_state(), &json!({"a": 1, "stateFile": "n.md"}));
    assert_eq!(question("[1]").partial_state(), &json!({"partial_state": [1], "stateFile": "n.md"}));
}

#[test]
fn talk_about_the_marker_asks_nothing_and_a_broken_question_is_not_passed_over() {
    for output in
        ["", "I would print AWAITING_USER_INPUT here.", "AWAITING_USER_INPUT_X\n{}", "`AWAITING_USER_INPUT`"]
    {
        assert_eq!(find(output), None, "{output}");
    }
    for output in [
        "AWAITING_USER_INPUT",
        "AWAITING_USER_INPUT\nno object",
        "AWAITING_USER_INPUT\n{\"a\":",
        "AWAITING_USER_INPUT\n{}",
    ] {
        assert!(matches!(find(output), Some(Marker::Asked(Err(_)))), "{output}");
    }
}

fn paused(output: &str) -> Paused {
    match find(output) {
        Some(Marker::StateFile(paused)) => paused,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_state_file_brings_the_question_or_the_output_does() {
    let output = "PAUSED_FOR_INPUT: state/agent.json Question: Which?\nA) Strict (safer)\nB) Lenient\n";
    let paused = paused(output);
    assert_eq!(paused.file, "state/agent.json");
    let nested = br#"{"progress": "half", "question": {"text": "Which way?", "options": ["S", "L"]}}"#;
    let question = paused.question(nested).unwrap();
    assert_eq!(question.items()[0].question(), "Which way?");
    assert_eq!(question.partial_state()["progress"], json!("half"));
    for state in [&b"# Progress\nhalf"[..], br#"{"progress": "half"}"#] {
        let question = paused.question(state).unwrap();
        assert_eq!(question.items()[0].question(), "Which?");
        assert_eq!(question.items()[0].options()[0].label, "Strict");
        assert_eq!(question.items()[0].options()[0].description.as_deref(), Some("safer"));
        assert_eq!(question.items()[0].options()[1].label, "Lenient");
        assert!(question.partial_state().to_string().contains("half"));
    }
    assert_eq!(self::paused("PAUSED_FOR_INPUT: a.json").question(b"{}"), Err(Malformed::NoQuestion));
    assert_eq!(paused.question(b"\xff"), Err(Malformed::NotUtf8));
}

#[test]
fn what_an_option_implies_may_stand_in_the_output_alone() {
    let state = br#"{"question": {"text": "Which?", "options": ["Strict", "Lenient"]}}"#;
    let output = "PAUSED_FOR_INPUT: a.json\nQuestion: Which?\nA) Strict (more secure)\nB) Lenient\n";
    let question = paused(output).question(state).unwrap();
    assert_eq!(question.items()[0].options()[0].description.as_deref(), Some("more secure"));
    let twice = "PAUSED_FOR_INPUT: a.json\nQuestion: Which?\nA) Keep (all)\nB) Keep (none)\n";
    let labels: Vec<_> = paused(twice).question(b"{}").unwrap().items()[0]
        .options()
        .iter()
        .map(|choice| choice.label.clone())
        .collect();
    assert_eq!(labels, ["Keep (all)", "Keep (none)"], "what would be the same is not taken apart");
}

#[test]
fn a_file_is_named_with_spaces_in_quotes_and_a_checkpoint_may_ask() {
    let checkpoint = "# a Checkpoint\n## Pending Decision\nStrict or lenient?\n";
    for output in ["PAUSED_FOR_INPUT: \"my notes.md\"", "PAUSED_FOR_INPUT: `my notes.md` waiting"] {
        let paused = paused(output);
        assert_eq!(paused.file, "my notes.md");
        let question = paused.question(checkpoint.as_bytes()).unwrap();
        assert_eq!(question.items()[0].question(), "Strict or lenient?");
        assert_eq!(question.partial_state(), &json!(checkpoint));
    }
}

proptest! {
    #[test]
    fn no_output_panics(output in "(AWAITING_USER_INPUT|PAUSED_FOR_INPUT:|\\{|\\}|\"|\\\\|[a-zé: \n`]|Question:|A\\)| \\(){0,60}") {
        if let Some(Marker::StateFile(paused)) = find(&output) {
            let _ = paused.question(output.as_bytes());
        }
    }
}
