//! The question: every way an agent can ask, everything hostile it can put there, and going on with the answer.

use std::fs;
use std::os::unix::fs::symlink;

use agora_core::reason::FailureCode;
use agora_testkit::worker::{Dispatch, Ended};
use serde_json::{Value, json};

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");

fn script(script: &str) -> Dispatch {
    Dispatch::script(WORKER, script)
}

/// An agent that puts something at the sentinel's place and ends with a code.
fn asks(how: &str) -> Ended {
    script(&format!("{how}\nexit 0")).run()
}

const SENTINEL: &str = ".agora/needs_input.json";

fn whole() -> Value {
    json!({
        "questions": [
            {"id": "db", "question": "Which database?", "header": "Database", "multiSelect": false, "allowOther": true, "human": true,
             "options": [{"label": "sqlite", "description": "embedded"}, {"label": "postgres"}], "default": "sqlite"},
            {"id": "tests", "question": "Which tests?", "options": ["unit", "e2e"], "multiSelect": true}
        ],
        "context": "Both have the same signature.\nÄ",
        "partial_state": {"ruled_out": ["C"], "at": 1_763_233_200_000_000_000_u64}
    })
}

#[test]
fn every_field_of_the_question_arrives() {
    let ended = script(&format!("cat > {SENTINEL}")).input(json!({"task": whole().to_string()})).run();
    let question = serde_json::to_value(ended.asked()).unwrap();
    let mut expected = whole();
    expected["partialState"] = expected["partial_state"].take();
    expected.as_object_mut().unwrap().remove("partial_state");
    expected["questions"][1]["options"] = json!([{"label": "unit"}, {"label": "e2e"}]);
    for (item, defaults) in
        [(0, json!({"multiSelect": false})), (1, json!({"allowOther": false, "human": false}))]
    {
        for (key, value) in defaults.as_object().unwrap() {
            expected["questions"][item][key] = value.clone();
        }
    }
    assert_eq!(question, expected);
    assert_eq!(ended.kinds().last().unwrap(), "dispatch.needs_input");
    assert_eq!(ended.code, Some(0));
}

#[test]
fn a_valid_question_counts_whatever_became_of_the_agent() {
    let write = format!("echo '{{\"question\": \"A or B?\"}}' > {SENTINEL}");
    for end in ["exit 0", "exit 1", "kill -9 $$", "kill -SEGV $$"] {
        let ended = script(&format!("{write}; {end}")).run();
        assert_eq!(ended.asked().items()[0].question(), "A or B?", "{end}");
    }
    let late =
        script(&format!("{write}; exec sleep 1000")).with(|manifest| manifest.limits.timeout_seconds = 1);
    assert_eq!(late.run().asked().items()[0].question(), "A or B?");
    let with_output = format!("{write}; echo AWAITING_USER_INPUT; echo '{{\"question\": \"another\"}}'");
    assert_eq!(asks(&with_output).asked().items()[0].question(), "A or B?", "the file comes first");
}

