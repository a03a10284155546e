//! Signals to the worker itself, at every step: right after each thing that it says, and in the middle of each program that it runs.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::thread;
use std::time::Duration;

use agora_testkit::worker::Dispatch;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");

/// Everything that a run without a question says, in its order.
const SAID: [&str; 6] = [
    "worker.boot",
    "dispatch.started",
    "setup-script.ran",
    "runtime.adapter.ran",
    "verify.ran",
    "dispatch.finished",
];

/// A dispatch with every program that a worker may run.
fn whole(setup: &str, channel: &str, agent: &str, verify: &str) -> Dispatch {
    let verify = json!({"command": verify, "timeoutSeconds": 100});
    let agent = json!({"runtime": "command", "command": ["/bin/sh", "-c", agent], "verify": verify});
    let files = [
        ("agora-setup.sh", setup),
        ("agora-channel.json", r#"{"command": ["sh", "channel.sh"]}"#),
        ("channel.sh", channel),
    ];
    Dispatch::of(WORKER, agent).capability("c", &files)
}

/// One in which every program takes a moment, so that a signal has something to end.
fn slow() -> Dispatch {
    whole("sleep 0.1", "exec sleep 1000", "echo half > work.txt; sleep 0.1", "sleep 0.1")
}

fn signal(child: &Child, signal: Signal) {
    // It may have ended already.
    let _ = kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), signal);
}

fn kind(line: &str) -> String {
    serde_json::from_str::<Value>(line).unwrap()["kind"].as_str().unwrap().to_owned()
}

fn is_terminal(line: &str) -> bool {
    ["dispatch.finished", "dispatch.cancelled", "dispatch.failed", "dispatch.needs_input"]
        .contains(&kind(line).as_str())
}

/// Sends a signal right after a line, and returns all lines.
fn signal_after(dispatch: &Dispatch, said: &str, sent: Signal) -> Vec<String> {
    let mut child = dispatch.start();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "`{said}` was not said: {lines:?}");
        let found = kind(&line) == said;
        lines.push(line);
        if found {
            break;
        }
    }
    signal(&child, sent);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    child.wait().unwrap();
    lines.extend(rest.split_inclusive('\n').map(str::to_owned));
    lines
}

fn outcome(dispatch: &Dispatch) -> Option<String> {
    fs::read_to_string(dispatch.dir().join("out/outcome.json")).ok()
}

/// After SIGKILL the guard sweeps, and nobody is told when it is done.
#[track_caller]
fn assert_nobody_lives(dispatch: &Dispatch) {
    for _ in 0..2000 {
        if dispatch.processes().is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?} live on", dispatch.processes());
}

#[test]
fn a_cancel_after_each_line_has_one_outcome_told_and_stored() {
    for (place, said) in SAID.into_iter().enumerate() {
        let dispatch = slow();
        let lines = signal_after(&dispatch, said, Signal::TERM);
        assert_eq!(dispatch.processes(), [], "{said}");
        let terminal: Vec<&String> = lines.iter().filter(|line| is_terminal(line)).collect();
        assert_eq!(terminal.len(), 1, "{said}: {lines:?}");
        assert_eq!(outcome(&dispatch).as_ref(), Some(terminal[0]), "{said}");
        assert_eq!(lines.last(), Some(terminal[0]), "{said}");
        let ended = kind(terminal[0]);
        match place {
            0..4 => assert_eq!(ended, "dispatch.cancelled", "{said}"),
            // The last moments: whichever came first.
            4 => assert!(["dispatch.cancelled", "dispatch.finished"].contains(&ended.as_str()), "{ended}"),
            _ => assert_eq!(ended, "dispatch.finished", "what is told stays told"),
        }
    }
}

#[test]
fn a_worker_that_is_killed_after_each_line_leaves_nobody_and_no_half_of_an_outcome() {
    for (place, said) in SAID.into_iter().enumerate() {
        let dispatch = slow();
        let lines = signal_after(&dispatch, said, Signal::KILL);
        assert_nobody_lives(&dispatch);
        let terminal = lines.iter().find(|line| is_terminal(line) && line.ends_with('\n'));
        match outcome(&dispatch) {
            Some(stored) => {
                assert!(place >= 4 && stored.ends_with('\n') && is_terminal(&stored), "{said}: {stored}");
            }
            None => assert_eq!(terminal, None, "{said}: what is told is stored before"),
        }
    }
}

#[test]
fn a_cancel_in_the_middle_of_each_program_ends_it() {
    let hold = "setsid sh -c 'trap \"\" TERM INT HUP; touch ready; sleep 1000' & sleep 1000";
    let cases = [
        ("setup", whole(hold, "exec sleep 1000", "true", "true"), 0),
        ("channel", whole("true", hold, "echo half > half; mv half work.txt; exec sleep 1000", "true"), 1),
        ("agent", whole("true", "exec sleep 1000", &format!("echo half > work.txt; {hold}"), "true"), 1),
        ("verify", whole("true", "exec sleep 1000", "echo half > work.txt", hold), 1),
    ];
    for (name, dispatch, files) in cases {
        let child = dispatch.start();
        dispatch.wait_for_file("ready");
        if name == "channel" {
            dispatch.wait_for_file("work.txt");
        }
        signal(&child, Signal::TERM);
        let ended = dispatch.wait(child);
        let report = ended.cancelled();
        assert_eq!(ended.dispatch.processes(), [], "{name}");
        let patch = report
            .patch
            .map_or(0, |_| u64::from(fs::read_to_string(ended.out("patch.diff")).unwrap().contains("+half")));
        assert_eq!(patch, files, "{name}: the agent's work is kept");
    }
}

/// Nobody ever reads: the worker cannot say how it went, and it is stored all the same.
#[test]
fn a_reader_that_never_reads_finds_the_outcome_in_storage() {
    let question = json!({"question": "?", "partial_state": "x".repeat(1_000_000)}).to_string();
    let dispatch = Dispatch::script(WORKER, "cat > .agora/needs_input.json").input(json!({"task": question}));
    let mut child = dispatch.start();
    let mut stored = None;
    for _ in 0..2000 {
        stored = outcome(&dispatch);
        if stored.is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let stored = stored.unwrap();
    assert!(stored.len() > 1_000_000 && stored.ends_with('\n'));
    assert_eq!(kind(&stored), "dispatch.needs_input");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert_nobody_lives(&dispatch);
}
