use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::child::Ended;

fn given() -> SessionMark {
    let (runtime, id) = ("mine".to_owned(), "before".to_owned());
    SessionMark { runtime, version: None, id, total: Usage::default(), deferred: None }
}

fn ended(how: How, stopped: Option<Why>) -> Ended {
    let (out_of_memory, too_many_processes, leftovers) = (false, false, false);
    Ended { how, stopped, out_of_memory, too_many_processes, duration: Duration::ZERO, leftovers }
}

/// Hears an output, and says what it comes to.
fn exit_as(output: &[u8], ended: &Ended) -> RuntimeExit {
    let (name, whole, last) = ("mine".parse().unwrap(), Whole::default(), Vec::new());
    let mut hearing = Hearing { name, wants_structure: true, given: Some(given()), whole, last };
    for line in output.split(|byte| *byte == b'\n') {
        hearing.line(line);
    }
    Box::new(hearing).conclude(&End { ended, stdout: "", stderr: "the last word\n" })
}

fn exit(output: &[u8]) -> RuntimeExit {
    exit_as(output, &ended(How::Exited(0), None))
}

fn answered(answer: &Value) -> RuntimeExit {
    exit(answer.to_string().as_bytes())
}

/// Says a verdict in a line, for a test to compare.
fn verdict(exit: &RuntimeExit) -> String {
    match &exit.verdict {
        Verdict::Success => "success".to_owned(),
        Verdict::Failed { code, detail, retry_at } => {
            let retry_at = retry_at.map(|at| format!(" {at}")).unwrap_or_default();
            format!("{code}{retry_at}: {detail}")
        }
        Verdict::Budget(part) => format!("budget: {part}"),
    }
}

#[test]
fn a_whole_answer_arrives() {
    let answer = json!({
        "success": true, "text": "done", "structured": {"n": 1}, "session": "after", "runtimeVersion": "2.0", "failure": null,
        "usage": {"turns": 2, "costUsd": 0.5, "models": [{"model": "m", "inputTokens": 1, "outputTokens": 2,
            "cacheReadTokens": 3, "cacheWriteTokens": 4, "costUsd": 0.5}]},
    });
    let exit = answered(&answer);
    assert_eq!((verdict(&exit).as_str(), exit.text.as_str()), ("success", "done"));
    assert_eq!(exit.structured, Some(json!({"n": 1})));
    let model = ModelUsage {
        model: "m".into(),
        input_tokens: 1,
        output_tokens: 2,
        cache_read_tokens: 3,
        cache_write_tokens: 4,
        cost_usd: Some(0.5),
    };
    let usage = Usage { models: vec![model], cost_usd: Some(0.5), turns: 2, duration_ms: 0 };
    assert_eq!(exit.usage, Some(usage));
    let version = Some("2.0".to_owned());
    assert_eq!(exit.session, Some(SessionMark { id: "after".into(), version: version.clone(), ..given() }));
    assert_eq!((exit.runtime_version, exit.warnings.len()), (version, 0));
    assert!(exit.asked.is_none());
    assert_eq!(
        answered(&json!({"success": true})).session,
        None,
        "a conversation that it does not name is over"
    );
}

#[test]
fn the_answer_is_the_last_object_or_the_only_one() {
    let success = json!({"success": true, "text": "a\nb", "structured": [{"a": {}}, {}]});
    let (line, pretty) = (success.to_string(), format!("{success:#}"));
    for output in [
        line.clone(),
        pretty.clone(),
        format!("\n \n{pretty}\n\n"),
        format!("\u{feff}{pretty}"),
        format!("\u{feff}{line}\r\n"),
        format!("talk\n{{\"type\": \"event\"}}\n  {line}\nbye\n"),
        format!("{{'a dict': 1}}\n{{\"success\": false}}\n{line}"),
    ] {
        let exit = exit(output.as_bytes());
        assert_eq!((verdict(&exit).as_str(), exit.text.as_str()), ("success", "a\nb"), "{output}");
    }
    let later = exit(format!("{line}\n{{\"type\": \"event\"}}").as_bytes());
    assert!(verdict(&later).contains("`success` is missing"), "an earlier one was not the answer");
}