/// Everything hostile, each with what the detail says. Nothing hangs, nothing crashes, nothing of a foreign file is quoted.
#[test]
fn the_hostile_table() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), r#"{"question": "swordfish"}"#).unwrap();
    let secret = secret.path().display();
    let table: &[(&str, &str)] = &[
        (&format!("ln -s {secret} {SENTINEL}"), "is a symbolic link"),
        (&format!("ln -s nowhere {SENTINEL}"), "is a symbolic link"),
        (&format!("ln -s /dev/zero {SENTINEL}"), "is a symbolic link"),
        (&format!("mkdir {SENTINEL}"), "is a directory"),
        (&format!("mkfifo {SENTINEL}"), "is a FIFO"),
        (
            &format!("rmdir .agora/x; rm -rf .agora; ln -s $(dirname {secret}) .agora"),
            "is below a symbolic link",
        ),
        ("rm -rf .agora; echo file > .agora", "is below a file"),
        (&format!("head -c 1048577 /dev/zero | tr '\\0' ' ' > {SENTINEL}"), "1048577 bytes"),
        (&format!("head -c 100000 /dev/zero | tr '\\0' '[' > {SENTINEL}"), "nested"),
        (&format!("printf '{{\"question\":\"\\377\"}}' > {SENTINEL}"), "not UTF-8"),
        (&format!("printf '{{\"question\":\"\"}}' > {SENTINEL}"), "blank question"),
        (&format!("printf '{{\"question\":\"  \"}}' > {SENTINEL}"), "blank question"),
        (&format!("printf '{{\"question\":5}}' > {SENTINEL}"), "not a text"),
        (&format!("printf '{{\"question\":null}}' > {SENTINEL}"), "not a text"),
        (&format!("printf '{{\"question\":\"?\",\"options\":[1,2]}}' > {SENTINEL}"), "options"),
        (&format!("printf '{{\"question\":\"?\",\"question\":\"?\"}}' > {SENTINEL}"), "twice"),
        (
            &format!(
                "printf '{{\"questions\":[{{\"id\":\"a\",\"question\":\"?\"}},{{\"id\":\"a\",\"question\":\"?\"}}]}}' > {SENTINEL}"
            ),
            "id of an earlier one",
        ),
        (&format!("printf '[]' > {SENTINEL}"), "not a JSON object"),
        (&format!("printf '' > {SENTINEL}"), "malformed"),
        (&format!("printf '{{\"swordfish' > {SENTINEL}"), "malformed"),
        (
            &format!("printf '{{\"question\":\"?\",\"options\":[\"a\"],\"default\":\"b\"}}' > {SENTINEL}"),
            "default",
        ),
    ];
    for (how, expected) in table {
        let ended = asks(how);
        let failure = ended.failed();
        assert_eq!(failure.code, FailureCode::SentinelMalformed, "{how}");
        assert!(failure.detail.contains(expected), "{how}: {}", failure.detail);
        for (name, bytes) in ended.everything() {
            assert!(
                !String::from_utf8_lossy(&bytes).contains("swordfish") || name.ends_with("patch.diff"),
                "{how}: {name}"
            );
        }
        assert!(
            ended.report().workspace_saved || how.contains("rm -rf"),
            "{how}: the work is kept all the same"
        );
    }
}

#[test]
fn the_edges_of_what_is_valid() {
    let filled = format!(
        "printf '{{\"question\":\"?\"}}' > {SENTINEL}; head -c 1048560 /dev/zero | tr '\\0' ' ' >> {SENTINEL}"
    );
    let ended = asks(&filled);
    assert_eq!(fs::metadata(ended.dispatch.work().join(SENTINEL)).unwrap().len(), 1_048_576);
    ended.asked();
    asks(&format!("printf '\\357\\273\\277{{\"question\":\"?\"}}' > {SENTINEL}")).asked();
    let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    asks(&format!("printf '{{\"question\":\"?\",\"partial_state\":{deep}}}' > {SENTINEL}")).asked();
    let too_deep = format!("{}1{}", "[".repeat(128), "]".repeat(128));
    assert_eq!(
        asks(&format!("printf '{{\"question\":\"?\",\"partial_state\":{too_deep}}}' > {SENTINEL}")).summary(),
        "failed worker-failed sentinel-malformed"
    );
}

#[test]
fn only_the_agent_asks() {
    let ask = r#"{"question": "not mine"}"#;
    script("true").file(SENTINEL, ask).run().finished();
    let setup = format!("mkdir -p .agora; echo '{ask}' > {SENTINEL}; ln -s x .agora/control");
    script("true").capability("a", &[("agora-setup.sh", &setup)]).run().finished();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("needs_input.json"), ask).unwrap();
    let linked = script("ls -ld .agora | cut -c1");
    fs::create_dir_all(linked.work()).unwrap();
    symlink(elsewhere.path(), linked.work().join(".agora")).unwrap();
    let ended = linked.run();
    ended.finished();
    assert_eq!(ended.adapter_ran().unwrap().stdout, "d\n");
    assert!(elsewhere.path().join("needs_input.json").exists(), "a link is removed, not what it points to");
}

