//! History that the agent rewrote: the ref is the work all the same, with the agent's commits.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Mode, User, git_ref, patched, said, warned};

/// Makes a repository with three commits, each with a file more.
fn three(user: &User) -> PathBuf {
    let dir = user.repository("main");
    for name in ["f3", "f4"] {
        user.put(&dir, name, "the user's\n");
        user.git(&dir, &["add", name]);
        user.git(&dir, &["commit", "--quiet", "-m", name]);
    }
    dir
}

/// Returns which files the ref is about, as somebody compares it who stands on `main`.
fn compared(user: &User, dir: &Path, result: &Value) -> Vec<String> {
    let names = user.git(dir, &["diff", "--name-only", &format!("main...{}", git_ref(result))]);
    names.lines().map(str::to_owned).collect()
}

fn subjects(user: &User, dir: &Path, result: &Value) -> Vec<String> {
    let log = user.git(dir, &["log", "--topo-order", "--format=%s", &format!("main..{}", git_ref(result))]);
    log.lines().map(str::to_owned).collect()
}

const WORDS: &str = "do not stand on the commit that it began at";
const JOINED: &str = "w: its work, on the commit that it began at";

#[test]
fn a_ref_is_the_work_whatever_became_of_the_history() {
    let user = User::new(Mode::Layers);
    let dir = three(&user);
    user.put(&dir, "a.txt", "not committed\n");
    let cases: [(&str, &[&str], &[&str]); 6] = [
        (
            "git stash -q; git reset -q --hard HEAD~1; git stash pop -q; echo w > w; git add w; git commit -qm w",
            &["f4", "w"],
            &["w"],
        ),
        (
            "git reset -q --soft HEAD~2; git commit -qm squashed; echo w > w; git add w; git commit -qm w",
            &["w"],
            &["w", "squashed"],
        ),
        ("git reset -q HEAD~1; echo w > w; git add w; git commit -qm w", &["w"], &["w"]),
        ("echo w > w; git add w; git commit -qa --amend -m amended; echo v > v", &["v", "w"], &["amended"]),
        ("git commit -q --amend -m amended", &[], &["amended"]),
        ("git checkout -q --orphan other; echo w > w; git add -A; git commit -qm alone", &["w"], &["alone"]),
    ];
    for (script, files, commits) in cases {
        let result = user.dispatch(&dir, script);
        assert_eq!(compared(&user, &dir, &result), files, "{script}: {result:#}");
        assert_eq!(patched(&user), files, "{script}");
        assert_eq!(subjects(&user, &dir, &result), [&[JOINED], commits].concat(), "{script}");
        assert!(warned(&result).contains(WORDS), "{script}: {result:#}");
        let base = user.git(&dir, &["merge-base", "main", &git_ref(&result)]);
        assert_eq!(base, user.git(&dir, &["rev-parse", "main"]), "{script}");
    }
    // Nothing of it is there any more: that is one commit, and no history.
    let result = user.dispatch(&dir, "git stash -q; git reset -q --hard HEAD~1; git stash pop -q");
    assert_eq!(compared(&user, &dir, &result), ["f4"]);
    assert_eq!(subjects(&user, &dir, &result), ["w: what was not committed"]);
    assert!(!warned(&result).contains(WORDS), "{result:#}");
}

#[test]
fn a_merge_of_it_takes_away_what_the_agent_took_away() {
    let user = User::new(Mode::Layers);
    let dir = three(&user);
    user.dispatch(&dir, "git reset -q --hard HEAD~1; echo w > w; git add w; git commit -qm w");
    let applied = user.agora(&["apply", "@", "--branch", "theirs", "--json"]).json();
    assert_eq!(applied["files"], serde_json::json!(["f4", "w"]));
    assert!(applied["warnings"].to_string().contains(WORDS), "{applied:#}");
    user.put(&dir, "meanwhile", "x\n");
    user.git(&dir, &["add", "meanwhile"]);
    user.git(&dir, &["commit", "--quiet", "-m", "meanwhile"]);
    user.git(&dir, &["merge", "--quiet", "--no-edit", "theirs"]);
    assert_eq!(user.git(&dir, &["ls-files"]), "a.txt\nf3\nmeanwhile\nsrc/b.txt\nw\n");
    user.git(&dir, &["reset", "--quiet", "--hard", "HEAD^"]);
    user.agora(&["apply", "@", "--commit"]).success();
    assert_eq!(user.git(&dir, &["ls-files"]), "a.txt\nf3\nmeanwhile\nsrc/b.txt\nw\n");
}

