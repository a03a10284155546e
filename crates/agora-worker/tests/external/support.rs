//! Adapters to test with.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agora_testkit::worker::{Dispatch, Ended};
use serde_json::{Value, json};

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");
const PAGE: &str = include_str!("../../../../docs/adapters.md");

/// An adapter that is a shell script, brought by a capability.
pub(crate) fn adapter(subagent: Value, script: &str) -> Dispatch {
    let mut fields = json!({"runtime": "mine"});
    fields.as_object_mut().unwrap().extend(subagent.as_object().unwrap().clone());
    Dispatch::of(WORKER, fields).capability("tools", &[("agora-adapters/mine", &shell(script))])
}

pub(crate) fn shell(script: &str) -> String {
    format!("#!/bin/sh\n{script}\n")
}

/// Prints something word for word.
pub(crate) fn print(text: &str) -> String {
    format!("cat <<'END'\n{text}\nEND")
}

pub(crate) fn run(script: &str) -> Ended {
    adapter(json!({}), script).run()
}

/// Returns a JSON example of the page, counted from 0.
pub(crate) fn documented(number: usize) -> Value {
    let block = PAGE.split("```json\n").nth(number + 1).unwrap().split("```").next().unwrap();
    serde_json::from_str(block).unwrap()
}

pub(crate) fn keys(value: &Value) -> Vec<String> {
    let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}

pub(crate) fn speaks(text: &str) -> String {
    shell(&format!(r#"echo '{{"success": true, "text": "{text}"}}'"#))
}

/// A directory of adapters with one in it.
pub(crate) fn install(content: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine");
    fs::write(&path, content).unwrap();
    chmod(&path, 0o755);
    (dir, path)
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