/// A bundle that ships agora's own files is refused when it is registered, and again here: whoever stored it may have skipped that.
#[test]
fn a_capability_cannot_ship_a_question() {
    let ask = r#"{"question": "not mine"}"#;
    for path in [SENTINEL, ".agora/resume.json", ".git/hooks/pre-commit", "../escape", "/abs"] {
        let dispatch = script("true").capability("evil", &[("harmless-name", ask)]);
        let manifest = fs::read_to_string(dispatch.stored("evil")).unwrap().replace("harmless-name", path);
        fs::write(dispatch.stored("evil"), &manifest).unwrap();
        let hash = agora_core::ContentHash::of(manifest.as_bytes());
        let ended = dispatch.with(|manifest| manifest.capabilities[0].content_hash = hash).run();
        assert_eq!(ended.failed().code, FailureCode::BundleMalformed, "{path}");
        assert!(ended.adapter_ran().is_none());
    }
}

/// The agent, or something that it left behind, swaps the file while it is read: whole, or malformed, never half.
#[test]
fn a_file_that_is_replaced_while_it_is_read_is_read_whole() {
    let swap = format!(
        "printf '{{\"question\":\"one\"}}' > a; printf '{{\"question\":\"two\"}}' > b; cp a {SENTINEL}
        (while true; do cp a c; mv c {SENTINEL}; cp b c; mv c {SENTINEL}; ln -sf /etc/passwd d; mv d {SENTINEL}; done) &
        sleep 0.2"
    );
    let ended = asks(&swap);
    let summary = ended.summary();
    assert!(
        summary == "dispatch.needs_input" || summary == "failed worker-failed sentinel-malformed",
        "{summary}"
    );
    assert!(!ended.stdout.contains("root:"));
}

#[test]
fn the_protocol_in_the_output_asks_too() {
    let ended = asks(
        r#"echo done so far; echo AWAITING_USER_INPUT; echo '{"questions":[{"id":"a","question":"Which?","options":["x","y"]}],"context":"c"}'"#,
    );
    assert_eq!(ended.asked().items()[0].id().as_str(), "a");
    let file = asks(
        r#"echo '{"question":"From the file?","progress":"half"}' > s.json; echo PAUSED_FOR_INPUT: s.json"#,
    );
    assert_eq!(file.asked().items()[0].question(), "From the file?");
    assert_eq!(file.asked().partial_state()["progress"], "half");
    let broken = asks("echo AWAITING_USER_INPUT; echo '{\"questions\": ['");
    assert_eq!(broken.failed().code, FailureCode::SentinelMalformed);
    let outside = asks("echo PAUSED_FOR_INPUT: /etc/passwd");
    assert_eq!(outside.failed().code, FailureCode::SentinelMalformed);
}

/// Whoever was not answered may have notes all the same: they are handed over with a dispatch, or left by a thread that is continued.
#[test]
fn what_was_worked_out_before_reaches_an_agent_that_has_no_answer() {
    let state = json!({"ruled_out": ["C"]});
    let first = script("cat; cp .agora/resume.json seen.json")
        .input(json!({"task": "the task"}))
        .with(|manifest| manifest.partial_state.0 = state.clone())
        .run();
    let is_told = |ended: &Ended| {
        let prompt = &ended.adapter_ran().unwrap().stdout;
        prompt.contains("`.agora/resume.json`, as `partial_state`") && prompt.ends_with("the task")
    };
    let found = |ended: &Ended| serde_json::from_str::<Value>(&ended.file("seen.json").unwrap()).unwrap();
    let notes = json!({"threadId": "t_1", "partial_state": state});
    assert_eq!((found(&first), is_told(&first)), (notes.clone(), true));
    assert_eq!(first.finished().resumed_with, None);

    let second = first.continued(None).run();
    assert_eq!((found(&second), is_told(&second)), (notes, true));
    assert!(second.finished().resumed_with.unwrap().partial_state);

    let none = script("cat; ls .agora").input(json!({"task": "the task\n"})).run();
    assert_eq!(none.adapter_ran().unwrap().stdout, "the task\ninput.json\n");
}

