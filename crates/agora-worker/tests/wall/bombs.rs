//! Programs that want all of the machine: contained, and the dispatch ends in words.

use agora_core::reason::FailureCode;
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
    for setting in settings().filter(|setting| setting.level == agora_core::wall::Level::Namespaces) {
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
