//! Endings: whatever is killed, whenever, nothing is left running, and the outcome is told or stored.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use agora_core::reason::FailureCode;
use agora_testkit::part;
use agora_testkit::worker::Dispatch;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");

fn script(script: &str) -> Dispatch {
    Dispatch::script(WORKER, script)
}

/// A pipe whose end of file comes when the last process that held it open is dead.
struct Lifeline(Receiver<()>);

impl Lifeline {
    /// Makes `lifeline` in the workspace; the agent opens it with `exec 9>lifeline`.
    fn of(dispatch: &Dispatch) -> Self {
        fs::create_dir_all(dispatch.work()).unwrap();
        let path = dispatch.work().join("lifeline");
        mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut held = File::open(path).unwrap();
            let _ = held.read_to_end(&mut Vec::new());
            let _ = sender.send(());
        });
        Self(receiver)
    }

    #[track_caller]
    fn assert_nobody_lives(&self) {
        assert!(self.0.recv_timeout(Duration::from_secs(20)).is_ok(), "something of the agent is alive");
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Agents that do everything to survive. Each opens the lifeline, so that whatever it starts holds it.
const SURVIVORS: [(&str, &str); 6] = [
    ("double fork", "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000' & ) & sleep 0.1"),
    ("own session", "setsid sh -c 'trap \"\" TERM; while true; do sleep 1000; done' & sleep 0.1"),
    ("keeps the output open", "sleep 1000 & disown 2>/dev/null; echo started"),
    ("a thousand forks", "i=0; while [ $i -lt 1000 ]; do sleep 1000 & i=$((i+1)); done"),
    ("a chain", "f() { (sleep 0.01; f) & }; f; sleep 0.1"),
    ("no signal", "trap '' TERM INT HUP; (trap '' TERM; sleep 1000) & sleep 0.1"),
];

#[test]
fn nothing_that_an_agent_started_survives_its_end() {
    for (name, agent) in SURVIVORS {
        let dispatch = script(&format!("exec 9>lifeline; {agent}"));
        let lifeline = Lifeline::of(&dispatch);
        let ended = dispatch.run();
        lifeline.assert_nobody_lives();
        assert_eq!(ended.summary(), "dispatch.finished", "{name}");
        assert!(ended.report().warnings.is_empty(), "{name}: {:?}", ended.report().warnings);
    }
}

#[test]
fn a_cancel_ends_the_agent_keeps_its_work_and_its_question() {
    for (name, agent) in SURVIVORS {
        let agent = format!(
            "exec 9>lifeline; echo half > work.txt; echo '{{\"question\":\"kept?\"}}' > .agora/needs_input.json; {agent}; touch ready; exec sleep 1000"
        );
        let dispatch = script(&agent);
        let lifeline = Lifeline::of(&dispatch);
        let child = dispatch.start();
        dispatch.wait_for_file("ready");
        signal(&child, Signal::TERM);
        let ended = dispatch.wait(child);
        lifeline.assert_nobody_lives();
        let report = ended.cancelled();
        assert_eq!(report.kept_question.unwrap().items()[0].question(), "kept?", "{name}");
        assert!(fs::read_to_string(ended.out("patch.diff")).unwrap().contains("+half"), "{name}");
    }
}

#[test]
fn an_agent_that_ignores_the_soft_signal_is_killed_after_its_grace() {
    let dispatch = script(
        "exec 9>lifeline; trap 'echo not now >> heard' TERM; touch ready; while true; do sleep 1; done",
    );
    let lifeline = Lifeline::of(&dispatch);
    let child = dispatch.start();
    dispatch.wait_for_file("ready");
    signal(&child, Signal::TERM);
    let ended = dispatch.wait(child);
    lifeline.assert_nobody_lives();
    ended.cancelled();
    let ran = ended.adapter_ran().unwrap();
    assert_eq!(ran.exit_code, 128 + 9);
    assert!((10_000..30_000).contains(&ran.duration_ms), "{}", ran.duration_ms);
    assert_eq!(ended.file("heard").unwrap(), "not now\n");
}

#[test]
fn limits_end_in_a_typed_failure_with_the_work_kept() {
    let late = script("echo half > work.txt; exec sleep 1000")
        .with(|manifest| manifest.limits.timeout_seconds = 1)
        .run();
    assert_eq!(late.failed().code, FailureCode::TimeLimit);
    assert!(fs::read_to_string(late.out("patch.diff")).unwrap().contains("+half"));

    let hungry =
        "echo half > work.txt; exec python3 -c 'x = bytearray(400 << 20); import time; time.sleep(1000)'";
    let hungry = script(hungry).with(|manifest| manifest.limits.memory_bytes = Some(128 << 20)).run();
    assert_eq!(hungry.failed().code, FailureCode::OutOfMemory, "{}", hungry.failed().detail);
    assert!(hungry.failed().detail.contains("128 MiB"));
    assert!(hungry.report().workspace_saved);

    let forks = "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; echo all forked";
    let forks = script(forks).with(|manifest| manifest.limits.processes = Some(50)).run();
    let text = &forks.adapter_ran().unwrap().stdout;
    assert!(!text.contains("all forked") || forks.adapter_ran().unwrap().stderr.contains("fork"), "{text}");
}

/// The worker is killed outright, at chosen and at many other moments of its life: nothing of the agent survives, and no half of an
/// outcome is left.
#[test]
fn a_worker_that_is_killed_leaves_nobody() {
    let hold = "setsid sh -c 'trap \"\" TERM; touch ready; sleep 1000' & sleep 1000";
    let in_setup = || script("true").capability("c", &[("agora-setup.sh", hold)]);
    let in_agent = || script(hold);
    let in_verify = || {
        let verify = json!({"command": hold, "timeoutSeconds": 100});
        Dispatch::of(WORKER, json!({"runtime": "command", "command": ["true"], "verify": verify}))
    };
    let in_channel = || {
        let files = [("agora-channel.json", r#"{"command": ["sh", "channel.sh"]}"#), ("channel.sh", hold)];
        script("sleep 1000").capability("c", &files)
    };
    let chosen: [&dyn Fn() -> Dispatch; 4] = [&in_setup, &in_agent, &in_verify, &in_channel];
    let more = if part::full() { 60 } else { 12 };
    let moments =
        (0..more).map(|round| (None, in_agent().capability("d", &[("agora-setup.sh", "sleep 0.02")]), round));
    for (ready, dispatch, round) in chosen.iter().map(|make| (Some(()), make(), 0)).chain(moments) {
        let child = dispatch.start();
        match ready {
            Some(()) => dispatch.wait_for_file("ready"),
            None => thread::sleep(Duration::from_millis(round * 80 / more)),
        }
        signal(&child, Signal::KILL);
        assert_eq!(child.wait_with_output().unwrap().status.code(), None);
        let mut alive = dispatch.processes();
        for _ in 0..2000 {
            if alive.is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
            alive = dispatch.processes();
        }
        assert!(alive.is_empty(), "{alive:?} live on");
        assert!(!dispatch.dir().join("out/outcome.json").exists(), "the engine decides what became of it");
    }
}

/// A cancel at every moment: one terminal event, told and stored, and nobody left.
#[test]
fn a_cancel_at_any_moment_has_one_outcome() {
    let rounds = if part::full() { 100 } else { 20 };
    let mut kinds = std::collections::BTreeMap::<String, u32>::new();
    for round in 0..rounds {
        let dispatch =
            script("sleep 0.03; echo done > f; exit 0").capability("c", &[("agora-setup.sh", "sleep 0.02")]);
        let child = dispatch.start();
        thread::sleep(Duration::from_millis(round * 160 / rounds));
        signal(&child, Signal::TERM);
        let ended = dispatch.wait(child);
        if ended.stdout.is_empty() {
            // The signal came before anybody listened for it, and ended the process as signals do.
            assert_eq!(ended.code, None);
            *kinds.entry("before".into()).or_default() += 1;
            continue;
        }
        *kinds.entry(ended.summary().as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!(kinds.contains_key("dispatch.cancelled"), "{kinds:?}");
    assert!(
        kinds
            .keys()
            .all(|kind| ["before", "dispatch.cancelled", "dispatch.finished"].contains(&kind.as_str())),
        "{kinds:?}"
    );
}

#[test]
fn a_slow_reader_gets_every_line_whole() {
    let big = json!({"question": "?", "partial_state": "x".repeat(1_000_000)}).to_string();
    let dispatch = script("cat > .agora/needs_input.json").input(json!({"task": big}));
    let mut child = dispatch.start();
    let mut pipe = child.stdout.take().unwrap();
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    // As slow as a reader may be that reads at all.
    while let Ok(count) = pipe.read(&mut piece) {
        if count == 0 {
            break;
        }
        read.extend_from_slice(&piece[..count]);
        thread::sleep(Duration::from_millis(1));
    }
    assert!(child.wait().unwrap().success());
    let last = read.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
    assert!(last.len() > 1_000_000);
    let stored = fs::read(dispatch.dir().join("out/outcome.json")).unwrap();
    assert_eq!(stored.trim_ascii_end(), last);
}

#[test]
fn a_reader_that_is_gone_changes_nothing() {
    let dispatch = script("echo '{\"question\":\"?\"}' > .agora/needs_input.json");
    let mut child = dispatch.start();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("worker.boot"));
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(0));
    let stored = fs::read_to_string(dispatch.dir().join("out/outcome.json")).unwrap();
    assert!(stored.contains("\"dispatch.needs_input\""));
}

#[test]
fn an_outcome_that_is_there_already_is_the_one_that_holds() {
    let dispatch = script("sleep 0.05");
    let out = dispatch.dir().join("out");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("outcome.json"), "{\"kind\":\"dispatch.cancelled\"}\n").unwrap();
    let mut child = dispatch.start();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0));
    assert!(
        said.ends_with("{\"kind\":\"dispatch.cancelled\"}\n") && !said.contains("dispatch.finished"),
        "{said}"
    );
}

