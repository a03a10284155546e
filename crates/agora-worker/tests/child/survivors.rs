//! Nothing that a child started is alive when the wait is over, whatever it tried.

use std::sync::mpsc;

use agora_worker::child::drain::{Lines, Nowhere};
use agora_worker::child::{How, Why};

use crate::scenes::{Scene, Starter};
use crate::support::{LONG, Lifeline, assert_ended, keeper, run, shell, start_until_ready};

/// A process that left session and parent, holds the output, and cares for no signal that can be refused.
const DAEMON: &str =
    "(setsid sh -c 'trap \"\" HUP INT TERM; (sleep 1000 & exec sleep 1000) & exec sleep 1000' &)";

#[test]
fn a_daemon_that_holds_the_output_is_gone() {
    let lifeline = Lifeline::new();
    let (ended, said) = run(&keeper(), shell(&lifeline.held_by(&format!("{DAEMON}; echo done"))));
    assert_ended(&ended, How::Exited(0));
    assert_eq!(said, "done\n");
    lifeline.assert_nobody_lives();
}

#[test]
fn a_daemon_does_not_outlive_a_stop() {
    let lifeline = Lifeline::new();
    let script = lifeline.held_by(&format!("{DAEMON}; echo ready; exec sleep 1000"));
    let running = start_until_ready(&keeper(), shell(&script));
    assert!(lifeline.somebody_lives());
    running.stopper().stop(Why::Cancelled);
    let ended = running.wait();
    assert_eq!((ended.how, ended.stopped, ended.leftovers), (How::Killed(15), Some(Why::Cancelled), false));
    lifeline.assert_nobody_lives();
}

#[test]
fn a_thousand_children_are_gone() {
    let lifeline = Lifeline::new();
    // Each reads from a pipe that is never written to.
    let fork = "i=0; while [ $i -lt 1000 ]; do (trap '' TERM; read x <&8) & i=$((i+1)); done";
    let count = "wc -w </proc/$$/task/$$/children";
    let script = lifeline.held_by(&format!("exec 8<>/proc/self/fd/9; {fork}; {count}"));
    let (ended, said) = run(&keeper(), shell(&script));
    assert_ended(&ended, How::Exited(0));
    // One more: the one that counts.
    assert!(said == "1000\n" || said == "1001\n", "{said}");
    lifeline.assert_nobody_lives();
}

#[test]
fn a_chain_of_forks_that_never_stays_is_caught() {
    for hop in [
        // As fast as a shell can fork.
        "hop() { hop & exit; }; (hop) & sleep 0.1; exit 4",
        // And away from its group and session each time.
        "export HOP='setsid sh -c \"$HOP\" &'; sh -c \"$HOP\"; sleep 0.1; exit 4",
    ] {
        let lifeline = Lifeline::new();
        let (ended, _) = run(&keeper(), shell(&lifeline.held_by(hop)));
        assert_ended(&ended, How::Exited(4));
        lifeline.assert_nobody_lives();
    }
}

#[test]
fn a_child_that_is_dropped_is_killed() {
    let lifeline = Lifeline::new();
    let script =
        lifeline.held_by(&format!("{DAEMON}; trap '' TERM; echo ready; while :; do sleep 1000; done"));
    drop(start_until_ready(&keeper(), shell(&script)));
    lifeline.assert_nobody_lives();
}

#[test]
fn a_worker_that_is_killed_takes_everything_with_it() {
    let lifeline = Lifeline::new();
    let script =
        lifeline.held_by(&format!("{DAEMON}; trap '' TERM; echo ready; while :; do sleep 1000; done"));
    let mut worker = Starter::with(Scene::Wait, &script);
    assert_eq!(worker.says(), "ready");
    assert!(lifeline.somebody_lives());
    worker.kill();
    lifeline.assert_nobody_lives();
}

#[test]
fn a_guard_that_is_killed_is_replaced_by_the_worker() {
    let lifeline = Lifeline::new();
    let attack = format!("{DAEMON}; trap '' TERM; kill -KILL $PPID; while :; do sleep 1000; done");
    let worker = Starter::with(Scene::Attack, &lifeline.held_by(&attack));
    assert_eq!(worker.end(), "Killed(9), leftovers: false, children: \"\"");
    lifeline.assert_nobody_lives();
}

#[test]
fn a_guard_that_is_stopped_goes_on() {
    let lifeline = Lifeline::new();
    let attack = format!("{DAEMON}; kill -STOP $PPID; exit 5");
    let worker = Starter::with(Scene::Attack, &lifeline.held_by(&attack));
    assert_eq!(worker.end(), "Exited(5), leftovers: false, children: \"\"");
    lifeline.assert_nobody_lives();
}

#[test]
fn a_guard_that_is_stopped_again_and_again_does_not_save_the_child() {
    let lifeline = Lifeline::new();
    let attack = format!("{DAEMON}; trap '' TERM; while :; do kill -STOP $PPID; done");
    let worker = Starter::with(Scene::ShortAttack, &lifeline.held_by(&attack));
    assert_eq!(worker.end(), "Killed(9), leftovers: false, children: \"\"");
    lifeline.assert_nobody_lives();
}

#[test]
fn a_guard_does_not_mind_signals_that_can_be_refused() {
    let lifeline = Lifeline::new();
    let send = "for name in HUP INT QUIT TERM; do kill -$name $PPID; done; echo ready";
    let script = format!("{DAEMON}; trap 'exit 6' TERM; {send}; while :; do sleep 0.01; done");
    let running = start_until_ready(&keeper(), shell(&lifeline.held_by(&script)));
    // Only a living guard passes this on.
    running.stopper().stop(Why::Cancelled);
    assert_eq!(running.wait().how, How::Exited(6));
    lifeline.assert_nobody_lives();
}

#[test]
fn somebody_outside_who_holds_the_output_is_not_waited_for() {
    let (sender, said) = mpsc::channel();
    let lines =
        Lines::new(move |line: &[u8]| sender.send(String::from_utf8_lossy(line).into_owned()).unwrap());
    let running =
        keeper().start(shell("echo $$; exec sleep 1000"), Box::new(lines), Box::new(Nowhere)).unwrap();
    let output = format!("/proc/{}/fd/1", said.recv_timeout(LONG).unwrap());
    // In this process, which no guard may kill.
    let held = std::fs::File::options().write(true).open(output).unwrap();
    running.stopper().stop(Why::Cancelled);
    let ended = running.wait();
    assert_eq!((ended.how, ended.leftovers), (How::Killed(15), true));
    drop(held);
}

/// Two hundred children leave this process as it was.
#[test]
fn many_children_one_after_another_leave_nothing() {
    let worker = Starter::with(Scene::Many, "");
    assert_eq!(worker.end(), "children: \"\", descriptors: 0 more, groups: []");
}
