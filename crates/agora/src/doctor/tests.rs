use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use super::*;

/// Surroundings in which nothing is found, with what a test changes in them.
pub(super) fn surroundings(change: impl FnOnce(&mut Surroundings)) -> Surroundings {
    let nowhere = PathBuf::from("/nowhere");
    let mut here = Surroundings {
        home: nowhere.clone(),
        path: None,
        docker_host: None,
        user_home: None,
        xdg_runtime_dir: None,
        credential_variables: Vec::new(),
        stored_credentials: Vec::new(),
        executable: nowhere,
    };
    change(&mut here);
    here
}

/// A script that is being written while another thread forks cannot be executed, so scripts come one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A directory of real scripts.
pub(super) struct Scripts {
    dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Scripts {
    pub(super) fn new() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        Self { dir: tempfile::tempdir().unwrap(), _turn: turn }
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn add(&self, name: &str, body: &str) -> PathBuf {
        let path = self.dir().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(super) fn path_before(&self, rest: &str) -> OsString {
        let mut path = self.dir().as_os_str().to_owned();
        path.push(":");
        path.push(rest);
        path
    }
}

#[test]
fn a_machine_where_all_is_well() {
    let scripts = Scripts::new();
    scripts.add("claude", "echo 2.1.325");
    scripts.add("codex", "echo codex-cli 0.90.0");
    scripts.add("git", "echo git version 2.39.5");
    let report = r#"{"namespaces":{"support":"yes"},"landlock":{"support":"yes","abi":7},"seccomp":{"support":"yes"},"cgroup":{"support":"v2","parent":"/g"},"overlayfsInUserns":{"support":"yes"},"level":"namespaces"}"#;
    let executable = scripts.add("agora", &format!("echo '{report}'"));
    let (_dir, socket) = ping::tests::serving(ping::tests::DOCKER);
    let findings = examine(&surroundings(|here| {
        here.home = scripts.dir().into();
        here.path = Some(scripts.path_before("/usr/bin:/bin"));
        here.docker_host = Some(format!("unix://{}", socket.display()));
        here.credential_variables = vec!["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];
        here.executable = executable;
    }));
    let topics: Vec<&str> = findings.iter().map(|finding| finding.topic).collect();
    let expected = [
        "home",
        "sandbox",
        "overlay",
        "cgroup",
        "docker",
        "podman",
        "claude",
        "codex",
        "git",
        "credential",
        "credential",
    ];
    assert_eq!(topics, expected);
    // Podman is the host's own, and how full the disk is too.
    let unexpected: Vec<&Finding> = findings
        .iter()
        .filter(|finding| !["home", "podman"].contains(&finding.topic) && finding.status != Status::Ok)
        .collect();
    assert_eq!(unexpected, Vec::<&Finding>::new());
}

#[test]
fn a_machine_where_nothing_is_there_gives_each_its_fix() {
    let findings = examine(&surroundings(|_| {}));
    let status = |topic: &str| findings.iter().find(|finding| finding.topic == topic).unwrap().status;
    assert_eq!(["home", "claude", "codex", "git"].map(status), [Status::Missing; 4]);
    assert_eq!(status("sandbox"), Status::Broken);
    let without: Vec<&Finding> = findings
        .iter()
        .filter(|finding| matches!(finding.status, Status::Missing | Status::Broken) && finding.fix.is_none())
        .collect();
    assert_eq!(without, Vec::<&Finding>::new());
}

#[test]
fn a_finding_is_one_flat_object() {
    let finding = Finding::bad("home", Status::Missing, "d", "f");
    let json = serde_json::to_string(&finding).unwrap();
    assert_eq!(json, r#"{"topic":"home","status":"missing","detail":"d","fix":"f"}"#);
}

#[test]
fn what_others_wrote_is_one_plain_line() {
    assert_eq!(printable("\n  \u{1b}[31mred\u{7}  \nsecond"), "[31mred");
    assert_eq!(printable(&"x".repeat(1000)).len(), LONGEST_QUOTE);
    assert_eq!(printable(""), "");
}