#[test]
fn six_hundred_mebibytes_and_a_line_of_a_hundred_change_nothing_but_the_log() {
    let flood = script("head -c 629145600 /dev/zero | tr '\\0' 'x' | fold -w 1000; echo the end").run();
    let report = flood.finished();
    assert!(report.output.text.ends_with("the end\n") && report.output.text.starts_with("xxx"));
    assert!(report.output.text.len() < 5 << 20);
    let log = fs::metadata(flood.out("agent.stdout.log")).unwrap().len();
    assert!((60 << 20..70 << 20).contains(&log), "{log}");
    let line = script("head -c 104857600 /dev/zero | tr '\\0' 'y'; echo; echo the end").run();
    assert!(line.finished().output.text.ends_with("the end\n"));
}

#[test]
fn what_a_worker_cannot_use_is_said_on_standard_error() {
    let dispatch = script("true");
    let run = |line: &str, drop: Option<&str>| {
        use std::io::Write;
        let mut command = dispatch.command();
        if let Some(name) = drop {
            command.env_remove(name);
        }
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(line.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run("", None).contains("empty"));
    assert!(run("{\"threadKey\":\"hunter2\"", None).contains("cut"));
    let malformed = run("{\"threadKey\":\"hunter2hunter2\"}\n", None);
    assert!(
        malformed.contains("not what this worker reads") && !malformed.contains("hunter2"),
        "{malformed}"
    );
    assert!(run("", Some("AGORA_DISPATCH_ID")).contains("`AGORA_DISPATCH_ID` is not set"));
}
