//! What a dead engine, a dead worker and another boot leave, and what an agent forges.

use std::fs;
use std::process::Child;

use agora_core::reason::FailureCode;
use agora_core::state::DispatchState;
use agora_testkit::pipe::LifePipe;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Place, id_of, run, signal, until, wait};

/// Starts an agent that waits for the file `gate`, and returns when it runs and that is recorded.
fn start(place: &Place, id: &str, more: &[&str]) -> Child {
    let (ready, gate) = (place.mark("ready"), place.mark("gate"));
    place.agent(
        "waits",
        &format!(
            "echo half > half.txt; touch {}; while [ ! -e {} ]; do sleep 0.02; done; echo whole",
            ready.display(),
            gate.display()
        ),
    );
    let command = place.start(&run("waits", id, more));
    until("it runs", || ready.exists());
    until("its start is recorded", || {
        place.recorded(id).is_some_and(|view| view.state == DispatchState::Running)
    });
    command
}

fn kill(mut engine: Child) {
    signal(id_of(&engine), Signal::KILL);
    engine.wait().unwrap();
}

#[track_caller]
fn is_lost(place: &Place, id: &str) -> String {
    let view = place.recorded(id).unwrap();
    let DispatchState::Failed(failure) = view.state else { panic!("{:?}", view.state) };
    assert_eq!((failure.code, failure.retryable), (FailureCode::WorkerLost, true), "{}", failure.detail);
    failure.detail
}

