//! The agent sees what the user sees, and the user's repository stays as it was.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use agora_testkit::model::{Model, Turn};
use agora_testkit::part;

use crate::support::{MODES, Mode, Untouched, User, git_ref, said};

/// Everything that a repository can be at once.
fn everything(user: &User) -> PathBuf {
    let part = user.repository("part");
    let dir = user.repository("whole");
    let add =
        ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", part.to_str().unwrap(), "sub"];
    user.git(&dir, &add);
    user.put(&dir, "large.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    user.put(&dir, ".gitattributes", "large.bin filter=lfs diff=lfs merge=lfs -text\n");
    user.put(&dir, ".gitignore", "node_modules/\n.env\n*.log\n");
    symlink("a.txt", dir.join("link")).unwrap();
    symlink("/nowhere/at/all", dir.join("dangling")).unwrap();
    user.put(&dir, "run.sh", "#!/bin/sh\n");
    user.git(&dir, &["update-index", "--add", "--chmod=+x", "run.sh"]);
    fs::set_permissions(dir.join("run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    user.git(&dir, &["add", "-A"]);
    user.git(&dir, &["commit", "--quiet", "-m", "second"]);
    // Staged, changed, both, new, ignored.
    user.put(&dir, "staged.txt", "staged\n");
    user.git(&dir, &["add", "staged.txt"]);
    user.put(&dir, "a.txt", "one\nTWO\nthree\n");
    user.git(&dir, &["add", "a.txt"]);
    user.put(&dir, "a.txt", "one\nTWO\nthree\nfour\n");
    user.git(&dir, &["rm", "--quiet", "--cached", "src/b.txt"]);
    user.put(&dir, "new.txt", "new\n");
    user.put(&dir, "sub/a.txt", "changed in the submodule\n");
    user.put(&dir, "node_modules/dep/index.js", "module.exports = 1\n");
    user.put(&dir, "debug.log", "log\n");
    user.put(&dir, ".env", "KEY=1\n");
    user.put(&dir, "key.pem", "not really\n");
    dir
}

const LOOK: &str = "git status --porcelain=v2; echo ---; git submodule status; echo ---; git log --format='%H %an %ae'; echo ---; \
    find . -path ./.git -prune -o -path ./sub/.git -prune -o -path ./.agora -prune -o -path ./.agents -prune -o -path ./.claude -prune -o \
    \\( -type f -o -type l \\) -printf '%p %m %l\\n' | sort; echo ---; cat a.txt large.bin node_modules/dep/index.js sub/a.txt";

#[test]
fn the_agent_sees_what_the_user_sees_and_the_users_repository_stays() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = everything(&user);
        let before = Untouched::look(&user, &dir);
        let script = format!(
            "{LOOK}; echo work >> src/b.txt; rm node_modules/dep/index.js; echo x > made.txt; echo y >> sub/a.txt"
        );
        let result = user.dispatch(&dir, &script);

        let mut look = std::process::Command::new("sh");
        look.args(["-c", LOOK]).current_dir(&dir).env("GIT_OPTIONAL_LOCKS", "0");
        look.env("HOME", user.cli.work().parent().unwrap().join("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        let users = agora_testkit::cli::run(&mut look).stdout;
        let hidden = [".env", "key.pem"];
        let users: Vec<&str> = users
            .lines()
            .filter(|line| {
                !hidden
                    .iter()
                    .any(|name| line.contains(&format!("./{name} ")) || line.ends_with(&format!("? {name}")))
            })
            .collect();
        assert_eq!(said(&result), users, "{mode:?}");
        assert_eq!(Untouched::look(&user, &dir), before, "{mode:?}");
        let mut left_out: Vec<&str> = result["workspace"]["leftOut"]
            .as_array()
            .unwrap()
            .iter()
            .map(|path| path.as_str().unwrap())
            .collect();
        left_out.sort_unstable();
        assert_eq!(left_out, [".env", "key.pem"]);

        let names = user.git(&dir, &["diff", "--name-status", &format!("main...{}", git_ref(&result))]);
        assert_eq!(names, "A\tmade.txt\nM\tsrc/b.txt\n", "not the user's own work, and not the submodule's");
    }
}

#[test]
fn a_linked_worktree_a_fresh_repository_and_a_plain_directory_are_seen() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.git(&dir, &["worktree", "add", "--quiet", "-b", "side", "../side"]);
    let side = user.cli.work().join("side");
    user.put(&side, "only-here.txt", "x\n");
    let before = (Untouched::look(&user, &dir), Untouched::look(&user, &side));
    let result = user.dispatch(&side, "git branch --show-current; git status --short; echo w > w.txt");
    assert_eq!(said(&result), ["side", "?? only-here.txt"]);
    assert_eq!((Untouched::look(&user, &dir), Untouched::look(&user, &side)), before);
    assert_eq!(user.git(&dir, &["diff", "--name-only", &format!("side...{}", git_ref(&result))]), "w.txt\n");

    user.git(&user.cli.work(), &["init", "--quiet", "fresh"]);
    let fresh = user.cli.work().join("fresh");
    user.put(&fresh, "first.txt", "x\n");
    let result = user.dispatch(&fresh, "true");
    assert!(result["patch"]["gitRef"].is_null() && result["warnings"] == serde_json::json!([]), "{result:#}");
    let result = user.dispatch(&fresh, "git status --short; echo w > w.txt");
    assert_eq!(said(&result), ["?? first.txt"]);
    assert_eq!(result["warnings"], serde_json::json!([]));
    assert_eq!(
        user.git(&fresh, &["show", "--stat", "--format=%an|%cn", &git_ref(&result)]).lines().next(),
        Some("Ann|agora/w")
    );

    let plain = user.cli.work().join("plain");
    user.put(&plain, "deep/file.txt", "x\n");
    let result = user.dispatch(&plain.join("deep"), "ls -A; echo w > w.txt");
    assert!(said(&result).contains(&"file.txt".to_owned()), "{result:#}");
    assert!(result["patch"]["gitRef"].is_null() && result["workspace"]["source"]["directory"].is_object());
    assert!(!plain.join("deep/w.txt").exists());
}

#[test]
fn a_commit_or_a_url_can_be_worked_on_instead() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, "later.txt", "x\n");
    user.git(&dir, &["add", "-A"]);
    user.git(&dir, &["commit", "--quiet", "-m", "later"]);
    user.put(&dir, "dirty.txt", "x\n");
    let before = Untouched::look(&user, &dir);
    user.agent("w", "git status --short; git log --format=%s; ls; echo w > w.txt");
    let run = |more: &[&str]| {
        user.agora(&[&["dispatch", "run", "--subagent", "w", "--json"], more].concat()).json()
    };
    let at = run(&["--workspace", dir.to_str().unwrap(), "--base", "main~1"]);
    assert_eq!(said(&at), ["first", "a.txt", "src"]);
    assert_eq!(user.git(&dir, &["diff", "--name-only", "main~1", &git_ref(&at)]), "w.txt\n");
    assert_eq!(Untouched::look(&user, &dir), before);

    let url = format!("file://{}", dir.display());
    let fetched = run(&["--workspace", &url]);
    assert_eq!(said(&fetched), ["later", "first", "a.txt", "later.txt", "src"]);
    assert!(fetched["patch"]["gitRef"].is_null());
    let wrong = user.agora(&[
        "dispatch",
        "run",
        "--subagent",
        "w",
        "--workspace",
        dir.to_str().unwrap(),
        "--base",
        "nope",
    ]);
    assert!(wrong.failure(2).contains("no commit `nope`"));
    let wrong = user.agora(&["dispatch", "run", "--subagent", "w", "--workspace", "/does/not/exist"]);
    assert!(wrong.failure(2).contains("cannot be worked on"));
}

