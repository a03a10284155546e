//! Limits on memory and processes, with control groups and without.

#![expect(clippy::disallowed_methods, reason = "waits for a file to vanish, in real time")]

use std::time::Duration;

use agora_worker::child::{Ended, GRACE, How, Keeper, Limits, Spec};

use crate::scenes::{Scene, Starter};
use crate::support::{
    LONG, Lifeline, assert_ended, groups_of, keeper, keeper_named, keeper_without_groups, run, shell,
};

const MEMORY: Limits = Limits { time: None, memory_bytes: Some(64 << 20), processes: None };
const PROCESSES: Limits = Limits { time: None, memory_bytes: None, processes: Some(20) };

/// Takes 256 MiB in one variable, in a process whose end the child's own does not notice.
const GREEDY: &str = "sh -c 'x=$(head -c 268435456 /dev/zero | tr \"\\0\" x); sleep 1000' & exec sleep 1000";
/// Tries to have a hundred processes, and goes on when it may not.
const FERTILE: &str = "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; sleep 1000";

fn limited(script: &str, limits: Limits) -> Spec {
    Spec { limits, ..shell(script) }
}

#[track_caller]
fn assert_out_of_memory(keeper: &Keeper) {
    let lifeline = Lifeline::new();
    let (ended, _) = run(keeper, limited(&lifeline.held_by(GREEDY), MEMORY));
    let expected = Ended {
        how: How::Killed(9),
        stopped: None,
        out_of_memory: true,
        too_many_processes: false,
        duration: ended.duration,
        leftovers: false,
    };
    assert_eq!(ended, expected);
    lifeline.assert_nobody_lives();
}

#[test]
fn too_much_memory_ends_everything_without_groups() {
    assert_out_of_memory(&keeper_without_groups());
}

#[test]
fn too_much_memory_ends_everything_in_a_group() {
    if groups_can_be_made() {
        assert_out_of_memory(&keeper_named("memory"));
        assert!(groups_of(std::process::id(), "memory").is_empty());
    }
}

#[test]
fn too_many_processes_end_everything_without_groups() {
    let lifeline = Lifeline::new();
    let (ended, _) = run(&keeper_without_groups(), limited(&lifeline.held_by(FERTILE), PROCESSES));
    assert_eq!((ended.how, ended.too_many_processes, ended.out_of_memory), (How::Killed(9), true, false));
    lifeline.assert_nobody_lives();
}

#[test]
fn one_process_too_many_is_refused_in_a_group() {
    if !groups_can_be_made() {
        return;
    }
    let lifeline = Lifeline::new();
    // A shell that may not fork says so and ends.
    let (ended, _) = run(&keeper(), limited(&lifeline.held_by(FERTILE), PROCESSES));
    assert!(matches!(ended.how, How::Exited(code) if code != 0), "{ended:?}");
    assert_eq!((ended.too_many_processes, ended.out_of_memory), (true, false));
    lifeline.assert_nobody_lives();
}

#[test]
fn who_stays_within_the_limits_is_left_alone() {
    let limits = Limits { time: Some(6 * GRACE), memory_bytes: Some(512 << 20), processes: Some(50) };
    // Longer than a guard needs for its first look.
    let script = "x=$(head -c 16777216 /dev/zero | tr '\\0' x); sleep 0.5 & sleep 0.5 & wait; exit 3";
    for keeper in [keeper(), keeper_without_groups()] {
        let (ended, _) = run(&keeper, limited(script, limits));
        assert_ended(&ended, How::Exited(3));
        assert!(ended.duration >= Duration::from_millis(500));
    }
}

#[test]
fn a_group_does_not_outlive_a_worker_that_is_killed() {
    if !groups_can_be_made() {
        return;
    }
    let lifeline = Lifeline::new();
    let script = lifeline.held_by("echo ready; exec sleep 1000");
    let mut worker = Starter::with(Scene::WaitLimited, &script);
    assert_eq!(worker.says(), "ready");
    let groups = groups_of(worker.id(), "test");
    assert!(!groups.is_empty());
    worker.kill();
    lifeline.assert_nobody_lives();
    // The guard's last act, which nobody is told of.
    let since = std::time::Instant::now();
    while groups.iter().any(|group| group.exists()) {
        assert!(since.elapsed() < LONG, "{groups:?}");
        std::thread::yield_now();
    }
}

/// Tells whether limits on this machine are kept by the kernel; says so when not.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn groups_can_be_made() -> bool {
    let (_, said) = run(&keeper(), limited("cat /proc/self/cgroup", MEMORY));
    let grouped = said.contains("/agora-test-");
    if !grouped {
        println!("skipped: no control group can be made here");
    }
    grouped
}
