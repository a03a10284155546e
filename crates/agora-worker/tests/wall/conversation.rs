//! What an agent makes of its home: nothing that lies elsewhere comes into the conversation that the worker keeps for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agora_testkit::worker::Dispatch;
use serde_json::json;

use super::support::settings;

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");
const CANARY: &str = "canary-77d0";
/// Where the two keep their conversations, and how they say that all went well.
const RUNTIMES: [(&str, &str, &[&str], &str); 2] = [
    (
        "claude-code",
        "claude",
        &[".claude", ".claude/projects", ".claude/projects/-workspace"],
        r#"{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111"}
{"type":"result","subtype":"success","is_error":false,"result":"'$found'"}"#,
    ),
    (
        "codex",
        "codex",
        &[".codex", ".codex/sessions", ".codex/sessions/2026", ".codex/sessions/2026/01/01"],
        r#"{"type":"thread.started","thread_id":"11111111-1111-4111-8111-111111111111"}
{"type":"turn.started"}
{"type":"item.completed","item":{"type":"agent_message","text":"'$found'"}}
{"type":"turn.completed"}"#,
    ),
];

/// Says what it finds of what is not its own, and then makes a directory of its conversation a link to that.
fn program(dir: &Path, name: &str, deepest: &str, link: Option<&str>, to: &Path, words: &str) {
    let linked = link.map_or(String::new(), |link| {
        format!("rm -rf \"$HOME/{link}\"; ln -s '{}' \"$HOME/{link}\"\n", to.display())
    });
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 2.1.0; exit; }}\ncat > /dev/null\n\
         if grep -rqs {CANARY} \"$HOME\"; then found=leaked; else found=nothing; fi\n\
         mkdir -p \"$HOME/{deepest}\"; echo own > \"$HOME/{deepest}/own.jsonl\"\n{linked}echo '{words}'\n"
    );
    fs::write(dir.join(name), text).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn no_link_of_the_agents_brings_foreign_files_into_its_conversation() {
    let keep = tempfile::tempdir().unwrap();
    fs::set_permissions(keep.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for setting in settings() {
        for (runtime, name, dirs, words) in RUNTIMES {
            for link in dirs.iter().map(|dir| Some(*dir)).chain([None]) {
                let dispatch = Dispatch::of(WORKER, json!({"runtime": runtime, "promptTemplate": "go"}));
                let foreign = dispatch.root().join("other");
                // Whatever is linked to it, a conversation could be below.
                for below in
                    ["projects/-workspace", "sessions/2026/01/01", "2026/01/01", "-workspace", "01/01", "."]
                {
                    fs::create_dir_all(foreign.join(below)).unwrap();
                    fs::write(foreign.join(below).join("foreign.jsonl"), CANARY).unwrap();
                }
                program(keep.path(), name, dirs[dirs.len() - 1], link, &foreign, words);
                let ended = setting.of(dispatch.program(name, &keep.path().join(name))).run();
                let report = ended.finished();
                let next = setting.of(ended.continued(None)).run();
                assert_eq!(next.finished().output.text, "nothing", "{setting:?} {runtime} {link:?}");
                let on_the_way = link.is_some_and(|link| dirs[..2].contains(&link));
                assert_eq!(report.session.is_none(), on_the_way, "{setting:?} {runtime} {link:?}");
            }
        }
    }
}
