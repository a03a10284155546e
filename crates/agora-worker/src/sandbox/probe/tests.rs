use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use super::*;

/// A script that is being written while another thread forks cannot be executed, so scripts come one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Script {
    dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Script {
    fn new(body: &str) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let script = Self { dir, _turn: turn };
        fs::write(script.path(), format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(script.path(), fs::Permissions::from_mode(0o755)).unwrap();
        script
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("agora")
    }
}

fn refusal() -> Refusal {
    Refusal { cause: Cause::AppArmor, why: "no".into() }
}

#[test]
fn a_report_survives_the_wire() {
    let report = Probe {
        namespaces: Support::No(refusal()),
        landlock: Landlock::Yes { abi: 7 },
        seccomp: Support::Yes,
        cgroup: Cgroup::V2 { parent: "/sys/fs/cgroup/a".into() },
        overlayfs_in_userns: Support::Yes,
        level: Level::Landlock,
    };
    let line = serde_json::to_string(&report).unwrap();
    assert_eq!(
        line,
        r#"{"namespaces":{"support":"no","cause":"appArmor","why":"no"},"landlock":{"support":"yes","abi":7},"#
            .to_owned()
            + r#""seccomp":{"support":"yes"},"cgroup":{"support":"v2","parent":"/sys/fs/cgroup/a"},"#
            + r#""overlayfsInUserns":{"support":"yes"},"level":"landlock"}"#
    );
    // Quotes in the script are the shell's, and the line has none of its own kind.
    let script = Script::new(&format!("[ \"$*\" = 'worker probe' ] && echo '{line}'"));
    assert_eq!(probe(&script.path()).unwrap(), report);
}

#[test]
fn the_level_is_what_all_parts_allow() {
    let (yes, no) = (Support::Yes, Support::No(refusal()));
    let (landlock, none) = (Landlock::Yes { abi: 1 }, Landlock::No(refusal()));
    assert_eq!(Level::of(&yes, &landlock, &yes), Level::Namespaces);
    assert_eq!(Level::of(&no, &landlock, &yes), Level::Landlock);
    assert_eq!(Level::of(&yes, &none, &yes), Level::None);
    assert_eq!(Level::of(&yes, &landlock, &no), Level::None);
}

#[test]
fn an_older_landlock_leaves_more_open() {
    assert_eq!(Landlock::Yes { abi: 7 }.leaves_open(), Vec::<&str>::new());
    assert_eq!(Landlock::Yes { abi: 1 }.leaves_open().len(), 5);
    assert_eq!(Landlock::No(refusal()).leaves_open(), ["everything"]);
}

#[test]
fn other_answers_are_errors() {
    let failed = Script::new("echo unknown command >&2; exit 2");
    let error = probe(&failed.path()).unwrap_err();
    assert!(
        matches!(&error, ProbeError::Failed { complaint, .. } if complaint == "unknown command"),
        "{error:?}"
    );
    drop(failed);

    let chatty = Script::new("head -c 1048576 /dev/zero");
    assert!(matches!(probe(&chatty.path()), Err(ProbeError::Unreadable(_))));
    let missing = Path::new("/nowhere/at/all");
    assert!(matches!(probe(missing), Err(ProbeError::Hear(HearError::Start { .. }))));
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_with_threads_is_refused_untouched() {
    let hold = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| hold.wait());
        let report = probe_in_this_process();
        hold.wait();
        assert_eq!(report.level, Level::None);
        assert!(matches!(report.namespaces, Support::No(Refusal { cause: Cause::SeveralThreads, .. })));
    });
}
