use std::path::{Path, PathBuf};

use agora_core::reason::FailureCode;
use agora_testkit::corpus::{files, inputs};
use proptest::prelude::*;

use super::*;

/// What the real programs printed in front of a scripted model, with ids and places made the same everywhere.
fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn claude_whatever_it_prints(output in inputs(&corpus("claude"))) {
        claude(&output);
    }

    #[test]
    fn codex_whatever_it_prints(output in inputs(&corpus("codex"))) {
        codex(&output);
    }

    #[test]
    fn external_whatever_it_prints(output in inputs(&corpus("external"))) {
        external(&output);
    }
}

fn verdicts(name: &str, listener: impl Fn() -> Box<dyn Listener>) -> Vec<(String, String)> {
    let verdict = |exit: &RuntimeExit| match (&exit.verdict, &exit.asked) {
        (_, Some(Ok(question))) => format!("asks {}", question.items()[0].question()),
        (_, Some(Err(unreadable))) => format!("asks {unreadable}"),
        (Verdict::Success, None) => "success".to_owned(),
        (Verdict::Budget(part), None) => format!("budget {part}"),
        (Verdict::Failed { code, .. }, None) => code.to_string(),
    };
    let heard = |(file, output): (String, Vec<u8>)| {
        let exit = hear(listener(), &output, How::Exited(0));
        (file.trim_end_matches(".jsonl").to_owned(), verdict(&exit))
    };
    files(&corpus(name)).into_iter().map(heard).collect()
}

#[track_caller]
fn assert_verdicts(heard: &[(String, String)], expected: &[(&str, &str)]) {
    let heard: Vec<(&str, &str)> = heard.iter().map(|(file, said)| (file.as_str(), said.as_str())).collect();
    assert_eq!(heard, expected);
}

/// The corpus is read as its names say.
#[test]
fn what_the_real_programs_printed_is_understood() {
    let expected = [
        ("budget-tokens", "agent-exit"),
        ("budget-usd", "budget usd"),
        ("cut-stream", "provider-unavailable"),
        ("deferred", "asks Which database?"),
        ("denied", "success"),
        ("dropped-call", "success"),
        ("error-401", "auth"),
        ("error-429", "rate-limited"),
        ("error-529", "provider-unavailable"),
        ("interrupted-in-tool", "agent-exit"),
        ("max-turns", "budget turns"),
        ("no-credential", "auth"),
        ("structured", "success"),
        ("success", "success"),
        ("terminated-in-tool", "agent-exit"),
    ];
    assert_verdicts(&verdicts("claude", || claude::listener(Permission::Bypass)), &expected);
    let expected = [
        ("cut-stream", "provider-unavailable"),
        ("error-401", "auth"),
        ("error-429", "rate-limited"),
        ("error-500", "provider-unavailable"),
        ("interrupted", "agent-exit"),
        ("no-service", "provider-unavailable"),
        ("success", "success"),
    ];
    assert_verdicts(&verdicts("codex", codex::listener), &expected);
    let expected = [
        ("after-talk", "success"),
        ("asks", "asks A or B?"),
        ("budget", "budget turns"),
        ("failed", "rate-limited"),
        ("pretty", "success"),
        ("success", "success"),
        ("unexplained", "agent-exit"),
    ];
    assert_verdicts(&verdicts("external", || external::listener("mine".parse().unwrap())), &expected);
}

#[test]
fn a_program_of_the_same_name_was_not_interrupted() {
    let exit = hear(claude::listener(Permission::Bypass), b"usage: claude FILE\n", How::Exited(0));
    let Verdict::Failed { code, detail, .. } = exit.verdict else { panic!("{:?}", exit.verdict) };
    assert_eq!(code, FailureCode::AgentExit);
    assert!(detail.contains("without a result") && detail.contains("`agora logs ID`"), "{detail}");
    assert!(!detail.contains("interrupted"), "{detail}");
}

/// Every place at which an output may be cut off, as when somebody pulls the plug.
#[test]
fn what_is_cut_off_is_no_success() {
    for (name, check) in [("claude", claude as fn(&[u8])), ("codex", codex), ("external", external)] {
        for (_, output) in files(&corpus(name)) {
            for end in (0..output.len()).step_by(if output.len() > 2000 { 37 } else { 1 }) {
                check(&output[..end]);
            }
        }
    }
}

/// A call that is dropped is named in a result of its own, before the turn that goes on without it.
#[test]
fn a_call_that_was_dropped_asks_nothing_when_the_turn_after_it_has_no_end() {
    let (_, output) =
        files(&corpus("claude")).into_iter().find(|(name, _)| name == "dropped-call.jsonl").unwrap();
    let lines: Vec<&[u8]> = output.split_inclusive(|byte| *byte == b'\n').collect();
    for count in 3..lines.len() {
        let exit = hear(claude::listener(Permission::Bypass), &lines[..count].concat(), How::Killed(9));
        assert!(matches!(exit.verdict, Verdict::Failed { .. }) && exit.asked.is_none(), "{count} lines");
        assert!(exit.session.unwrap().deferred.is_none(), "{count} lines");
    }
}
