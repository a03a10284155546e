//! `agora apply` that is interrupted or killed while it writes: all of it, or nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use agora_testkit::cli::{Ran, run};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Mode, Untouched, User};

const MANY: usize = 600;

/// Work that takes a moment to write. What is gone goes first.
fn worked() -> (User, PathBuf) {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, "closed/x", "x\n");
    for (path, mode) in [("a.txt", 0o640), ("src/b.txt", 0o600), ("closed", 0o711)] {
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let script = format!(
        "rm src/b.txt; mv closed/x closed/y; echo w >> a.txt; mkdir new; for n in $(seq {MANY}); do echo $n > new/$n; done"
    );
    user.dispatch(&dir, &script);
    (user, dir)
}

fn modes(dir: &Path) -> [u32; 2] {
    ["a.txt", "closed"].map(|path| fs::metadata(dir.join(path)).unwrap().permissions().mode() & 0o777)
}

/// Begins to apply, and sends a signal as soon as something was written.
fn struck(user: &User, dir: &Path, signal: Signal) -> std::process::Output {
    let mut command = user.agora_command(&["apply", "@"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while dir.join("src/b.txt").exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = kill_process(Pid::from_child(&child), signal);
    child.wait_with_output().unwrap()
}

#[test]
fn whoever_is_interrupted_takes_everything_back() {
    let (user, dir) = worked();
    let before = Untouched::look(&user, &dir).files_only();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let ended = struck(&user, &dir, signal);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(130), "{signal:?}: {said}");
        assert!(said.contains("interrupted") && said.contains("nothing was changed"), "{said}");
        assert_eq!(Untouched::look(&user, &dir).files_only(), before);
        assert_eq!(modes(&dir), [0o640, 0o711]);
    }
    user.agora(&["apply", "@"]).success();
    assert_eq!(fs::read_dir(dir.join("new")).unwrap().count(), MANY);
}

#[test]
fn what_somebody_wrote_who_was_killed_is_taken_back_by_the_next_one() {
    let (user, dir) = worked();
    let before = Untouched::look(&user, &dir).files_only();
    let ended = struck(&user, &dir, Signal::KILL);
    assert_eq!(ended.status.code(), None, "it was over before it was killed");
    assert_ne!(Untouched::look(&user, &dir).files_only(), before);
    // What brings no files takes it back, too.
    let ran = user.agora(&["apply", "@", "--branch", "work"]);
    assert!(ran.stderr.contains("was killed while it wrote: what it had written was taken back"), "{ran:?}");
    assert_eq!(Untouched::look(&user, &dir).files_only(), before);
    assert_eq!(modes(&dir), [0o640, 0o711]);
    assert_eq!(fs::metadata(dir.join("src/b.txt")).unwrap().permissions().mode() & 0o777, 0o600);

    struck(&user, &dir, Signal::KILL);
    let ran = user.agora(&["apply", "@"]);
    assert!(ran.code == Some(0) && ran.stderr.contains("was killed while it wrote"), "{ran:?}");
    assert_eq!(fs::read_dir(dir.join("new")).unwrap().count(), MANY);
    assert_eq!(modes(&dir), [0o640, 0o711]);
    assert!(!user.agora(&["apply", "@"]).stderr.contains("killed"));
}

/// Strikes whoever started it when the user's index has just been written.
const STRIKING_GIT: &str = r#"#!/bin/sh
case "$GIT_DIR $* " in " "*" update-index -z --index-info ") /usr/bin/git "$@"; code=$?; kill -SIGNAL $PPID; exit $code ;; esac
exec /usr/bin/git "$@"
"#;

#[test]
fn a_commit_is_whole_or_none() {
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let user = User::new(Mode::Layers);
        let dir = user.repository("main");
        user.dispatch(&dir, "rm src/b.txt; echo w >> a.txt; echo new > new.txt");
        user.put(&dir, "staged.txt", "staged\n");
        user.git(&dir, &["add", "staged.txt"]);
        let before = Untouched::look(&user, &dir).files_only();
        let bin = user.cli.work().parent().unwrap().join("striking");
        fs::create_dir(&bin).unwrap();
        fs::write(bin.join("git"), STRIKING_GIT.replace("SIGNAL", signal)).unwrap();
        fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = user.agora_command(&["apply", "@", "--commit"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let ran: Ran = run(&mut command);
        assert_eq!(ran.code, code, "{ran:?}");
        // Git gives the lock back when it hears that nobody is there any more.
        while dir.join(".git/HEAD.lock").exists() || dir.join(".git/refs/heads/main.lock").exists() {
            std::thread::yield_now();
        }
        if signal == "INT" {
            assert_eq!(user.git(&dir, &["status", "--porcelain"]), "A  staged.txt\n");
            assert_eq!(Untouched::look(&user, &dir).files_only(), before);
        } else {
            assert!(user.git(&dir, &["status", "--porcelain"]).contains("M  a.txt"));
        }
        let ran = user.agora(&["apply", "@", "--commit"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.stderr.contains("was killed while it wrote"), signal == "KILL", "{ran:?}");
        assert_eq!(user.git(&dir, &["status", "--porcelain"]), "A  staged.txt\n");
        assert_eq!(user.git(&dir, &["diff", "--name-only", "HEAD~1", "HEAD"]), "a.txt\nnew.txt\nsrc/b.txt\n");
    }
}