#[test]
fn what_breaks_the_contract_does_not_count_and_is_named() {
    let table: [(&[u8], &str); 24] = [
        (b"", "printed no answer"),
        (b"hello\n[1]\n\"{}\"", "printed no answer"),
        (b"{\"success\": tr", "not JSON: line 1, column"),
        (
            b"talk\n{\n  \"success\": true\n}",
            "not JSON: line 1, column 1; print it as one line, or print nothing else",
        ),
        (b"{\"success\": true, \"text\": \"\xff\"}", "not UTF-8"),
        (b"{\"success\": true, \"success\": true}", "a key twice"),
        (b"{\"text\": \"done\"}", "`success` is missing"),
        (b"{\"failure\": {\"detail\": \"x\"}}", "`success` is missing"),
        (b"{\"success\": \"true\"}", "`success` is not true or false"),
        (b"{\"success\": true, \"sucess\": 1}", "`sucess` is no field of an answer"),
        (b"{\"success\": true, \"s p\": 1}", "one of its keys is no field of an answer"),
        (b"{\"success\": true, \"text\": 5}", "`text` is not a text"),
        (b"{\"success\": true, \"session\": 5}", "`session` is not a text of 1 to 512 bytes"),
        (b"{\"success\": true, \"session\": \"\"}", "`session` is not a text"),
        (b"{\"success\": true, \"usage\": []}", "`usage` is not an object"),
        (b"{\"success\": true, \"usage\": {\"durationMs\": 1}}", "`usage.durationMs` is no field"),
        (b"{\"success\": true, \"usage\": {\"turns\": -1}}", "`usage.turns` is not a whole number"),
        (
            b"{\"success\": true, \"usage\": {\"turns\": 18446744073709551615}}",
            "`usage.turns` is not a whole number",
        ),
        (b"{\"success\": true, \"usage\": {\"costUsd\": -0.1}}", "`usage.costUsd` is not a number from 0"),
        (b"{\"success\": true, \"usage\": {\"models\": [{}]}}", "`usage.models[].model` is missing"),
        (
            b"{\"success\": true, \"usage\": {\"models\": [{\"model\": \"m\", \"inputTokens\": 1.5}]}}",
            "`usage.models[0].inputTokens` is not a whole number",
        ),
        (b"{\"success\": true, \"failure\": {}}", "`success` is true, and there is a `failure`"),
        (
            b"{\"success\": false, \"failure\": {\"retryAt\": \"soon\"}}",
            "`failure.retryAt` is not a time like",
        ),
        (b"{\"success\": false, \"failure\": {\"code\": \"budget\"}}", "`failure.limit` is missing"),
    ];
    for (output, expected) in table {
        let exit = exit(output);
        let (verdict, output) = (verdict(&exit), String::from_utf8_lossy(output));
        let begins = "agent-exit: the adapter `mine` ended with code 0: the last word; it";
        assert!(verdict.starts_with(begins) && verdict.contains(expected), "{output}: {verdict}");
        assert_eq!(exit.session, Some(given()), "the conversation that was given still holds");
    }
    let deep = format!("{{\"success\": true, \"structured\": {}{}}}", "[".repeat(128), "]".repeat(128));
    assert!(verdict(&exit(deep.as_bytes())).contains("nested deeper than 128"));
}

#[test]
fn an_adapter_gives_its_own_codes_and_no_others() {
    let failed = |failure: Value| answered(&json!({"success": false, "failure": failure}));
    for code in CODES {
        let exit = failed(json!({"code": code, "detail": "why"}));
        assert_eq!((verdict(&exit), exit.warnings.len()), (format!("{code}: why"), 0));
    }
    for code in
        ["hash-mismatch", "worker-lost", "time-limit", "out-of-memory", "of-tomorrow", "Not A Code", ""]
    {
        let exit = failed(json!({"code": code, "detail": "why"}));
        assert_eq!(verdict(&exit), "agent-exit: why", "{code}");
        assert!(exit.warnings[0].contains("`rate-limited`"), "{:?}", exit.warnings);
    }
    let at = "2026-11-15T19:00:00.000Z";
    let limited =
        failed(json!({"code": "rate-limited", "detail": "why", "retryAt": "2026-11-15T20:00:00+01:00"}));
    assert_eq!(verdict(&limited), format!("rate-limited {at}: why"));
    let stray = failed(json!({"detail": "why", "retryAt": at}));
    assert_eq!(verdict(&stray), "agent-exit: why");
    assert!(stray.warnings[0].contains("`retryAt`"), "{:?}", stray.warnings);
    assert_eq!(verdict(&failed(json!({"code": "budget", "limit": "turns"}))), "budget: turns");
    for silent in [json!({"success": false}), json!({"success": false, "failure": {"detail": " "}})] {
        assert!(verdict(&answered(&silent)).contains("not why, which belongs in `failure.detail`"));
    }
    let long = verdict(&failed(json!({"detail": "x".repeat(DETAIL_BYTES + 1)})));
    assert!(long.contains("8193 bytes") && !long.contains("xx"), "a long detail is not cut: {long}");
}