#[test]
fn chosen_ignored_files_come_along_and_credentials_do_not() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, ".gitignore", ".env*\nlocal/\n");
    user.put(&dir, ".worktreeinclude", ".env.test\n");
    user.put(&dir, ".env", "A=1\n");
    user.put(&dir, ".env.test", "B=2\n");
    user.put(&dir, "local/notes.txt", "AKIAQX5T2M7LB3NCDE4F is a key\n");
    user.put(&dir, "local/fine.txt", "fine\n");
    let result = user.dispatch(&dir, "ls -A . local");
    let seen = said(&result);
    assert!(seen.contains(&".env.test".to_owned()) && seen.contains(&"fine.txt".to_owned()), "{seen:?}");
    assert!(!seen.contains(&".env".to_owned()) && !seen.contains(&"notes.txt".to_owned()), "{seen:?}");
    // Also when the base is there already.
    user.put(&dir, ".worktreeinclude", ".env.test\n/local/\n");
    let again = user.dispatch(&dir, "ls -A . local");
    assert!(said(&again).contains(&"notes.txt".to_owned()), "{again:#}");
}

/// Of an index that is split only the latest changes are in the file of that name.
#[test]
fn an_index_that_stands_on_another_file_is_the_same_index() {
    for (version, format) in ["2", "4"].into_iter().zip(["sha1", "sha256"]) {
        let user = User::new(Mode::Layers);
        let dir = user.cli.work().join("main");
        user.git(&user.cli.work(), &["init", "--quiet", &format!("--object-format={format}"), "main"]);
        user.git(&dir, &["config", "splitIndex.maxPercentChange", "100"]);
        user.git(&dir, &["update-index", "--index-version", version]);
        // Each is taken only because git tracks it.
        for path in ["a.pem", "b.pem", "deep/c.pem", "d.pem"] {
            user.put(&dir, path, "not really\n");
        }
        user.git(&dir, &["add", "-A"]);
        user.git(&dir, &["commit", "--quiet", "-m", "first"]);
        user.git(&dir, &["update-index", "--split-index", "--untracked-cache"]);
        user.put(&dir, "b.pem", "staged\n");
        user.put(&dir, "new.pem", "new\n");
        user.git(&dir, &["add", "b.pem", "new.pem"]);
        user.git(&dir, &["rm", "--quiet", "--cached", "d.pem"]);
        let index = fs::read(dir.join(".git/index")).unwrap();
        assert!(!index.windows(5).any(|name| name == b"a.pem"), "it is split");
        let before = Untouched::look(&user, &dir);
        let result = user.dispatch(
            &dir,
            "git status --porcelain 2>&1; echo ---; find . -name '*.pem' | sort; echo w >> a.pem",
        );
        let users = user.git(&dir, &["--no-optional-locks", "status", "--porcelain"]);
        let users: Vec<&str> = users.lines().filter(|line| *line != "?? d.pem").collect();
        let files = ["---", "./a.pem", "./b.pem", "./deep/c.pem", "./new.pem"];
        assert_eq!(said(&result), [&users[..], &files].concat(), "{version}");
        assert_eq!(result["workspace"]["leftOut"], serde_json::json!(["d.pem"]));
        assert_eq!(crate::support::patched(&user), ["a.pem"]);
        assert_eq!(Untouched::look(&user, &dir), before, "{version}");
    }
}