#[test]
fn a_root_that_was_amended_and_a_history_that_is_there_in_part_have_a_merge_base() {
    let user = User::new(Mode::Layers);
    let root = user.repository("root");
    let three = three(&user);
    user.git(&three, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", three.display());
    let mut dirs = vec![root];
    for (name, part) in [("shallow", "--depth=1"), ("blobless", "--filter=blob:none")] {
        user.git(&user.cli.work(), &["clone", "--quiet", part, &url, name]);
        dirs.push(user.cli.work().join(name));
    }
    for dir in dirs {
        let result = user.dispatch(&dir, "echo w > w; git add w; git commit -q --amend -m amended");
        assert_eq!(compared(&user, &dir, &result), ["w"], "{}", dir.display());
        assert_eq!(subjects(&user, &dir, &result), [JOINED, "amended"], "{}", dir.display());
        user.git(&dir, &["fsck", "--connectivity-only"]);
    }
}

#[test]
fn each_dispatch_of_a_thread_may_rewrite_what_is_there() {
    let user = User::new(Mode::Layers);
    let dir = three(&user);
    // Its own commits are the agent's to rewrite: what it began at is still below them.
    let script = "if test -e two; then git reset -q --hard HEAD~1; git commit -q --amend -m one-again; else \
        for n in one two; do echo 1 > $n; git add $n; git commit -qm $n; done; fi; git log --format=%s";
    let first = user.dispatch(&dir, script);
    assert_eq!(compared(&user, &dir, &first), ["one", "two"]);
    let go_on =
        |result: &Value| user.agora(&["continue", result["threadId"].as_str().unwrap(), "--json"]).json();
    let second = go_on(&first);
    assert_eq!(subjects(&user, &dir, &second), ["one-again"], "{second:#}");
    assert_eq!(compared(&user, &dir, &second), ["one"]);
    assert!(!warned(&second).contains(WORDS), "{second:#}");
    // What it began at is not: that holds for every dispatch after it, too.
    let script = "test -e w || git reset -q --hard HEAD~1; echo 1 >> w; git add w; git commit -qm w; git log --format=%s";
    let first = user.dispatch(&dir, script);
    assert_eq!(subjects(&user, &dir, &first), [JOINED, "w"]);
    let second = go_on(&first);
    assert_eq!(said(&second), ["w", "w", "f3", "first"], "the join is not the agent's");
    assert_eq!(subjects(&user, &dir, &second), [JOINED, "w", "w"]);
    assert_eq!(compared(&user, &dir, &second), ["f4", "w"]);
    assert!(warned(&second).contains(WORDS), "{second:#}");
}

#[test]
fn another_branch_that_the_agent_went_on_with_is_not_taken_for_merged_without_its_files() {
    let user = User::new(Mode::Layers);
    let dir = three(&user);
    user.git(&dir, &["checkout", "--quiet", "-b", "other", "HEAD~1"]);
    user.put(&dir, "o", "o\n");
    user.git(&dir, &["add", "-A"]);
    user.git(&dir, &["commit", "--quiet", "-m", "other"]);
    user.git(&dir, &["checkout", "--quiet", "main"]);
    // What the patch has is all that the branch has.
    let result = user.dispatch(&dir, "git checkout -q other; echo w > w; git add w; git commit -qm w");
    assert_eq!(compared(&user, &dir, &result), ["f4", "o", "w"]);
    assert_eq!(subjects(&user, &dir, &result), [JOINED, "w", "other"]);
    // And here it is not.
    let script = "git checkout -q other; echo w > w; git add w; git commit -qm w; rm w";
    let result = user.dispatch(&dir, script);
    assert!(warned(&result).contains("or what others committed"), "{result:#}");
    assert_eq!(subjects(&user, &dir, &result), ["w: what was not committed"]);
    assert_eq!(compared(&user, &dir, &result), ["f4", "o"]);
}