#[test]
fn a_success_needs_a_good_end() {
    let said = |answer: &Value, how, stopped| exit_as(answer.to_string().as_bytes(), &ended(how, stopped));
    let success = json!({"success": true, "text": "done", "usage": {"turns": 1}});
    for (how, words) in [(How::Exited(3), "ended with code 3"), (How::Killed(11), "ended by signal 11")] {
        let exit = said(&success, how, None);
        let verdict = verdict(&exit);
        assert!(
            verdict.contains(words) && verdict.contains("counts only when it ends with code 0"),
            "{verdict}"
        );
        assert_eq!((exit.text.as_str(), exit.usage.unwrap().turns), ("done", 1), "the rest is kept");
    }
    assert_eq!(
        verdict(&said(&success, How::Killed(15), Some(Why::Channel))),
        "success",
        "it was told to end"
    );
    let failure = json!({"success": false, "failure": {"code": "auth", "detail": "no key"}});
    assert_eq!(verdict(&said(&failure, How::Exited(1), None)), "auth: no key");
}

#[test]
fn a_question_counts_whatever_stands_beside_it() {
    let asked = |answer: &Value| {
        let exit = answered(answer);
        (
            exit.asked.unwrap().map(|question| question.items()[0].question().to_owned()).ok(),
            exit.warnings.len(),
        )
    };
    let good = || Some("A?".to_owned());
    let question = json!({"question": "A?", "options": ["x", "y"], "partial_state": {"n": 1}});
    assert_eq!(asked(&json!({"question": question})), (good(), 0));
    assert_eq!(asked(&json!({"success": false, "question": question})), (good(), 0));
    assert_eq!(asked(&json!({"question": question, "usage": 5})), (good(), 1), "and what is wrong is said");
    for malformed in
        [json!("A?"), json!({}), json!({"question": ""}), json!({"question": "A?", "options": [1]})]
    {
        assert_eq!(
            asked(&json!({"success": true, "question": malformed})).0,
            None,
            "it was meant to be asked"
        );
    }
    let large = json!({"question": {"question": "A?", "context": "x".repeat(1024 * 1024)}});
    assert_eq!(asked(&large).0, None, "as large as a file may be, and no larger");
    assert!(answered(&json!({"success": true, "question": null})).asked.is_none());
}

#[test]
fn much_talk_is_not_kept() {
    let (name, whole, last) = ("mine".parse().unwrap(), Whole::default(), Vec::new());
    let mut hearing = Hearing { name, wants_structure: false, given: None, whole, last };
    let line = [b"{".as_slice(), &vec![b' '; 1024 * 1024]].concat();
    for _ in 0..LONGEST / line.len() + 2 {
        hearing.line(&line);
    }
    assert!(matches!(hearing.whole, Whole::NotOne));
    assert!(hearing.last.capacity() <= 2 * line.len());
}

proptest! {
    /// Talk is any bytes, with or without what looks like an answer.
    #[test]
    fn talk_before_the_answer_is_nothing_and_after_it_only_an_object_counts(
        talk in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'{'), Just(b' ')], 0..60),
        first in any::<bool>(),
    ) {
        let answer = b"{\"success\": true}".as_slice();
        let parts = if first { [talk.as_slice(), b"\n", answer] } else { [answer, b"\n", talk.as_slice()] };
        let overruled = !first && talk.split(|byte| *byte == b'\n').any(begins_object);
        prop_assert_eq!(matches!(exit(&parts.concat()).verdict, Verdict::Success), !overruled);
    }
}
