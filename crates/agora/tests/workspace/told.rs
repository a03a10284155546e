//! What a person is told of work that came home only in part, late, or not at all.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::support::{Mode, User, warned};

#[test]
fn what_is_not_in_the_patch_is_named() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let result = user.dispatch(&dir, "mkfifo pipe; echo w >> a.txt");
    let words = "`pipe` is not in the patch: it is neither a file nor a symbolic link";
    assert!(warned(&result).contains(words), "{result:#}");
    assert!(user.agora(&["show", "@"]).success().contains(&format!("warning:     {words}")));
    let ran = user.agora(&["apply", "@"]);
    assert!(ran.code == Some(0) && ran.stderr.contains(words), "{ran:?}");
}

#[test]
fn a_ref_that_could_not_be_made_is_made_when_it_can_be() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let result = user.dispatch(&dir, "true");
    if fs::metadata("/proc/self").map(|data| std::os::unix::fs::MetadataExt::uid(&data)).unwrap() != 0 {
        return agora_testkit::part::skipped(&format!(
            "only root meets somebody else's repository: {result}"
        ));
    }
    for path in [dir.clone(), dir.join(".git")] {
        chown(path, Some(4321), Some(4321)).unwrap();
    }
    let result = user.dispatch(&dir, "echo w >> a.txt");
    let warned = warned(&result);
    assert!(warned.contains("not as a ref") && warned.contains("dubious ownership"), "{warned}");
    let shown = user.agora(&["show", "@"]).success();
    let table = shown.lines().take_while(|line| !line.is_empty());
    assert!(table.into_iter().all(|line| line.find(": ").is_some_and(|at| at < 12)), "{shown}");
    let said = user.agora(&["apply", "@", "--branch", "late"]).failure(3);
    assert!(said.contains("dubious ownership"), "{said}");
    user.git(&user.cli.work(), &["config", "--global", "safe.directory", "*"]);
    user.agora(&["apply", "@", "--branch", "late"]).success();
    assert_eq!(user.git(&dir, &["diff", "--name-only", "main", "late"]), "a.txt\n");
    assert!(user.agora(&["show", "@", "--json"]).json()["patch"]["gitRef"].is_string());
}

#[test]
fn a_commit_with_a_file_that_is_too_large_is_called_that() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let result = user
        .dispatch(&dir, "head -c 68000000 /dev/zero > big; git add big; git commit -qm big; git rm -q big");
    let said = warned(&result);
    assert!(said.contains("there are too many, or a file in them has more than 64 MiB"), "{said}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let user = User::ordinary(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, "echo w >> a.txt");
    let mode =
        |path: &str, mode| fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
    for path in [".git/index", ".git/config", ".git/refs/heads/main", ".git/refs/heads"] {
        let before = fs::metadata(dir.join(path)).unwrap().permissions().mode();
        mode(path, 0);
        let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap()];
        let said = user.agora(&words).failure(2);
        mode(path, before);
        assert!(said.contains(&format!("`{}/{path}` could not be read", dir.display())), "{said}");
        assert!(said.contains("chmod u+r") && !said.contains("AGORA_HOME"), "{said}");
    }
    mode("a.txt", 0);
    let said = user.agora(&["apply", "@"]).failure(3);
    mode("a.txt", 0o644);
    assert!(
        said.contains("`a.txt`, which the work is about, could not be read: Permission denied"),
        "{said}"
    );
    assert!(said.contains("`chmod u+r a.txt`") && said.contains("nothing was changed"), "{said}");
}

#[test]
fn what_a_failed_agent_did_until_then_is_said() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.agent("w", "echo w >> a.txt; exit 3");
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap()];
    let ran = user.agora(&words);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("what it did until then is kept, 1 file changed (+1 -0)"), "{ran:?}");
    user.agora(&["apply", "@"]).success();
    assert_eq!(fs::read_to_string(dir.join("a.txt")).unwrap(), "one\ntwo\nthree\nw\n");
}

#[test]
fn before_the_first_commit_there_is_nothing_to_compare_with() {
    let user = User::new(Mode::Layers);
    user.git(&user.cli.work(), &["init", "--quiet", "fresh"]);
    let dir = user.cli.work().join("fresh");
    user.put(&dir, "first.txt", "x\n");
    user.agent("w", "echo w > w.txt");
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap()];
    let ran = user.agora(&words);
    assert!(ran.stderr.contains("`git show refs/agora/t_") && !ran.stderr.contains("warning"), "{ran:?}");
}

#[test]
fn an_agent_that_is_still_at_work_has_left_nothing_yet() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.agent("w", "sleep 600");
    let words =
        ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--detach", "--json"];
    let result = user.agora(&words).json();
    let id = result["threadId"].as_str().unwrap();
    let said = user.agora(&["apply", id]).failure(2);
    assert!(said.contains("still at work") && said.contains(&format!("`agora logs -f {id}`")), "{said}");
    user.agora(&["cancel", id]).success();
}
