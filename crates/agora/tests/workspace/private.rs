//! What is the user's own stays theirs: keys of a home that is a repository, tokens, other agents' work, and copies that others could read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agora_core::wall::NEVER;
use agora_testkit::cli::run;
use agora_testkit::part::skipped;

use crate::support::{MODES, Mode, User, patched, said};

const CANARY: &str = "canary-91d2";

/// Makes the user's home a repository that tracks nothing, as people keep their dotfiles, with one of every key in it.
fn dotfiles(user: &User) -> PathBuf {
    let home = user.cli.work().parent().unwrap().join("home");
    user.git(&home, &["init", "--quiet", "."]);
    user.put(&home, ".gitignore", "*\n");
    user.put(&home, ".worktreeinclude", "*\n");
    user.put(&home, "notes.txt", "notes\n");
    for never in NEVER.into_iter().filter(|never| *never != ".ssh") {
        // Whether a file or a directory has the name is all the same.
        user.put(&home, &never.replace('*', ".toml"), CANARY);
    }
    user.put(&home, "kept/elsewhere/id_work", CANARY);
    user.put(&home, "kept/elsewhere/config", CANARY);
    symlink("kept/elsewhere", home.join(".ssh")).unwrap();
    home
}

#[test]
fn a_home_that_is_a_repository_keeps_its_keys() {
    for mode in MODES {
        let user = User::new(mode);
        let home = dotfiles(&user);
        user.agent("w", &format!("cat notes.txt; grep -rl {CANARY} .; ls -d .ssh kept/elsewhere; true"));
        let words = ["dispatch", "run", "--subagent", "w", "--workspace", home.to_str().unwrap(), "--json"];
        let ran = user.agora(&words);
        let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(said(&result), ["notes"], "{mode:?}: {result:#}");
        assert!(ran.stderr.contains("the workspace holds your home directory"), "{}", ran.stderr);
        let left_out = result["workspace"]["leftOut"].to_string();
        assert!(
            left_out.contains("\".ssh\"") && left_out.contains("\".cargo/credentials.toml\""),
            "{left_out}"
        );
    }
}

#[test]
fn what_was_committed_of_a_homes_keys_is_not_taken_by_a_commit_either() {
    let user = User::new(Mode::Layers);
    let home = dotfiles(&user);
    // A commit of another time, when the keys were elsewhere.
    fs::remove_file(home.join(".ssh")).unwrap();
    user.put(&home, "keys/then/id_rsa", CANARY);
    symlink("keys/then", home.join(".ssh")).unwrap();
    user.git(&home, &["add", "--force", "--all", "."]);
    user.git(&home, &["commit", "--quiet", "-m", "everything"]);
    fs::remove_file(home.join(".ssh")).unwrap();
    symlink("kept/elsewhere", home.join(".ssh")).unwrap();
    user.agent(
        "w",
        &format!("cat notes.txt; grep -rl {CANARY} --exclude-dir=.git .; ls -d .ssh kept/elsewhere keys/then; echo more >> notes.txt"),
    );
    let url = format!("file://{}", home.display());
    let git_dir = home.join(".git");
    for more in [
        &["--workspace", home.to_str().unwrap(), "--base", "HEAD"][..],
        &["--workspace", &url],
        &["--workspace", &url, "--base", "main"],
        &["--workspace", git_dir.to_str().unwrap()],
    ] {
        let ran = user.agora(&[&["dispatch", "run", "--subagent", "w", "--json"], more].concat());
        let result: serde_json::Value = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|_| panic!("{more:?}: {}{}", ran.stdout, ran.stderr));
        assert_eq!(said(&result), ["notes"], "{more:?}: {result:#}");
        let left_out = result["workspace"]["leftOut"].to_string();
        for name in [".ssh", ".aws", ".cargo/credentials.toml", "kept/elsewhere", "keys/then", ".claude.json"]
        {
            assert!(left_out.contains(&format!("\"{name}\"")), "{more:?}: {left_out}");
        }
        assert_eq!(patched(&user), ["notes.txt"], "{more:?}");
    }
    // Nor is a directory of keys worked on by a commit of it.
    let keys = home.join(".password-store");
    fs::remove_file(&keys).unwrap();
    user.git(&home, &["init", "--quiet", keys.to_str().unwrap()]);
    user.put(&keys, "bank", CANARY);
    user.git(&keys, &["add", "-A"]);
    user.git(&keys, &["commit", "--quiet", "-m", "keys"]);
    let url = format!("file://{}", keys.display());
    for more in [&["--workspace", keys.to_str().unwrap(), "--base", "HEAD"][..], &["--workspace", &url]] {
        let wrong = user.agora(&[&["dispatch", "run", "--subagent", "w"], more].concat());
        assert!(wrong.failure(2).contains("holds keys or logins, which no agent ever sees"), "{more:?}");
    }
}

#[test]
fn a_directory_of_keys_is_not_worked_on() {
    let user = User::new(Mode::Layers);
    let keys = user.cli.work().parent().unwrap().join("home/.password-store");
    user.put(&keys, "bank", CANARY);
    user.agent("w", "cat bank");
    let wrong = user.agora(&["dispatch", "run", "--subagent", "w", "--workspace", keys.to_str().unwrap()]);
    assert!(wrong.failure(2).contains("holds keys or logins, which no agent ever sees"));
}

