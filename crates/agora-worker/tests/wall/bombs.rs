//! Programs that want all of the machine: contained, and the dispatch ends in words.

use agora_core::reason::FailureCode;
use agora_core::wall::Level;
use agora_testkit::worker::{Dispatch, Ended};

use super::support::{Setting, settings};

fn run(setting: Setting, script: &str, memory: Option<u64>, processes: Option<u32>) -> Ended {
    run_for(setting, script, memory, processes, 60)
}

fn run_for(
    setting: Setting,
    script: &str,
    memory: Option<u64>,
    processes: Option<u32>,
    seconds: u32,
) -> Ended {
    let dispatch = Dispatch::script(env!("CARGO_BIN_EXE_agora-worker"), script).with(|manifest| {
        manifest.limits.memory_bytes = memory;
        manifest.limits.processes = processes;
        manifest.limits.timeout_seconds = seconds;
    });
    setting.of(dispatch).run()
}

#[test]
fn a_program_that_eats_memory_is_ended_for_it() {
    for setting in settings() {
        let ended = run(setting, "head -c 400M /dev/zero | tail", Some(100 << 20), None);
        assert_eq!(ended.failed().code, FailureCode::OutOfMemory, "{setting:?}: {:?}", ended.failed());
        assert_eq!(ended.dispatch.processes(), []);
    }
}

/// Takes memory that nobody has in view, and stays.
const IN_A_FILE: &str = "exec /usr/bin/python3 -c '
import os, time
file = os.memfd_create(\"x\")
for _ in range(300): os.write(file, bytes(1 << 20))
time.sleep(50)'";
/// Fills what programs share, as far as that goes, and takes some more.
const SHARED: &str = "dd if=/dev/zero of=/dev/shm/x bs=1M count=300 2>/dev/null
exec /usr/bin/python3 -c 'import time; kept = bytearray(60 << 20); time.sleep(50)'";

#[test]
fn memory_in_files_counts_too() {
    for setting in settings() {
        let shared = (setting.level == Level::Namespaces).then_some(SHARED);
        for script in [IN_A_FILE].into_iter().chain(shared) {
            let ended = run(setting, script, Some(100 << 20), None);
            assert_eq!(ended.failed().code, FailureCode::OutOfMemory, "{setting:?}: {:?}", ended.failed());
        }
    }
}

#[test]
fn what_only_a_control_group_would_count_is_said_where_there_is_none() {
    for setting in settings() {
        let ended = run(setting, "grep -c /agora- /proc/self/cgroup; true", Some(100 << 20), None);
        let report = ended.finished();
        let grouped = ended.adapter_ran().unwrap().stdout != "0\n";
        let said = report
            .wall
            .leaves_open
            .iter()
            .any(|open| open.contains("sockets and pipes: no control group counts it"));
        assert_eq!(said, !grouped, "{setting:?}: {:?}", report.wall.leaves_open);
    }
}

#[test]
fn a_program_that_forks_without_end_is_contained() {
    // Each starts two more and stays, until starting fails; the first goes on after that.
    let script = "bomb() { bomb | bomb & } ; bomb 2>/dev/null; while :; do :; done";
    for setting in settings() {
        let ended = run_for(setting, script, None, Some(100), 2);
        // A control group lets no more start, and time ends it; without one, one too many ends everything.
        let failure = ended.failed();
        assert!(
            [FailureCode::ProcessLimit, FailureCode::TimeLimit].contains(&failure.code),
            "{setting:?}: {failure:?}"
        );
        assert_eq!(ended.dispatch.processes(), [], "{setting:?}: somebody stayed");
    }
}

#[test]
fn without_any_limit_a_room_holds_so_many_processes_and_no_more() {
    for setting in settings().filter(|setting| setting.level == Level::Namespaces) {
        let ended = run(setting, "grep 'Max processes' /proc/self/limits", None, None);
        ended.finished();
        let limits = &ended.adapter_ran().unwrap().stdout;
        let most: u32 = limits.split_ascii_whitespace().nth(2).unwrap().parse().unwrap();
        assert!(most <= agora_core::wall::PROCESSES, "{setting:?}: {most}");
    }
}

#[test]
fn what_is_not_the_dispatchs_own_cannot_be_filled() {
    let script = "for place in / /dev /etc /usr /run /home; do
        if dd if=/dev/zero of=$place/fill bs=1M count=64 2>/dev/null; then echo \"filled $place\"; fi
    done; echo done";
    for setting in settings() {
        let ended = run(setting, script, None, None);
        ended.finished();
        assert_eq!(ended.adapter_ran().unwrap().stdout, "done\n", "{setting:?}");
    }
}
