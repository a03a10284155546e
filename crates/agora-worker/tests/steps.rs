//! The fourteen steps with a shell script as the agent: what is said, what is left, and how each failure is told.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use agora_core::reason::FailureCode;
use agora_core::wire::bootstrap::Supplied;
use agora_core::wire::line::Said;
use agora_testkit::worker::Dispatch;
use serde_json::{Value, json};

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");

fn script(script: &str) -> Dispatch {
    Dispatch::script(WORKER, script)
}

#[test]
fn a_run_from_boot_to_end() {
    let ended = script("cat; cat .agora/input.json; ls -a; echo oops >&2; echo new > made.txt")
        .input(json!({"task": "count the files"}))
        .capability("tools", &[("tool.sh*", "#!/bin/sh\n"), ("docs/readme.md", "hello\n")])
        .run();
    let report = ended.finished();
    assert_eq!(
        ended.kinds(),
        ["worker.boot", "dispatch.started", "runtime.adapter.ran", "dispatch.finished"]
    );
    let ran = ended.adapter_ran().unwrap();
    assert!(ran.stdout.starts_with("count the files"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\"task\": \"count the files\"") && ran.stdout.contains("tool.sh"));
    assert_eq!((ran.stderr.as_str(), ran.exit_code), ("oops\n", 0));
    assert_eq!(report.output.text, ran.stdout);
    assert_eq!((report.exit_code, report.workspace_saved), (Some(0), true));
    let patch = report.patch.unwrap();
    assert_eq!((patch.files, patch.insertions), (1, 1));
    let text = fs::read_to_string(ended.out("patch.diff")).unwrap();
    assert!(
        text.contains("+++ b/made.txt") && !text.contains("tool.sh") && !text.contains(".agora"),
        "{text}"
    );
    let mode = fs::metadata(ended.dispatch.work().join("tool.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(fs::read_to_string(ended.out("agent.stderr.log")).unwrap(), "oops\n");
}

#[test]
fn the_lines_are_numbered_without_a_gap() {
    for text in ["true", "exit 3", "echo '{\"question\":\"q\"}' > .agora/needs_input.json"] {
        let ended = script(text).run();
        let numbers: Vec<u64> = ended.lines.iter().map(|line| line.seq).collect();
        assert_eq!(numbers, (1..=4).collect::<Vec<u64>>(), "{text}: {}", ended.stdout);
        let report: Value =
            serde_json::from_str(&fs::read_to_string(ended.out("report.json")).unwrap()).unwrap();
        assert_eq!(report["seq"], 5, "{text}");
    }
}

#[test]
fn the_environment_is_a_short_list_then_bundles_then_secrets() {
    let ended = script("env | sort")
        .variable("AWS_SECRET_ACCESS_KEY", "ambient")
        .variable("SSH_AUTH_SOCK", "/ambient")
        .variable("LC_ALL", "C")
        .env_with_secrets(
            &[("A", "1"), ("B", "1"), ("AGORA_CLAUDE_PERMISSION_MODE", "strict")],
            &[("C", "local:c")],
        )
        .env(&[("B", "2")])
        .secret("local:c", "from-the-bundle")
        .secret("own", "from-the-dispatch")
        .with(|manifest| drop(manifest.secrets.insert("D".parse().unwrap(), "own".into())))
        .run();
    ended.finished();
    let ran = ended.adapter_ran().unwrap();
    let names: Vec<&str> = ran.stdout.lines().filter_map(|line| line.split('=').next()).collect();
    assert_eq!(names, ["A", "B", "C", "D", "HOME", "LC_ALL", "PATH", "PWD", "TMPDIR"], "{}", ran.stdout);
    assert!(ran.stdout.contains("B=2\n"));
    assert!(ran.stdout.contains("C=<redacted:secret>\nD=<redacted:secret>\n"));
    assert!(ran.stdout.contains("HOME=/home/agent\n"), "a worker without a home of its own");
    assert!(ran.stdout.contains("TMPDIR=/tmp\n"));
}

#[test]
fn a_setup_script_prepares_and_its_failure_stops_the_agent() {
    let good = script("cat made-by-setup")
        .capability("a", &[("agora-setup.sh", "echo hello; echo from setup > made-by-setup")])
        .run();
    good.finished();
    assert_eq!(
        good.kinds(),
        ["worker.boot", "dispatch.started", "setup-script.ran", "runtime.adapter.ran", "dispatch.finished"]
    );
    assert_eq!(good.adapter_ran().unwrap().stdout, "from setup\n");
    assert_eq!(good.report().patch.unwrap().files, 0, "the baseline is taken after the setup script");

    let bad =
        script("echo ran").capability("a", &[("agora-setup.sh*", "#!/bin/sh\necho why >&2; exit 3\n")]).run();
    assert_eq!(bad.failed().code, FailureCode::SetupFailed);
    assert!(bad.failed().detail.contains("ended with code 3"), "{}", bad.failed().detail);
    assert!(bad.adapter_ran().is_none());
    assert!(bad.lines.iter().any(|line| matches!(&line.said, Said::SetupRan(ran) if ran.stderr == "why\n")));

    let slow = script("echo ran")
        .env(&[("AGORA_SETUP_TIMEOUT_SECONDS", "1")])
        .capability("a", &[("agora-setup.sh", "sleep 1000")])
        .run();
    assert!(slow.failed().detail.contains("did not end within 1 seconds"), "{}", slow.failed().detail);
}

#[test]
fn every_failure_before_the_agent_has_its_code() {
    let code = |dispatch: Dispatch| {
        let ended = dispatch.run();
        assert!(ended.adapter_ran().is_none(), "the agent did not run");
        (ended.failed().code.clone(), ended.failed().detail.clone(), ended.kinds().len())
    };
    let capable = || script("true").capability("tools", &[("a.txt", "aaaa")]);

    let altered = capable();
    fs::write(altered.stored("tools.pack"), "aaab").unwrap();
    assert_eq!(code(altered).0, FailureCode::HashMismatch);
    let longer = capable();
    fs::write(longer.stored("tools.pack"), "aaaab").unwrap();
    assert_eq!(code(longer).0, FailureCode::HashMismatch);
    let shorter = capable();
    fs::write(shorter.stored("tools.pack"), "aaa").unwrap();
    assert_eq!(code(shorter).0, FailureCode::HashMismatch);
    let gone = capable();
    fs::remove_file(gone.stored("tools.pack")).unwrap();
    assert_eq!(code(gone).0, FailureCode::BundleUnreachable);
    let other = script("true");
    fs::write(other.stored("subagent"), "{}").unwrap();
    assert_eq!(code(other).0, FailureCode::HashMismatch);
    let swapped = script("true").env(&[("A", "b")]).with(|manifest| {
        let env = manifest.env.remove(0);
        manifest.subagent = env;
    });
    assert_eq!(code(swapped).0, FailureCode::BundleMalformed);
    let fifo = capable();
    fs::remove_file(fifo.stored("tools.pack")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, fifo.stored("tools.pack"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(code(fifo).0, FailureCode::BundleUnreachable, "nobody waits on a FIFO");

    let missing = || script("true").env_with_secrets(&[], &[("K", "cmd:op read x")]);
    let (found, detail, _) =
        code(missing().no_secret("cmd:op read x", Supplied::Missing("no such item".into())));
    assert_eq!(found, FailureCode::SecretMissing);
    assert!(detail.contains("`K`") && detail.contains("no such item"), "{detail}");
    let out = missing().no_secret("cmd:op read x", Supplied::Unreachable("timed out".into()));
    assert_eq!(code(out).0, FailureCode::SecretUnreachable);
    assert_eq!(code(missing()).0, FailureCode::SecretMissing);

    assert_eq!(code(script("true").adapter("no-such-adapter")).0, FailureCode::AdapterMissing);
    let unknown = Dispatch::of(WORKER, json!({"runtime": "command", "command": ["/no/such/program"]}));
    let (found, detail, _) = code(unknown);
    assert_eq!(found, FailureCode::AgentNotStarted);
    assert!(detail.contains("/no/such/program"), "{detail}");

    let clash = script("true").capability("a", &[("x", "file")]).capability("b", &[("x/y", "below")]);
    assert_eq!(code(clash).0, FailureCode::OverlayConflict);
    let linked = script("true").file("real/f", "").capability("a", &[("dir/x", "file")]);
    symlink("real", linked.work().join("dir")).unwrap();
    assert_eq!(
        code(linked).0,
        FailureCode::OverlayConflict,
        "nothing is written through a link of the workspace"
    );

    let template = json!({"runtime": "command", "command": ["true"], "promptTemplate": "{{nothing}}"});
    assert_eq!(code(Dispatch::of(WORKER, template)).0, FailureCode::EnvironmentInvalid);
    let channel = script("true").capability("a", &[("agora-channel.json", r#"{"command": ["./no-such"]}"#)]);
    assert_eq!(code(channel).0, FailureCode::ChannelMissing);
}

#[test]
fn what_loses_is_said() {
    let ended = script("cat f settings")
        .capability("first", &[("f", "first\n"), ("settings", "same\n")])
        .capability("second", &[("f", "second\n"), ("settings", "same\n")])
        .run();
    ended.finished();
    assert_eq!(ended.adapter_ran().unwrap().stdout, "second\nsame\n");
    let dropped: Vec<String> = ended
        .lines
        .iter()
        .filter_map(|line| match &line.said {
            Said::OverlayDropped { path, winner, loser } => Some(format!("{path}: {winner} over {loser}")),
            _ => None,
        })
        .collect();
    assert_eq!(dropped, ["f: second over first"]);
}

/// The file of the last state is all that there is to see of a runtime that says nothing.
#[test]
fn progress_names_the_step() {
    let step = |dispatch: Dispatch| -> Value {
        let ended = dispatch.run();
        serde_json::from_slice(&fs::read(ended.out("progress.json")).unwrap()).unwrap()
    };
    let progress = step(script("echo working"));
    assert_eq!((&progress["step"], &progress["action"]), (&json!("agent"), &Value::Null));
    let failing = script("true").capability("setup", &[("agora-setup.sh", "exit 1\n")]);
    assert_eq!(step(failing)["step"], "setup");
    let verified = json!({"runtime": "command", "command": ["true"], "verify": {"command": "true"}});
    assert_eq!(step(Dispatch::of(WORKER, verified))["step"], "verify");
}

#[test]
fn verify_reports_and_changes_nothing() {
    let dispatch = |command: &str| {
        let subagent = json!({"runtime": "command", "command": ["/bin/sh", "-c", "echo work > f"],
            "verify": {"command": command, "timeoutSeconds": 1}});
        let ended = Dispatch::of(WORKER, subagent).secret("s", "hunter2hunter2").run();
        let report = ended.finished();
        assert_eq!(report.patch.as_ref().unwrap().files, 1, "what verify leaves is not in the patch");
        assert!(ended.kinds().contains(&"verify.ran".to_owned()));
        report.verify.unwrap()
    };
    let good = dispatch("grep work f; touch build; echo hunter2hunter2");
    assert!(good.passed);
    assert_eq!(good.report, "work\n<redacted:secret>\n");
    assert!(!dispatch("echo no >&2; exit 1").passed);
    let slow = dispatch("sleep 1000 & sleep 1000");
    assert!(!slow.passed && slow.report.contains("did not end within 1 seconds"), "{}", slow.report);
    let asks = dispatch("echo '{\"question\":\"?\"}' > .agora/needs_input.json");
    assert!(asks.passed, "a question of the verify command's is nobody's");
}

#[test]
fn a_channel_brings_messages_and_may_end_the_agent() {
    let channel = r#"#!/bin/sh
        echo '{"text": "hello"}'; echo 'not json'; echo '[1]'; printf '{"text": "%s"}\n' "$(pwd)"
        while ! [ -e seen ]; do sleep 0.01; done
        touch .agora/control/terminate; exec sleep 1000"#;
    let agent = "trap 'echo ended softly; exit 0' TERM
        while ! [ \"$(cat .agora/channel/inbox.jsonl | wc -l)\" = 2 ]; do sleep 0.01; done
        cat .agora/channel/inbox.jsonl; touch seen; while true; do sleep 0.05; done";
    let files = [("agora-channel.json", r#"{"command": ["./channel.sh"]}"#), ("channel.sh*", channel)];
    let ended = script(agent).capability("chat", &files).run();
    let report = ended.finished();
    let stdout = &ended.adapter_ran().unwrap().stdout;
    assert!(stdout.starts_with("{\"text\":\"hello\"}\n{\"text\":\"/"), "{stdout}");
    assert!(stdout.ends_with("ended softly\n"), "{stdout}");
    assert!(report.warnings.iter().any(|warning| warning.contains("2 messages")), "{:?}", report.warnings);
}

#[test]
fn outputs_are_kept_apart() {
    let ended = script("mkdir -p .agora/outputs/a && echo result > .agora/outputs/a/r.txt").run();
    let report = ended.finished();
    assert_eq!(report.outputs[0].path, "a/r.txt");
    assert_eq!(fs::read_to_string(ended.out(&report.outputs[0].artifact.path)).unwrap(), "result\n");
    assert_eq!(report.patch.unwrap().files, 0);
}
