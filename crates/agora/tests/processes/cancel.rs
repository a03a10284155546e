//! Cancelling from another process, in every state, and by Ctrl-C.

use std::fs;
use std::process::Child;

use agora_core::state::{DispatchState, QuestionState, ThreadState};
use agora_testkit::pipe::LifePipe;
use rustix::process::Signal;

use crate::support::{Place, id_of, run, signal, until, wait};

/// An agent that says when it runs, and has something started that is nobody's child.
fn stubborn(place: &Place, pipe: &LifePipe) {
    let pipe = pipe.path();
    let script = format!(
        "exec 3>'{}'; (setsid sh -c 'trap \"\" TERM INT HUP; echo ready >&3; sleep 1000' &); sleep 1000",
        pipe.display()
    );
    place.agent("stubborn", &script);
}

#[track_caller]
fn is_cancelled(place: &Place, id: &str, command: Child) {
    let view = place.recorded(id).unwrap();
    assert_eq!(view.state, DispatchState::Cancelled);
    assert_eq!(*place.thread(&view.job.thread_id).thread.state(), ThreadState::Cancelled);
    let ran = wait(command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("\"state\":\"cancelled\""), "{ran:?}");
}

#[test]
fn one_that_runs_is_over_when_the_cancel_returns() {
    let (place, mut pipe) = (Place::new(), LifePipe::new());
    stubborn(&place, &pipe);
    let command = place.start(&run("stubborn", "d_runs", &[]));
    pipe.ready();
    let cancelled = place.cli.run(&["cancel", "d_runs", "--json"]).json();
    assert!(pipe.is_over(), "something is left");
    assert_eq!(cancelled["cancelled"], true);
    is_cancelled(&place, "d_runs", command);
    assert_eq!(place.leftovers(), Vec::<String>::new());
    let again = place.cli.run(&["cancel", "d_runs"]);
    assert!(again.stderr.contains("it was cancelled before"), "{again:?}");
}

#[test]
fn one_that_waits_for_room_never_runs() {
    let (place, mut pipe) = (Place::new(), LifePipe::new());
    place.configure("[target.local]\nmax_concurrent = 1\n");
    stubborn(&place, &pipe);
    place.agent("quick", "echo done");
    let first = place.start(&run("stubborn", "d_first", &[]));
    pipe.ready();
    let waits = place.start(&run("quick", "d_waits", &[]));
    until("it waits", || place.recorded("d_waits").is_some());
    assert_eq!(place.show("d_waits")["state"], "queued");
    assert_eq!(place.cli.run(&["cancel", "d_waits", "--json"]).json()["state"], "cancelled");
    is_cancelled(&place, "d_waits", waits);
    let ended = ["dispatch.accepted", "dispatch.cancelled", "thread.cancelled", "thread.ended"];
    assert_eq!(place.kinds("d_waits"), ended);
    assert!(!place.runs().contains_key("d_waits"));
    let _ = place.cli.run(&["cancel", "d_first"]).success();
    is_cancelled(&place, "d_first", first);
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// Before the worker has said that it started: while it lays out the workspace.
#[test]
fn one_that_starts_is_over_when_the_cancel_returns() {
    let place = Place::new();
    place.agent("sleeps", "sleep 1000");
    for round in 0..5 {
        let id = format!("d_starts-{round}");
        let command = place.start(&run("sleeps", &id, &[]));
        until("there is a worker", || place.dispatch_dir(&id).join("in/worker.json").exists());
        let cancelled = place.cli.run(&["cancel", &id, "--json"]).json();
        assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
        is_cancelled(&place, &id, command);
        assert_eq!(place.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn one_that_asked_stays_as_it_is_and_its_question_is_withdrawn() {
    let place = Place::new();
    place.agent("asks", "echo '{\"question\": \"which?\"}' > .agora/needs_input.json");
    let asked = place.dispatch("asks", "d_asks", &["--secret", "KEY=env:A_SECRET"]);
    assert_eq!(asked.code, Some(4), "{asked:?}");
    assert!(place.cli.agora_home().join("secrets/+thread").exists(), "its thread is open");
    assert_eq!(place.cli.run(&["cancel", "q_asks", "--json"]).json()["state"], "cancelled");
    let view = place.recorded("d_asks").unwrap();
    assert_eq!(view.state, DispatchState::NeedsInput);
    let thread = place.thread(&view.job.thread_id).thread;
    assert_eq!((thread.state(), thread.has_ended()), (&ThreadState::Cancelled, true));
    assert_eq!(thread.questions()[0].state, QuestionState::Cancelled);
    assert_eq!(
        place.kinds("d_asks")[2..],
        ["dispatch.needs_input", "question.opened", "question.cancelled", "thread.cancelled", "thread.ended"]
    );
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn ctrl_c_cancels_and_leaves_nothing() {
    let (place, mut pipe) = (Place::new(), LifePipe::new());
    stubborn(&place, &pipe);
    let command = place.start(&run("stubborn", "d_1", &[]));
    pipe.ready();
    signal(id_of(&command), Signal::INT);
    let ran = wait(command);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(pipe.is_over(), "something is left");
    assert_eq!(place.recorded("d_1").unwrap().state, DispatchState::Cancelled);
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn ctrl_c_twice_leaves_at_once_and_the_next_command_takes_it_in() {
    let place = Place::new();
    let ready = place.mark("ready");
    // It takes its time, so that the first Ctrl-C is not done when the second comes.
    place
        .agent("slow", &format!("trap 'sleep 1; exit 1' TERM; touch {}; sleep 1000 & wait", ready.display()));
    let command = place.start(&run("slow", "d_1", &[]));
    until("it runs", || ready.exists());
    signal(id_of(&command), Signal::INT);
    until("the wish is recorded", || {
        let thread = place.recorded("d_1").unwrap().job.thread_id;
        place.thread(&thread).cancel_wish.is_some()
    });
    signal(id_of(&command), Signal::INT);
    let ran = wait(command);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert_eq!(ran.stdout, "", "nothing is known of its end yet");
    place.come_to_rest();
    assert_eq!(place.recorded("d_1").unwrap().state, DispatchState::Cancelled);
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// Whoever waits for what somebody else carried, and took it over, still hears Ctrl-C.
#[test]
fn ctrl_c_cancels_what_was_taken_over() {
    let (place, mut pipe) = (Place::new(), LifePipe::new());
    stubborn(&place, &pipe);
    let key = ["--idempotency-key", "one"];
    let mut first = place.start(&run("stubborn", "d_1", &key));
    pipe.ready();
    let second = place.start(&["dispatch", "run", "--subagent", "stubborn", "--idempotency-key", "one"]);
    // It waits when it has a thread that waits for the lease.
    until("the second waits", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", second.id())).unwrap();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.flatten().any(|task| name(task).trim() == "lease")
    });
    signal(id_of(&first), Signal::KILL);
    first.wait().unwrap();
    until("the second has it", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", second.id())).unwrap();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.flatten().any(|task| name(task).trim() == "worker-life")
    });
    signal(id_of(&second), Signal::INT);
    let ran = wait(second);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(pipe.is_over(), "something is left");
    assert_eq!(place.recorded("d_1").unwrap().state, DispatchState::Cancelled);
    assert_eq!(place.leftovers(), Vec::<String>::new());
}