#[test]
fn an_engine_that_dies_is_replaced_by_the_next_command_as_if_nothing_had_happened() {
    let place = Place::new();
    let engine = start(&place, "d_1", &[]);
    kill(engine);
    assert_eq!(place.live().len(), 1, "its worker runs");
    until("somebody carries it", || !place.carriers().is_empty());
    fs::write(place.mark("gate"), "").unwrap();
    // No further command.
    until("it has finished", || place.recorded("d_1").unwrap().state == DispatchState::Finished);
    until("nobody is left", || place.alive().is_empty());
    assert_eq!(
        place.kinds("d_1"),
        ["dispatch.accepted", "dispatch.started", "dispatch.finished", "thread.ended"]
    );
    assert_eq!(place.show("d_1")["output"]["text"], "whole\n");
    assert_eq!(place.runs(), [("d_1".to_owned(), 1)].into());
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn every_command_that_looks_leaves_what_nobody_carries_to_a_carrier() {
    let place = Place::new();
    kill(start(&place, "d_1", &[]));
    for command in [&["gc"][..], &["thread", "show", "d_1"], &["show", "d_1"], &["logs", "d_1"]] {
        // One that is being killed may have its lease a moment longer than its name.
        until("somebody carries it again", || {
            place.cli.run(command).success();
            !place.carriers().is_empty()
        });
        place.carriers().iter().for_each(|carrier| signal(carrier.id, Signal::KILL));
        until("nobody carries it", || place.carriers().is_empty());
    }
    until("somebody carries it", || place.live().is_empty() || !place.carriers().is_empty());
    fs::write(place.mark("gate"), "").unwrap();
    until("it has finished", || place.recorded("d_1").unwrap().state == DispatchState::Finished);
}

/// One that cannot be looked at keeps nobody from the others.
#[test]
fn what_cannot_be_moved_on_is_a_warning() {
    let place = Place::new();
    let engine = start(&place, "d_1", &[]);
    kill(engine);
    let identity = place.dispatch_dir("d_1").join("in/worker.json");
    let hidden = identity.with_extension("hidden");
    fs::rename(&identity, &hidden).unwrap();
    fs::create_dir(&identity).unwrap();
    fs::write(place.mark("gate"), "").unwrap();
    until("the worker has ended", || place.alive().is_empty());
    let listed = place.cli.run(&["ls"]);
    assert!(listed.stderr.contains("cannot be moved on") && listed.code == Some(0), "{listed:?}");
    place.dispatch("waits", "d_2", &[]).success();
    fs::remove_dir(&identity).unwrap();
    fs::rename(&hidden, &identity).unwrap();
    place.come_to_rest();
    assert_eq!(place.recorded("d_1").unwrap().state, DispatchState::Finished);
}

/// The worker ends while nobody is there: the next command, whichever, takes it in.
#[test]
fn what_ended_meanwhile_is_taken_in_by_the_next_command() {
    let place = Place::new();
    let engine = start(&place, "d_1", &[]);
    kill(engine);
    fs::write(place.mark("gate"), "").unwrap();
    until("the worker has ended", || place.alive().is_empty());
    assert_eq!(place.recorded("d_1").unwrap().state, DispatchState::Running, "nobody was there");
    let shown = place.show("d_1");
    assert_eq!((&shown["state"], &shown["output"]["text"]), (&"finished".into(), &"whole\n".into()));
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn a_worker_that_is_killed_is_a_typed_failure_that_can_be_continued() {
    let place = Place::new();
    let command = start(&place, "d_1", &[]);
    signal(place.worker("d_1"), Signal::KILL);
    let ran = wait(command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    is_lost(&place, "d_1");
    assert_eq!(place.leftovers(), Vec::<String>::new());
    fs::write(place.mark("gate"), "").unwrap();
    place.cli.run(&["continue", "d_1"]).success();
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn engine_and_worker_killed_together() {
    let (place, mut pipe) = (Place::new(), LifePipe::new());
    let script =
        format!("exec 3>'{}'; echo ready >&3; setsid sleep 1000 & sleep 1000", pipe.path().display());
    place.agent("holds", &script);
    let engine = place.start(&run("holds", "d_1", &["--secret", "KEY=env:A_SECRET"]));
    pipe.ready();
    signal(place.worker("d_1"), Signal::KILL);
    kill(engine);
    place.come_to_rest();
    assert!(pipe.is_over(), "something is left");
    is_lost(&place, "d_1");
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// The power was lost: no lock is held, and not even what the worker said is there.
#[test]
fn after_another_boot_the_worker_is_lost_and_the_agent_does_not_run_again() {
    let place = Place::new();
    let engine = start(&place, "d_1", &[]);
    kill(engine);
    signal(place.worker("d_1"), Signal::KILL);
    until("the machine is down", || place.alive().is_empty());
    let path = place.dispatch_dir("d_1").join("in/worker.json");
    let mut identity: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    identity["bootId"] = "another".into();
    fs::write(&path, identity.to_string()).unwrap();
    fs::write(place.dispatch_dir("d_1").join("out/events.jsonl"), "").unwrap();
    place.come_to_rest();
    is_lost(&place, "d_1");
    assert_eq!(place.runs(), [("d_1".to_owned(), 1)].into());
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// There is no wall yet between an agent and what its worker leaves. What is not signed is nobody's word.
#[test]
fn an_outcome_that_the_agent_wrote_is_never_a_success() {
    let place = Place::new();
    let finished = r#"{"seq":9,"at":"2026-01-01T00:00:00.000Z","kind":"dispatch.finished","dispatchId":"d_1","durationMs":1}"#;
    for (number, forged) in [finished, "", "{}", "no JSON"].iter().enumerate() {
        let (name, id) = (format!("forger-{number}"), format!("d_{number}"));
        place.agent(
            &name,
            &format!("printf '%s' '{}' > ../out/outcome.json; exit 5", forged.replace("d_1", &id)),
        );
        let ran = place.dispatch(&name, &id, &[]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let detail = is_lost(&place, &id);
        assert!(detail.contains("not its worker's"), "{detail}");
    }
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// Nor between an agent and the file whose lock is its worker's life: its worker is the same process still.
#[test]
fn an_agent_that_gets_at_its_worker_s_files_is_followed_and_cancelled_all_the_same() {
    for hides in ["rm -f $f", "rm -f $f; mkdir $f", "rm -f $f; touch $f", "rm -f $f; mkfifo $f"] {
        let place = Place::new();
        let hidden = place.mark("hidden");
        for (name, then) in
            [("ends", "exit 5".to_owned()), ("stays", format!("touch {}; sleep 1000", hidden.display()))]
        {
            place.agent(name, &format!("f=../out/worker.stderr; {hides}; {then}"));
        }
        let ended = place.dispatch("ends", "d_ends", &[]);
        assert_eq!(ended.code, Some(1), "{hides}: {ended:?}");
        let stays = place.start(&run("stays", "d_stays", &[]));
        until("it is hidden", || hidden.exists());
        assert_eq!(place.live().len(), 1, "{hides}");
        let cancelled = place.cli.run(&["cancel", "d_stays", "--json"]).json();
        assert_eq!(cancelled["state"], "cancelled", "{hides}");
        assert_eq!(wait(stays).code, Some(1), "{hides}");
        assert_eq!(place.leftovers(), Vec::<String>::new(), "{hides}");
    }
}

#[test]
fn the_same_request_under_the_same_key_is_one_dispatch() {
    let place = Place::new();
    place.agent("quick", "echo done");
    let request = |more: &[&'static str]| {
        let start = ["dispatch", "run", "--subagent", "quick", "--json", "--idempotency-key", "k"];
        place.start(&[&start[..], more].concat())
    };
    let (one, other) =
        (request(&["--secret", "KEY=env:A_SECRET"]), request(&["--secret", "KEY=env:A_SECRET"]));
    let (one, other) = (wait(one).json(), wait(other).json());
    assert_eq!(one, other);
    assert_eq!(place.all().len(), 1);
    assert_eq!(place.runs().values().sum::<usize>(), 1);
    let refused = wait(request(&["--priority", "1"]));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stdout.contains(one["dispatchId"].as_str().unwrap()), "{refused:?}");
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn an_id_that_is_taken_is_refused_and_leaves_no_secret() {
    let place = Place::new();
    place.agent("quick", "echo done");
    place.dispatch("quick", "d_1", &[]).success();
    let refused = place.dispatch("quick", "d_1", &["--secret", "KEY=env:A_SECRET"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(place.runs(), [("d_1".to_owned(), 1)].into());
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// A dispatch that never ran, or whose worker was lost, left nothing: the thread goes on from what was before it.
#[test]
fn a_thread_keeps_its_work_across_a_dispatch_that_left_none() {
    let place = Place::new();
    place.configure("[target.local]\nmax_concurrent = 1\n");
    let gate = place.mark("gate");
    place.agent("adds", "test -e work.txt && sleep 0; echo more >> work.txt; cat work.txt");
    place.agent("holds", &format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display()));
    assert_eq!(place.dispatch("adds", "d_1", &[]).json()["output"]["text"], "more\n");
    let holds = place.start(&run("holds", "d_holds", &[]));
    until("it has the place", || place.recorded("d_holds").is_some_and(|view| view.claim.is_some()));
    place.cli.run(&["continue", "d_1", "--detach"]).success();
    place.cli.run(&["cancel", "d_1"]).success();
    fs::write(&gate, "").unwrap();
    wait(holds).success();
    let continued = place.cli.run(&["continue", "d_1", "--json"]).json();
    assert_eq!(continued["output"]["text"], "more\nmore\n", "{continued}");
}
