//! The agent's own commits come home, unless one of them could tell a secret.

use crate::support::{Mode, User, git_ref};

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
