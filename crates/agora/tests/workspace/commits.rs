//! The agent's own commits come home, unless one of them could tell a secret.

use agora_testkit::cli::run;

use crate::support::{Mode, User, git_ref, said, warned};

#[test]
fn commits_are_kept_and_the_rest_is_one_more() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let script = "echo 1 > one; git add one; git commit -qm one; git mv a.txt moved.txt; git commit -qm two; echo rest > rest";
    let result = user.dispatch(&dir, script);
    let log = user.git(&dir, &["log", "--format=%s|%an|%cn|%ce", &git_ref(&result)]);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(
        lines,
        [
            "w: what was not committed|Ann|agora/w|agora@localhost",
            "two|Ann|agora/w|agora@localhost",
            "one|Ann|agora/w|agora@localhost",
            "first|Ann|Ann|ann@example.org"
        ]
    );
    let thread = result["threadId"].as_str().unwrap();
    assert!(
        user.git(&dir, &["log", "-1", "--format=%b", &git_ref(&result)])
            .contains(&format!("Thread: {thread}"))
    );
    // Everything was committed: there is no commit more.
    let result = user.dispatch(&dir, "echo 1 > one; git add one; git commit -qm only");
    assert_eq!(user.git(&dir, &["log", "-1", "--format=%s", &git_ref(&result)]), "only\n");
    // Nothing was done: there is no ref.
    let result = user.dispatch(&dir, "true");
    assert!(result["patch"]["gitRef"].is_null());
}

#[test]
fn commits_that_the_agent_packed_are_kept_and_looked_through() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let pack = "git gc -q; ls .git/objects/pack/*.pack > /dev/null";
    let script =
        format!("echo 1 > one; git add one; git commit -qm one; echo 2 >> one; git commit -qam two; {pack}");
    let result = user.dispatch(&dir, &script);
    assert_eq!(user.git(&dir, &["log", "--format=%s", &format!("main..{}", git_ref(&result))]), "two\none\n");
    assert_eq!(user.git(&dir, &["show", &format!("{}:one", git_ref(&result))]), "1\n2\n");
}

#[test]
fn commits_that_hold_a_secret_are_not_kept() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.agent("w", "echo $TOKEN > hidden; echo fine > fine; git add -A; git commit -qm \"with $TOKEN\"; git rm -q hidden; git commit -qm cleaned");
    let words = [
        "dispatch",
        "run",
        "--subagent",
        "w",
        "--workspace",
        dir.to_str().unwrap(),
        "--secret",
        "TOKEN=env:TOKEN",
        "--json",
    ];
    let ran = agora_testkit::cli::run(user.agora_command(&words).env("TOKEN", "correct-horse-battery"));
    let result = ran.json();
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("commits are not kept") && warnings.contains("secret"), "{warnings}");
    let log = user.git(&dir, &["log", "-p", "--format=%B", &git_ref(&result)]);
    assert!(log.contains("+fine") && !log.contains("correct-horse"), "{log}");
    assert_eq!(user.git(&dir, &["rev-list", "--count", &format!("main..{}", git_ref(&result))]), "1\n");
    let search = "git cat-file --batch-all-objects --batch --buffer | grep -a -c correct-horse";
    let found =
        agora_testkit::cli::run(std::process::Command::new("sh").args(["-c", search]).current_dir(&dir));
    assert_eq!(found.stdout, "0\n", "nor is it anywhere among the user's objects");
}

#[test]
fn a_merge_that_the_user_began_is_not_made_without_what_was_staged_for_it() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.git(&dir, &["checkout", "--quiet", "-b", "other"]);
    user.put(&dir, "a.txt", "one\nother\nthree\n");
    user.put(&dir, "src/b.txt", "of the other\n");
    user.git(&dir, &["commit", "--quiet", "-am", "other"]);
    user.git(&dir, &["checkout", "--quiet", "main"]);
    user.put(&dir, "a.txt", "one\nmain\nthree\n");
    user.git(&dir, &["commit", "--quiet", "-am", "main"]);
    let begun = "git merge -q other >/dev/null 2>&1; git status --porcelain";
    let mut begin = std::process::Command::new("sh");
    assert_eq!(run(begin.args(["-c", begun]).current_dir(&dir)).stdout, "UU a.txt\nM  src/b.txt\n");
    let result = user.dispatch(
        &dir,
        "git status --porcelain; printf 'one\\nboth\\nthree\\n' > a.txt; git commit -qam merged",
    );
    assert_eq!(said(&result), ["UU a.txt", "M  src/b.txt"]);
    // A merge commit without what the other branch did to `src/b.txt` would say that it is merged.
    assert!(warned(&result).contains("there is a merge among them"), "{result:#}");
    let of = |format: &str| user.git(&dir, &["log", "-1", format, &git_ref(&result)]);
    assert_eq!(of("--format=%P"), user.git(&dir, &["rev-parse", "main"]));
    assert_eq!(user.git(&dir, &["diff", "--name-only", "main", &git_ref(&result)]), "a.txt\n");
    // One that the agent makes by itself is whole, and kept.
    user.git(&dir, &["merge", "--abort"]);
    let script =
        "git merge -q other > /dev/null; printf 'one\\nboth\\nthree\\n' > a.txt; git commit -qam merged";
    let result = user.dispatch(&dir, script);
    let parents = user.git(&dir, &["log", "-1", "--format=%P", &git_ref(&result)]);
    assert_eq!(parents, user.git(&dir, &["rev-parse", "main", "other"]).replacen('\n', " ", 1));
}

#[test]
fn commits_on_a_history_that_is_there_in_part_are_kept() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, "a.txt", "now\n");
    user.git(&dir, &["commit", "--quiet", "-am", "second"]);
    user.git(&dir, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", dir.display());
    for (name, part) in
        [("blobless", "--filter=blob:none"), ("treeless", "--filter=tree:0"), ("shallow", "--depth=1")]
    {
        user.git(&user.cli.work(), &["clone", "--quiet", part, &url, name]);
        let dir = user.cli.work().join(name);
        let result = user.dispatch(&dir, "echo w >> a.txt; git commit -qam mine; echo rest > rest");
        let log = user.git(&dir, &["log", "--format=%s", &format!("main..{}", git_ref(&result))]);
        assert_eq!(log, "w: what was not committed\nmine\n", "{name}: {result:#}");
        user.agora(&["apply", "@", "--commit"]).success();
    }
}

#[test]
fn commits_that_are_left_on_another_branch_are_said() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.git(&dir, &["branch", "the-users"]);
    let words = |names: &str| format!("the agent left commits on {names}, where its work did not end");
    // Nothing else was done: there is no ref, and still a word.
    let away = "git checkout -qb feature/x; echo x > x; git add x; git commit -qm x; git checkout -q main";
    let result = user.dispatch(&dir, away);
    assert!(
        result["patch"]["gitRef"].is_null() && warned(&result).contains(&words("`feature/x`")),
        "{result:#}"
    );
    let script = format!(
        "{away}; git pack-refs --all; echo y >> a.txt; git stash -q; echo z > z; git add z; git commit -qm z"
    );
    let result = user.dispatch(&dir, &script);
    assert!(warned(&result).contains(&words("`feature/x`, `the stash`")), "{result:#}");
    assert_eq!(user.git(&dir, &["log", "--format=%s", &format!("main..{}", git_ref(&result))]), "z\n");
    // What the work stands on is in the ref, whatever it is called.
    let result = user.dispatch(&dir, &format!("{away}; git merge -q feature/x; git branch more; echo z > z"));
    assert_eq!(warned(&result), "[]", "{result:#}");
}