/// Asks, is answered in another directory, asks again, and ends: the workspace, the state and the patch come along.
#[test]
fn the_answer_goes_on_where_the_agent_stopped() {
    let agent = r#"
        if ! [ -e .agora/resume.json ]; then
            echo one > one.txt; chmod 755 one.txt; ln -s one.txt link; mkdir empty; echo changed >> given.txt
            echo '{"question":"A or B?","options":["A","B"],"partial_state":{"ruled_out":["C"]}}' > .agora/needs_input.json
        elif ! grep -q '"answer": "B"' .agora/resume.json; then
            echo two > two.txt; echo '{"question":"Sure?"}' > .agora/needs_input.json
        else
            cat; rm one.txt; echo three > three.txt
        fi"#;
    let first =
        script(agent).input(json!({"task": "the task"})).capability("c", &[("given.txt", "given\n")]).run();
    assert_eq!(first.asked().items()[0].question(), "A or B?");
    assert_eq!(first.report().patch.unwrap().files, 3);

    let second = first.answered(json!({"q1": "A"})).run();
    assert_eq!(second.asked().items()[0].question(), "Sure?");
    assert_ne!(second.dispatch.dir(), first.dispatch.dir());
    let resume: Value = serde_json::from_str(&second.file(".agora/resume.json").unwrap()).unwrap();
    assert_eq!(resume["answer"], "A");
    assert_eq!(resume["answers"], json!({"q1": "A"}));
    assert_eq!((&resume["question"], &resume["questions"][0]["id"]), (&json!("A or B?"), &json!("q1")));
    assert_eq!(resume["partial_state"], json!({"ruled_out": ["C"]}));
    assert_eq!(resume.to_string().matches("ruled_out").count(), 1, "the state is there once");
    assert_eq!((&resume["answeredBy"], &resume["threadId"]), (&json!("user:ann"), &json!("t_1")));
    assert_eq!(
        second.file("given.txt").unwrap(),
        "given\nchanged\n",
        "capabilities are not laid over the agent's work"
    );
    let report = second.report();
    assert_eq!(report.patch.unwrap().files, 4);
    assert_eq!(report.patch_since_pause.unwrap().files, 1);
    let resumed = report.resumed_with.unwrap();
    assert!(resumed.workspace && resumed.partial_state && !resumed.session);

    let third = second.answered(json!({"q1": "B"})).run();
    let report = third.finished();
    let prompt = &third.adapter_ran().unwrap().stdout;
    assert!(
        prompt.starts_with("USER_INPUT_RESPONSE {\"q1\":\"B\"}\n") && prompt.ends_with("the task"),
        "{prompt}"
    );
    assert!(third.dispatch.work().join("empty").is_dir());
    assert_eq!(fs::read_link(third.dispatch.work().join("link")).unwrap().to_str(), Some("one.txt"));
    let patch = fs::read_to_string(third.out("patch.diff")).unwrap();
    for (name, there) in [
        ("b/one.txt", false),
        ("b/two.txt", true),
        ("b/three.txt", true),
        ("b/given.txt", true),
        ("b/link", true),
    ] {
        assert_eq!(patch.contains(&format!("+++ {name}\n")), there, "{name}\n{patch}");
    }
    assert_eq!(report.patch_since_pause.unwrap().files, 2);
}

#[test]
fn an_answer_without_a_good_receipt_starts_nothing() {
    let ask = || asks(&format!("echo '{{\"question\":\"?\",\"options\":[\"A\",\"B\"]}}' > {SENTINEL}"));
    let first = ask();
    let code = |dispatch: Dispatch| {
        let ended = dispatch.run();
        assert!(ended.adapter_ran().is_none());
        ended.failed().code.clone()
    };
    assert_eq!(code(first.answered(json!({"q1": "C"}))), FailureCode::ReceiptInvalid, "not an option");
    let mut keyless = first.answered(json!({"q1": "A"}));
    keyless.with_receipt_key = false;
    assert_eq!(code(keyless), FailureCode::ReceiptInvalid);
    let forged = first.answered(json!({"q1": "A"})).with(|manifest| {
        let mut text = serde_json::to_value(&manifest.continuation).unwrap();
        text["answered"]["receipt"]["statement"]["answers"]["q1"] = json!("B");
        manifest.continuation = serde_json::from_value(text).unwrap();
    });
    assert_eq!(code(forged), FailureCode::ReceiptInvalid, "changed after it was signed");
    let elsewhere =
        first.answered(json!({"q1": "A"})).with(|manifest| manifest.thread_id = "t_2".parse().unwrap());
    assert_eq!(code(elsewhere), FailureCode::ReceiptInvalid, "another thread's");
}

