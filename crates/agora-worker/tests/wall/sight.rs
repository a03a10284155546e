//! What of the user's home an agent gets to see: by grants, by links on the path, and never a key.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use agora_core::wall::{AGENT_ID, Level};
use agora_testkit::worker::Dispatch;

use super::support::settings;

fn script(text: &str) -> Dispatch {
    Dispatch::script(env!("CARGO_BIN_EXE_agora-worker"), text)
}

#[test]
fn the_way_to_the_workspace_is_opened_to_the_agent_alone() {
    for setting in settings().filter(|setting| setting.root && setting.level == Level::Landlock) {
        let dispatch = setting.of(script("echo x > made"));
        // As the engine makes it, closed.
        let dir = dispatch.dir();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let ended = dispatch.run();
        ended.finished();
        let about = fs::metadata(&dir).unwrap();
        assert_eq!((about.mode() & 0o777, about.gid()), (0o710, AGENT_ID), "others may go through");
    }
}
