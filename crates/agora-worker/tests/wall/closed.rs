//! An agent that closes what is its own, to itself and to whoever has its account: it keeps its work, and the thread goes on.

use agora_testkit::worker::Dispatch;
use serde_json::json;

use super::support::settings;

const CLOSING: [&str; 6] = [
    "chmod 0 .agora",
    "chmod 0 .",
    "chmod 0 .agora .",
    "chmod 0 .agora/needs_input.json",
    "chmod 0 .agora/outputs",
    "mkdir -p .agora/control/x/y && chmod 0 .agora/control/x .agora/control",
];

/// What it leaves closed of its work is kept all the same, as it was but for that it can be read.
#[test]
fn what_an_agent_has_closed_is_kept_too() {
    let script = "test -d open && exec sh -c 'cat closed/deep/file mute; test -w read-only || echo read-only'
        mkdir -p closed/deep open; echo kept > closed/deep/file; echo kept > mute; echo kept > read-only
        chmod 0 closed/deep closed mute; chmod 444 read-only";
    for setting in settings() {
        let ended = setting.of(Dispatch::script(env!("CARGO_BIN_EXE_agora-worker"), script)).run();
        let report = ended.finished();
        assert!(report.workspace_saved, "{setting:?}: {:?}", report.warnings);
        let next = setting.of(ended.continued(None)).run();
        if setting.root {
            // Nothing was closed to the worker: it comes back as it was left, and the agent cannot read it either.
            assert!(next.report().workspace_saved, "{setting:?}");
            continue;
        }
        next.finished();
        assert_eq!(next.adapter_ran().unwrap().stdout, "kept\nkept\nread-only\n", "{setting:?}");
    }
}

#[test]
fn a_thread_goes_on_whatever_its_agent_has_closed() {
    for setting in settings() {
        for closing in CLOSING {
            let script = format!(
                "test -f work.txt && exec cat work.txt
                echo work > work.txt; mkdir -p .agora/outputs; echo made > .agora/outputs/made.txt
                echo '{{\"question\": \"A?\"}}' > .agora/needs_input.json; {closing}"
            );
            let ended = setting.of(Dispatch::script(env!("CARGO_BIN_EXE_agora-worker"), &script)).run();
            ended.asked();
            let report = ended.report();
            assert_eq!(
                report.warnings.iter().find(|warning| warning.contains("could not")),
                None,
                "{setting:?} {closing}"
            );
            assert!(report.workspace_saved && report.patch.unwrap().files == 1, "{setting:?} {closing}");
            assert_eq!(report.outputs.len(), 1, "{setting:?} {closing}");
            let next = setting.of(ended.answered(json!({"q1": "B"}))).run();
            next.finished();
            assert_eq!(next.adapter_ran().unwrap().stdout, "work\n", "{setting:?} {closing}");
        }
    }
}