#[test]
fn an_ordinary_user_gets_the_same() {
    for mode in MODES {
        let user = User::ordinary(mode);
        let dir = user.repository("main");
        let before = Untouched::look(&user, &dir);
        let result = user.dispatch(
            &dir,
            "git status --short; echo w >> a.txt; rm -r src; git commit -qam mine; echo x > x",
        );
        assert_eq!(said(&result), [""; 0], "{result:#}");
        assert_eq!(Untouched::look(&user, &dir), before);
        let log = user.git(&dir, &["log", "--format=%s", &git_ref(&result)]);
        assert_eq!(log, "w: what was not committed\nmine\nfirst\n");
        if mode == Mode::Layers {
            println!("via {} {}", result["workspace"]["via"], result["workspace"]["why"]);
        }
    }
}

#[test]
fn in_a_bare_repository_run_works_on_what_it_holds() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let bare = user.cli.work().join("bare.git");
    user.git(
        &user.cli.work(),
        &["clone", "--quiet", "--bare", dir.to_str().unwrap(), bare.to_str().unwrap()],
    );
    user.agent("w", "ls");
    for more in [&[][..], &["--workspace", "."]] {
        let mut command = user.agora_command(&[&["run", "--agent", "w", "x", "--json"], more].concat());
        let result = agora_testkit::cli::run(command.current_dir(&bare)).json();
        assert_eq!(said(&result), ["a.txt", "src"], "{more:?}");
    }
    // And the work comes home to it.
    user.agent("w", "echo 1 > one; git add one; git commit -qm one; echo rest > rest");
    let run = ["dispatch", "run", "--subagent", "w", "--workspace", bare.to_str().unwrap(), "--json"];
    let result = user.agora(&run).json();
    let log = user.git(&bare, &["log", "--format=%s", &format!("main..{}", git_ref(&result))]);
    assert_eq!(log, "w: what was not committed\none\n");
    for files in [&["apply", "@"][..], &["apply", "@", "--commit"]] {
        let said = user.agora(files).failure(2);
        assert!(said.contains("not from files there") && said.contains("--branch NAME"), "{said}");
    }
    user.agora(&["apply", "@", "--branch", "theirs"]).success();
    assert_eq!(user.git(&bare, &["diff", "--name-only", "main...theirs"]), "one\nrest\n");
}

/// An agent begins at the workspace's root, and "here" is where the user stands.
#[test]
fn an_agent_hears_from_which_directory_it_was_asked() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let model = Model::start_with(|_| Turn::text("Mended."));
    let user = User::new(Mode::Layers);
    let dir = user.repository("repository");
    let asked = |place: &str, more: &[&str]| {
        let mut command = user.agora_command(&[&["run", "mend it here", "--json"], more].concat());
        let path = format!("{}:/usr/bin:/bin", claude.parent().unwrap().display());
        command.env("PATH", path).current_dir(dir.join(place));
        command.env("ANTHROPIC_API_KEY", "sk-of-the-environment").env("ANTHROPIC_BASE_URL", model.url());
        let ran = agora_testkit::cli::run(&mut command);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        user.agora(&["thread", "show", "@", "--json"]).json()["task"].clone()
    };
    assert_eq!(asked("", &[]), "mend it here");
    assert_eq!(asked("src", &["--workspace", "."]), "mend it here", "it was said");
    let said = "mend it here\n\nThis was asked from the directory `src` of the workspace.";
    assert_eq!(asked("src", &[]), said);
    let request = model.requests().pop().unwrap();
    assert!(request.holds("from the directory `src` of the workspace"), "{}", request.body);
    // Whoever has words of their own is told what was typed.
    user.agent("echo", "cat");
    let mut command = user.agora_command(&["run", "--agent", "echo", "mend it here"]);
    assert_eq!(agora_testkit::cli::run(command.current_dir(dir.join("src"))).stdout, "mend it here\n");
}