#[test]
fn a_thread_is_continued_with_a_word_more() {
    let first = script("cat; echo work >> work.txt; exit $(($(wc -l < work.txt) == 1))")
        .input(json!({"task": "t"}))
        .run();
    assert_eq!(first.failed().code, FailureCode::AgentExit);
    let second = first.continued(Some("also add a test")).run();
    second.finished();
    let prompt = &second.adapter_ran().unwrap().stdout;
    assert!(prompt.starts_with("also add a test\n\n") && prompt.ends_with("\n\nt"), "{prompt}");
    assert_eq!(second.file("work.txt").unwrap(), "work\nwork\n");
}

/// An answer is for the thread: whoever gave it is not asked again because the dispatch that got it failed.
#[test]
fn an_answer_is_told_again_when_the_dispatch_that_got_it_failed() {
    let agent = r#"
        echo run >> runs.txt
        if [ $(wc -l < runs.txt) = 1 ]; then
            echo '{"question":"A or B?","options":["A","B"],"partial_state":{"ruled_out":["C"]}}' > .agora/needs_input.json
        elif [ $(wc -l < runs.txt) -le 3 ]; then
            exit 1
        else
            cat; cp .agora/resume.json seen.json
        fi"#;
    let first = script(agent).input(json!({"task": "t"})).run();
    first.asked();
    let second = first.answered(json!({"q1": "A"})).run();
    assert_eq!(second.failed().code, FailureCode::AgentExit);
    let third = second.continued(None).run();
    assert_eq!(third.failed().code, FailureCode::AgentExit);
    let fourth = third.continued(Some("be quick")).run();
    assert!(fourth.finished().resumed_with.unwrap().partial_state);
    let prompt = &fourth.adapter_ran().unwrap().stdout;
    assert!(
        prompt.starts_with("USER_INPUT_RESPONSE {\"q1\":\"A\"}\n") && prompt.contains("\n\nbe quick\n\n"),
        "{prompt}"
    );
    let seen: Value = serde_json::from_str(&fourth.file("seen.json").unwrap()).unwrap();
    assert_eq!((&seen["answer"], &seen["partial_state"]), (&json!("A"), &json!({"ruled_out": ["C"]})));
    // What was used is not told again.
    let fifth = fourth.continued(None).run();
    assert!(!fifth.adapter_ran().unwrap().stdout.contains("USER_INPUT_RESPONSE"));
    let forged = third.continued(None).with(|manifest| {
        let mut text = serde_json::to_value(&manifest.continuation).unwrap();
        text["continued"]["answer"]["receipt"]["statement"]["answers"]["q1"] = json!("B");
        manifest.continuation = serde_json::from_value(text).unwrap();
    });
    assert_eq!(forged.run().failed().code, FailureCode::ReceiptInvalid, "changed after it was signed");
}

#[test]
fn what_was_left_opens_for_no_other_thread_and_not_when_it_was_changed() {
    let first = asks(&format!("echo '{{\"question\":\"?\"}}' > {SENTINEL}"));
    let sealed = first.out("workspace.sealed");
    let next = first.answered(json!({"q1": "x"}));
    let mut bytes = fs::read(&sealed).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&sealed, &bytes).unwrap();
    assert_eq!(next.run().failed().code, FailureCode::HashMismatch);
    fs::remove_file(&sealed).unwrap();
    bytes[last] ^= 1;
    fs::write(&sealed, &bytes).unwrap();
    let next = first.answered(json!({"q1": "x"}));
    fs::remove_file(&sealed).unwrap();
    assert_eq!(next.run().failed().code, FailureCode::BundleUnreachable);
}
