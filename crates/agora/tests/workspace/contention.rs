//! `agora apply` while others are at work in the repository: all of it, or nothing.

use std::fs;

use crate::support::{Mode, Untouched, User};

#[test]
fn a_branch_that_is_locked_costs_nothing_and_can_be_tried_again() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, "echo w >> a.txt; mkdir deep; echo new > deep/b; rm src/b.txt");
    let before = Untouched::look(&user, &dir);
    for lock in [".git/refs/heads/main.lock", ".git/HEAD.lock", ".git/index.lock"] {
        fs::write(dir.join(lock), "").unwrap();
        let said = user.agora(&["apply", "@", "--commit"]).failure(3);
        assert!(said.contains("nothing was changed") && said.contains(".lock"), "{said}");
        fs::remove_file(dir.join(lock)).unwrap();
        assert_eq!(user.git(&dir, &["status", "--porcelain"]), "", "{lock}");
    }
    assert_eq!(Untouched::look(&user, &dir).files_only(), before.files_only());
    let said = user.agora(&["apply", "@", "--commit"]).success();
    assert_eq!(said, "3 files in a commit on `main`\n");
    assert_eq!(user.git(&dir, &["status", "--porcelain"]), "");
    // Again is no harm, and no empty commit.
    let said = user.agora(&["apply", "@", "--commit"]).success();
    assert_eq!(said, "3 files committed already: there is nothing new in it\n");
    assert_eq!(user.git(&dir, &["rev-list", "--count", "HEAD"]), "2\n");
}

#[test]
fn what_the_user_has_not_committed_is_said_like_a_conflict() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, "sed -i s/one/ONE/ a.txt; echo n > n");
    // In the files, or in the index alone.
    for staged in [false, true] {
        user.put(&dir, "a.txt", "one\ntwo\nthree\nfour\n");
        if staged {
            user.git(&dir, &["add", "a.txt"]);
            user.put(&dir, "a.txt", "one\ntwo\nthree\n");
        }
        let before = Untouched::look(&user, &dir);
        let said = user.agora(&["apply", "@", "--commit"]).failure(2);
        assert!(
            said.contains("`a.txt` changed here and is not committed") && said.contains("git stash"),
            "{said}"
        );
        assert_eq!(Untouched::look(&user, &dir), before);
    }
}

#[test]
fn a_detached_head_is_called_one_and_what_died_is_swept() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let result = user.dispatch(&dir, "echo w >> a.txt");
    let thread = user.home().join("grounds").join(result["threadId"].as_str().unwrap());
    fs::create_dir_all(thread.join("applying/objects")).unwrap();
    fs::write(thread.join("applying/HEAD"), "nonsense").unwrap();
    user.git(&dir, &["checkout", "--quiet", "--detach"]);
    let said = user.agora(&["apply", "@", "--commit"]).success();
    assert!(said.contains("on a detached HEAD") && said.contains("git switch -c"), "{said}");
    assert_eq!(user.git(&dir, &["log", "-1", "--format=%an|%cn"]), "Ann|agora/w\n");
    assert!(!thread.join("applying").exists());
}

#[test]
fn a_source_that_was_moved_is_said_so() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let result = user.dispatch(&dir, "echo w >> a.txt");
    fs::rename(&dir, dir.with_file_name("moved")).unwrap();
    let id = result["threadId"].as_str().unwrap();
    for words in [&["apply", "@"][..], &["apply", "@", "--commit"], &["apply", "@", "--branch", "b"]] {
        let said = user.agora(words).failure(2);
        assert!(said.contains("no repository any more"), "{said}");
        assert!(said.contains(&format!("`agora apply {id} --patch")), "{said}");
    }
}
