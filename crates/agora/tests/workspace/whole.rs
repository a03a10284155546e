//! The ref is the patch: whatever else an agent committed is in no tree that anybody checks out.

use std::fs;

use serde_json::json;

use crate::support::{MODES, Mode, User, git_ref, patched, warned};

fn differs(user: &User, dir: &std::path::Path, to: &str) -> Vec<String> {
    user.git(dir, &["diff", "--name-only", "main", to]).lines().map(str::to_owned).collect()
}

#[test]
fn what_was_committed_and_taken_away_again_is_not_in_the_ref() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let result = user.dispatch(
        &dir,
        "echo w >> a.txt; mkdir .vscode; echo evil > .vscode/tasks.json; echo evil > .envrc; git add -A; git commit -qm work; \
         rm -rf .vscode .envrc",
    );
    assert_eq!(patched(&user), ["a.txt"]);
    assert_eq!(differs(&user, &dir, &git_ref(&result)), ["a.txt"]);
    let warned = warned(&result);
    assert!(
        warned.contains("the agent committed `.envrc`, `.vscode/tasks.json`, not in its patch"),
        "{warned}"
    );
    let applied = user.agora(&["apply", "@", "--branch", "fix", "--json"]).json();
    assert_eq!(applied["files"], json!(["a.txt"]));
    assert_eq!(differs(&user, &dir, "fix"), ["a.txt"]);
    // Its own commit is there, for whoever looks.
    assert_eq!(user.git(&dir, &["log", "--format=%s", "main..fix"]), "w: what was not committed\nwork\n");
}

#[test]
fn what_agora_itself_laid_over_the_tree_is_not_in_the_ref() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = user.repository("main");
        for name in [".claude/settings.json", "v", "s"] {
            user.put(&dir, name, "the user's\n");
        }
        user.git(&dir, &["add", "-A"]);
        user.git(&dir, &["commit", "--quiet", "-m", "second"]);
        let over = user.cli.work().parent().unwrap().join("over");
        user.put(&over, "v", "laid over\n");
        user.put(&over, ".claude/settings.json", "{}\n");
        user.put(&over, "agora-setup.sh", "echo set up > s\n");
        user.agora(&["capability", "register", "--name", "over", "--from", over.to_str().unwrap()]).success();
        let script = "cat v s; echo w >> a.txt; git commit -qam all";
        let definition = json!({
            "name": "w", "runtime": "command", "command": ["sh", "-c", script], "capabilities": ["over"]
        });
        let file = over.with_extension("yaml");
        fs::write(&file, definition.to_string()).unwrap();
        user.agora(&["subagent", "register", "--name", "w", "--from", file.to_str().unwrap()]).success();
        let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--json"];
        let result = user.agora(&words).json();
        assert_eq!(result["output"]["text"], "laid over\nset up\n", "{result:#}");
        assert_eq!(patched(&user), ["a.txt"], "{mode:?}");
        assert_eq!(differs(&user, &dir, &git_ref(&result)), ["a.txt"], "{mode:?}");
    }
}

#[test]
fn a_ref_that_holds_more_than_the_patch_is_checked_as_a_whole() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let result = user.dispatch(&dir, "echo w >> a.txt");
    // Somebody else's agora, or the user's own hand.
    let script = format!(
        "git read-tree {0} && echo x > .envrc && git update-index --add .envrc && \
        git update-ref {0} $(git commit-tree -p {0} -m more $(git write-tree)) && rm .envrc && git read-tree HEAD",
        git_ref(&result)
    );
    let ran = agora_testkit::cli::run(
        std::process::Command::new("sh")
            .args(["-c", &script])
            .current_dir(&dir)
            .env("GIT_AUTHOR_NAME", "x")
            .env("GIT_AUTHOR_EMAIL", "x")
            .env("GIT_COMMITTER_NAME", "x")
            .env("GIT_COMMITTER_EMAIL", "x"),
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said = user.agora(&["apply", "@", "--branch", "more"]).failure(2);
    assert!(said.contains("`.envrc`"), "{said}");
    let applied = user.agora(&["apply", "@", "--branch", "more", "--yes", "--json"]).json();
    assert_eq!(applied["files"], json!([".envrc", "a.txt"]));
}

fn with_submodule(user: &User) -> std::path::PathBuf {
    let part = user.repository("part");
    let dir = user.repository("main");
    let add =
        ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", part.to_str().unwrap(), "sub"];
    user.git(&dir, &add);
    user.git(&dir, &["commit", "--quiet", "-m", "with a part"]);
    dir
}

#[test]
fn a_submodule_stays_what_it_is_and_its_files_are_brought() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = with_submodule(&user);
        let result = user.dispatch(&dir, "echo v >> sub/a.txt; echo new > sub/new.txt; echo more >> a.txt");
        assert_eq!(patched(&user), ["a.txt", "sub/a.txt", "sub/new.txt"]);
        let names = user.git(&dir, &["diff", "--name-status", "main", &git_ref(&result)]);
        assert_eq!(names, "M\ta.txt\n", "{mode:?}");
        let words = "changes in the submodule `sub` are in the patch, and not in the ref";
        assert!(warned(&result).contains(words), "{result:#}");

        let ran = user.agora(&["apply", "@", "--commit"]);
        let words = "changes in the submodule `sub` are in the files, and not in the commit";
        assert!(ran.code == Some(0) && ran.stderr.contains(words), "{ran:?}");
        assert_eq!(user.git(&dir, &["show", "--format=", "--name-only", "HEAD"]), "a.txt\n");
        assert_eq!(user.git(&dir, &["status", "--porcelain"]), " M sub\n");
        assert_eq!(fs::read_to_string(dir.join("sub/a.txt")).unwrap(), "one\ntwo\nthree\nv\n");
        assert_eq!(fs::read_to_string(dir.join("sub/new.txt")).unwrap(), "new\n");
    }
}

#[test]
fn a_commit_in_a_submodule_is_not_lost_without_a_word() {
    let user = User::new(Mode::Layers);
    let dir = with_submodule(&user);
    let result = user.dispatch(
        &dir,
        "cd sub; echo v >> a.txt; git commit -qam inside; cd ..; git add sub; git commit -qm bump; echo w >> a.txt",
    );
    assert_eq!(user.git(&dir, &["diff", "--name-status", "main", &git_ref(&result)]), "M\ta.txt\n");
    let warned = warned(&result);
    assert!(warned.contains("the submodule `sub`") && warned.contains("committed `sub`"), "{warned}");
    // In the files alone it is all there.
    user.agora(&["apply", "@"]).success();
    assert_eq!(user.git(&dir.join("sub"), &["status", "--porcelain"]), " M a.txt\n");
    // Nothing else was done: no commit can hold it.
    user.git(&dir.join("sub"), &["checkout", "--quiet", "."]);
    let result = user.dispatch(&dir, "echo v >> sub/a.txt");
    assert!(result["patch"]["gitRef"].is_null(), "{result:#}");
    let said = user.agora(&["apply", "@", "--commit"]).failure(2);
    assert!(said.contains("of a submodule, or goes through a filter"), "{said}");
}
