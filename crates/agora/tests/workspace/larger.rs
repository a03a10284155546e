//! Work that is more than a pause keeps: what is left out is said, and nothing that came home before is lost.

use std::path::Path;

use serde_json::Value;

use crate::support::{MODES, Mode, User, git_ref, patched, said, warned};

/// More than a pause keeps, and nothing on the disk.
const HUGE: &str = "truncate -s 1100M";

/// Lets a script work that asks first, and then is answered.
#[track_caller]
fn paused_and_answered(user: &User, dir: Option<&Path>, first: &str, then: &str) -> (Value, Value) {
    let ask = "mkdir -p .agora; echo '{\"question\": \"Which?\"}' > .agora/needs_input.json";
    user.agent(
        "w",
        &format!("if test -e .agora/resume.json -o -e more.txt; then {then}; else {first}; {ask}; fi"),
    );
    let dir = dir.iter().flat_map(|dir| ["--workspace", dir.to_str().unwrap()]);
    let words: Vec<&str> = ["dispatch", "run", "--subagent", "w", "--json"].into_iter().chain(dir).collect();
    let asked = user.agora(&words);
    let asked: Value = serde_json::from_str(&asked.stdout).unwrap();
    let question = asked["needsInput"]["questionId"].as_str().unwrap_or_else(|| panic!("{asked:#}"));
    let answered = user.agora(&["answer", question, "this", "--follow", "--json"]).json();
    let result = answered["result"].clone();
    assert_eq!(result["state"], "finished", "{result:#}");
    (asked, result)
}

fn words(result: &Value, all: &[&str]) {
    for words in all {
        assert!(warned(result).contains(words), "no `{words}`: {result:#}");
    }
}

#[test]
fn what_git_ignores_is_left_out_first_and_the_work_goes_on() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = user.repository("main");
        user.put(&dir, ".gitignore", "target/\n*.log\n");
        user.git(&dir, &["add", "-A"]);
        user.git(&dir, &["commit", "--quiet", "-m", "ignores"]);
        // Part of the patch, whatever is ignored by the time that the agent ends.
        user.put(&dir, "notes.md", "the user's\n");
        let (asked, result) = paused_and_answered(
            &user,
            Some(&dir),
            &format!(
                "echo work > work.txt; echo agent >> notes.md; echo '*.md' >> .gitignore; mkdir target; {HUGE} target/big; echo 1 > b.log"
            ),
            "ls; cat work.txt notes.md; echo more > more.rs",
        );
        assert_eq!(asked["workspaceSaved"], true, "{asked:#}");
        words(&asked, &["1 GiB", "git ignores", "`target` (1.1 GiB)"]);
        assert_eq!(
            said(&result),
            ["a.txt", "notes.md", "src", "work.txt", "work", "the user's", "agent"],
            "{mode:?}"
        );
        assert_eq!(result["resumedWith"]["workspace"], true);
        let names = user.git(&dir, &["diff", "--name-only", &format!("main...{}", git_ref(&result))]);
        assert_eq!(names, ".gitignore\nmore.rs\nnotes.md\nwork.txt\n", "{mode:?}");
    }
}

#[test]
fn a_workspace_that_began_empty_does_without_the_same() {
    let user = User::new(Mode::Layers);
    let (asked, result) = paused_and_answered(
        &user,
        None,
        &format!(
            "echo work > work.txt; echo 'out/' > .gitignore; mkdir -p out/deep; {HUGE} out/deep/big; {HUGE} big.bin"
        ),
        "ls; cat work.txt; echo more > more.txt",
    );
    assert_eq!(asked["workspaceSaved"], false, "{asked:#}");
    words(&asked, &["`out` (1.1 GiB)", "`big.bin` (1.1 GiB)"]);
    assert_eq!(said(&result), ["work.txt", "work"]);
    assert_eq!(patched(&user), [".gitignore", "more.txt", "work.txt"]);
}

#[test]
fn what_no_patch_holds_is_left_out_next_and_the_work_goes_on() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = user.repository("main");
        let (asked, result) = paused_and_answered(
            &user,
            Some(&dir),
            &format!("echo work > work.txt; {HUGE} big.bin; git add work.txt; git commit -qm mine"),
            "ls; cat work.txt; echo more > more.txt",
        );
        // It does not go on in the same workspace.
        assert_eq!(asked["workspaceSaved"], false, "{asked:#}");
        words(&asked, &["1 GiB", "`big.bin` (1.1 GiB)"]);
        assert_eq!(said(&result), ["a.txt", "src", "work.txt", "work"], "{mode:?}");
        let names = user.git(&dir, &["diff", "--name-only", &format!("main...{}", git_ref(&result))]);
        assert_eq!(names, "more.txt\nwork.txt\n", "{mode:?}");
        assert_eq!(result["patch"]["gitRef"], asked["patch"]["gitRef"]);
    }
}

#[test]
fn what_cannot_be_kept_at_all_stays_where_it_came_home() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = user.repository("main");
        let (asked, result) = paused_and_answered(
            &user,
            Some(&dir),
            &format!("echo work > work.txt; git add work.txt; git commit -qm mine; {HUGE} .git/huge"),
            "ls; echo more > more.txt",
        );
        assert_eq!(asked["workspaceSaved"], false, "{asked:#}");
        let earlier = git_ref(&asked);
        words(&asked, &["the workspace could not be kept", "1024 MiB", &earlier]);
        assert_eq!(
            (said(&result), &result["resumedWith"]["workspace"]),
            (vec!["a.txt".to_owned(), "src".to_owned()], &false.into())
        );
        // The new beside the old, and neither on the other's place.
        let id = asked["dispatchId"].as_str().unwrap();
        assert_eq!(git_ref(&result), format!("{earlier}-without-{id}"));
        words(&result, &[&earlier, id]);
        let names = |of: &str| user.git(&dir, &["diff", "--name-only", &format!("main...{of}")]);
        assert_eq!((&*names(&earlier), &*names(&git_ref(&result))), ("work.txt\n", "more.txt\n"), "{mode:?}");
        // And so does everything that goes on from there.
        let thread = asked["threadId"].as_str().unwrap();
        let third = user.agora(&["continue", thread, "--json"]).json();
        assert_eq!((git_ref(&third), &third["resumedWith"]["workspace"]), (git_ref(&result), &true.into()));
        assert_eq!((&*names(&earlier), &*names(&git_ref(&third))), ("work.txt\n", "more.txt\n"), "{mode:?}");
        // Whoever takes the work learns that it is not all.
        let applied = user.agora(&["apply", thread, "--json"]).json();
        assert_eq!(applied["files"], serde_json::json!(["more.txt"]));
        words(&applied, &[&earlier, id]);
        let whole = user.agora(&["apply", thread, "--patch"]);
        assert!(whole.stderr.contains(&earlier), "{}", whole.stderr);
    }
}