#[test]
fn what_is_agoras_own_is_not_worked_on() {
    let user = User::new(Mode::Layers);
    user.agent("w", "cat ledger.sqlite*; ls");
    let home = fs::canonicalize(user.home()).unwrap();
    let link = user.cli.work().join("innocent");
    symlink(&home, &link).unwrap();
    let repository = user.repository("main");
    user.dispatch(&repository, "true");
    // Also what has become a repository in there, by whatever name.
    let cached = home.join("repositories/x");
    user.git(&repository, &["clone", "--quiet", "--bare", ".", cached.to_str().unwrap()]);
    let grown = home.join("dispatches/x");
    user.git(&repository, &["clone", "--quiet", ".", grown.to_str().unwrap()]);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let url = format!("file://{}", cached.display());
    let spelled = url.replace("repositories", "%72epositories");
    let all =
        [text(&home), text(&home.join("keys")), text(&home.join("dispatches")), text(&link), url, spelled];
    let plain = all.iter().map(|place| vec!["--workspace", place]);
    let (grown, in_git) = (text(&grown), text(&grown.join(".git")));
    let commits = [vec!["--workspace", &grown, "--base", "HEAD"], vec!["--workspace", &in_git]];
    for more in plain.chain(commits) {
        let wrong = user.agora(&[&["dispatch", "run", "--subagent", "w"], &more[..]].concat());
        assert!(wrong.failure(2).contains("is agora's own"), "{more:?}");
    }
}

#[test]
fn the_whole_machine_is_not_worked_on() {
    let user = User::new(Mode::Layers);
    user.agent("w", "true");
    let wrong = user.agora(&["dispatch", "run", "--subagent", "w", "--workspace", "/"]).failure(2);
    assert!(wrong.contains("`/` cannot be worked on: it is the whole machine"), "{wrong}");
}

#[test]
fn what_is_left_out_is_said_once_with_what_to_do() {
    let user = User::ordinary(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, ".env", "KEY=1\n");
    user.put(&dir, "closed.txt", "x\n");
    fs::set_permissions(dir.join("closed.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    user.put(&dir, "shut/in", "x\n");
    fs::set_permissions(dir.join("shut"), fs::Permissions::from_mode(0o000)).unwrap();
    user.agent("w", "true");
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap()];
    let told =
        |ran: &agora_testkit::cli::Ran| ran.stderr.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    let ran = user.agora(&words);
    let expected = [
        "not in the agent's workspace, because it could be a secret or cannot be read: `shut`, `.env`, `closed.txt`",
        "hint: a `.worktreeinclude` beside it names what is to be taken all the same; `workspace.leftOut` of the result lists all",
    ];
    assert_eq!(told(&ran), expected);
    // Also when the base is there already.
    assert_eq!(told(&user.agora(&words)), expected);
    let shown = user.agora(&["show", "@"]).success();
    assert!(shown.contains("left out:    `shut`, `.env`, `closed.txt`\n"), "{shown}");
    fs::set_permissions(dir.join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn no_name_in_the_configuration_brings_a_token_along() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let url = format!("https://ann:{CANARY}@example.org/x.git");
    for (key, value) in [
        ("branch.main.remote".to_owned(), url.as_str()),
        ("branch.main.merge".to_owned(), "refs/heads/main"),
        (format!("remote.{url}.url"), url.as_str()),
        (format!("submodule.{url}.url"), url.as_str()),
        (format!("branch.{url}.remote"), "origin"),
    ] {
        user.git(&dir, &["config", &key, value]);
    }
    let result =
        user.dispatch(&dir, &format!("cat .git/config | grep -c {CANARY}; git config branch.main.remote"));
    assert_eq!(said(&result), ["0", "https://example.org/x.git"]);
}

#[test]
fn other_agents_work_is_not_among_the_refs_also_when_they_are_packed() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.git(&dir, &["tag", "-a", "-m", "one", "v1"]);
    user.dispatch(&dir, "echo w > w");
    user.git(&dir, &["pack-refs", "--all"]);
    assert!(user.git(&dir, &["for-each-ref"]).contains("refs/agora/"));
    let result = user.dispatch(
        &dir,
        "git for-each-ref --format='%(refname)'; git rev-parse --verify -q v1^{commit} | wc -l",
    );
    assert_eq!(said(&result), ["refs/heads/main", "refs/tags/v1", "1"]);
}

#[test]
fn nobody_else_on_the_machine_reads_the_copies() {
    if !rustix::process::geteuid().is_root() {
        return skipped("it takes root to look as somebody else");
    }
    for user in [User::new(Mode::Layers), User::ordinary(Mode::Layers)] {
        let dir = user.repository("private");
        // Whoever made it left it open.
        fs::set_permissions(user.home(), fs::Permissions::from_mode(0o755)).unwrap();
        let result = user.dispatch(&dir, "cat a.txt");
        assert_eq!(said(&result), ["one", "two", "three"]);
        // The temporary directory itself is root's alone.
        let top = user.cli.work().parent().unwrap().to_owned();
        fs::set_permissions(top, fs::Permissions::from_mode(0o755)).unwrap();
        let home = user.home().display();
        let look = |what: &str| {
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", what]);
            run(&mut command).stdout
        };
        assert_eq!(
            look(&format!("cat {home}/bases/*/1/files/a.txt; ls {home} {home}/grounds {home}/bases; true")),
            ""
        );
        // And where the home itself can be gone through.
        fs::set_permissions(user.home(), fs::Permissions::from_mode(0o711)).unwrap();
        let base = fs::read_dir(user.home().join("bases")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(look(&format!("cat {}/1/files/a.txt; true", base.display())), "");
    }
}
