//! The guard that is there before it is needed: a fork of the worker.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::io::Write;
use std::process::Child;
use std::thread;
use std::time::Duration;

use agora_testkit::worker::Dispatch;
use rustix::process::{Pid, Signal, kill_process};

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");
const GUARD: &str = "agora-guard";

fn read(id: i32, file: &str) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{id}/{file}")).unwrap_or_default()).into_owned()
}

/// Returns the guard of a worker that was told nothing yet.
fn waiting_guard(worker: &Child) -> i32 {
    let children = || read(worker.id().try_into().unwrap(), &format!("task/{}/children", worker.id()));
    for _ in 0..2000 {
        let guard = children().split_whitespace().map(|id| id.parse().unwrap()).next();
        match guard {
            Some(guard) if read(guard, "comm").trim_end() == GUARD => return guard,
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    panic!("the worker has no guard: {:?}", children());
}

/// Tells whether a process is there, and not only remembered by whoever has to take note of its end.
fn is_alive(id: i32) -> bool {
    read(id, "stat").rsplit_once(')').is_some_and(|(_, state)| !state.starts_with(" Z"))
}

fn tell(worker: &mut Child, dispatch: &Dispatch) {
    let line = dispatch.bootstrap().to_line();
    worker.stdin.take().unwrap().write_all(line.expose().as_bytes()).unwrap();
}

#[test]
fn it_stands_over_the_program_and_has_forgotten_what_is_in_the_workers_environment() {
    let script = "echo ready > ready; while [ ! -e go ]; do sleep 0.02; done; echo \"$CANARY\" > seen";
    let dispatch = Dispatch::script(WORKER, script).variable("CANARY", "canary-7f2e");
    let mut worker = dispatch.command().spawn().unwrap();
    let guard = waiting_guard(&worker);
    tell(&mut worker, &dispatch);
    dispatch.wait_for_file("ready");
    let found = dispatch.processes();
    assert!(found.iter().any(|process| process.id == guard && process.name == GUARD), "{found:?}");
    let known = read(guard, "environ");
    let known: Vec<&str> = known.split('\0').filter(|variable| !variable.is_empty()).collect();
    let names = |variable: &&str| variable.split('=').next().unwrap().to_owned();
    let mut names: Vec<String> = known.iter().map(names).collect();
    names.sort();
    assert_eq!(names, ["AGORA_DISPATCH_DIR", "AGORA_DISPATCH_ID"]);
    fs::write(dispatch.work().join("go"), "").unwrap();
    let ended = dispatch.wait(worker);
    ended.finished();
    assert_eq!(ended.file("seen").as_deref(), Some("\n"));
    assert_eq!(ended.dispatch.processes(), []);
}

#[test]
fn when_somebody_kills_it_another_one_is_started() {
    let dispatch = Dispatch::script(WORKER, "echo done > done");
    let mut worker = dispatch.command().spawn().unwrap();
    let guard = waiting_guard(&worker);
    kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
    tell(&mut worker, &dispatch);
    let ended = dispatch.wait(worker);
    ended.finished();
    assert_eq!(ended.file("done").as_deref(), Some("done\n"));
    assert_eq!(ended.dispatch.processes(), []);
}

#[test]
fn it_ends_with_a_worker_that_has_nothing_to_do_and_with_one_that_is_killed() {
    for kill in [false, true] {
        let dispatch = Dispatch::script(WORKER, "true");
        let mut worker = dispatch.command().spawn().unwrap();
        let guard = waiting_guard(&worker);
        if kill {
            worker.kill().unwrap();
        }
        drop(worker.stdin.take());
        assert!(!worker.wait().unwrap().success());
        let lives = || is_alive(guard);
        for _ in 0..2000 {
            if !lives() {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!lives(), "it lives on (worker killed: {kill})");
    }
}
