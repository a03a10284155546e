//! `agora apply`: three ways, all or nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agora_testkit::cli::run;

use crate::support::{Mode, Untouched, User};

#[test]
fn work_is_merged_with_what_the_user_did_meanwhile() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, "dirty.txt", "dirty\n");
    user.git(&dir, &["add", "dirty.txt"]);
    user.dispatch(&dir, "sed -i s/one/ONE/ a.txt; echo more >> dirty.txt; rm src/b.txt; printf 'a\\0b' > bin; ln -s a.txt l; git commit -qam x");
    user.put(&dir, "a.txt", "one\ntwo\nthree\nTHE USER\n");
    let index = fs::read(dir.join(".git/index")).unwrap();
    let applied = user.agora(&["apply", "@", "--json"]).json();
    assert_eq!(applied["files"].as_array().unwrap().len(), 5);
    assert_eq!(fs::read_to_string(dir.join("a.txt")).unwrap(), "ONE\ntwo\nthree\nTHE USER\n");
    assert_eq!(fs::read_to_string(dir.join("dirty.txt")).unwrap(), "dirty\nmore\n");
    assert_eq!(fs::read(dir.join("bin")).unwrap(), b"a\0b");
    assert!(!dir.join("src/b.txt").exists() && dir.join("l").is_symlink());
    assert_eq!(fs::read(dir.join(".git/index")).unwrap(), index, "the index is the user's");
    // Again is no harm: it is all there.
    let said = user.agora(&["apply", "@"]).success();
    assert_eq!(said, "5 files in the working tree already: nothing was changed\n");
    assert_eq!(fs::read_to_string(dir.join("dirty.txt")).unwrap(), "dirty\nmore\n");
}

#[test]
fn conflicts_are_named_and_nothing_is_changed() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, "sed -i s/two/AGENT/ a.txt; echo fine > fine.txt");
    user.put(&dir, "a.txt", "one\nUSER\nthree\n");
    let before = Untouched::look(&user, &dir);
    let said = user.agora(&["apply", "@"]).failure(2);
    assert!(said.contains("`a.txt` changed here, too") && said.contains("nothing was changed"), "{said}");
    let said = user.agora(&["apply", "@", "--commit"]).failure(2);
    assert!(said.contains("`a.txt` changed here, too"), "{said}");
    assert_eq!(Untouched::look(&user, &dir), before);
    user.agora(&["apply", "@", "--branch", "theirs"]).success();
    let said = user.agora(&["apply", "@", "--branch", "theirs"]).failure(2);
    assert!(said.contains("branch `theirs` already"), "{said}");
    assert_eq!(user.git(&dir, &["show", "theirs:a.txt"]), "one\nAGENT\nthree\n");
}

#[test]
fn a_commit_goes_on_the_current_branch_with_what_is_there() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let result = user.dispatch(&dir, "sed -i s/two/AGENT/ a.txt; mkdir d; echo new > d/new.txt");
    user.put(&dir, "other.txt", "x\n");
    user.git(&dir, &["add", "-A"]);
    user.git(&dir, &["commit", "--quiet", "-m", "meanwhile"]);
    user.put(&dir, "staged.txt", "staged\n");
    user.git(&dir, &["add", "staged.txt"]);
    user.agora(&["apply", "@", "--commit"]).success();
    assert_eq!(user.git(&dir, &["status", "--porcelain"]), "A  staged.txt\n");
    assert_eq!(
        user.git(&dir, &["show", "--format=%an|%cn|%s", "--name-only", "HEAD"])
            .split('\n')
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>(),
        [&format!("Ann|agora/w|w: work of {}", result["threadId"].as_str().unwrap()), "a.txt", "d/new.txt"]
    );
    let patch = user.agora(&["apply", "@", "--patch"]).success();
    assert!(patch.starts_with("diff --git a/a.txt b/a.txt\n"), "{patch}");
}

#[test]
fn a_commit_is_the_first_one_where_there_is_none() {
    let user = User::new(Mode::Layers);
    let dir = user.cli.work().join("young");
    user.git(&user.cli.work(), &["init", "--quiet", "young"]);
    user.put(&dir, "staged.txt", "staged\n");
    user.git(&dir, &["add", "staged.txt"]);
    user.put(&dir, "loose.txt", "loose\n");
    // A commit of what the user has not committed would take that along.
    user.dispatch(&dir, "echo more >> loose.txt; echo new > new.txt");
    let before = Untouched::look(&user, &dir);
    let said = user.agora(&["apply", "@", "--commit"]).failure(2);
    assert!(said.contains("`loose.txt` changed here and is not committed"), "{said}");
    assert_eq!(Untouched::look(&user, &dir), before);

    user.dispatch(&dir, "echo new > new.txt; git add new.txt; git commit -qm mine -- new.txt");
    let lock = dir.join(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    user.agora(&["apply", "@", "--commit"]).failure(3);
    fs::remove_file(&lock).unwrap();
    assert_eq!(Untouched::look(&user, &dir), before, "all or nothing");
    let applied = user.agora(&["apply", "@", "--commit", "--json"]).json();
    assert_eq!(applied["branch"], "main");
    assert_eq!(user.git(&dir, &["log", "--name-only", "--format=%an|%cn|%P"]), "Ann|agora/w|\n\nnew.txt\n");
    assert_eq!(user.git(&dir, &["status", "--porcelain"]), "A  staged.txt\n?? loose.txt\n");
}

#[test]
fn what_tools_act_upon_wants_a_yes_and_links_are_not_written_through() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, "mkdir -p .vscode .github/workflows; echo {} > .vscode/tasks.json; echo x > .envrc; echo y > .github/workflows/ci.yml; echo z > z");
    let before = Untouched::look(&user, &dir);
    let said = user.agora(&["apply", "@"]).failure(2);
    for name in [".vscode/tasks.json", ".envrc", ".github/workflows/ci.yml", "--yes"] {
        assert!(said.contains(name), "{said}");
    }
    assert_eq!(Untouched::look(&user, &dir), before);
    user.agora(&["apply", "@", "--yes"]).success();
    assert!(dir.join(".envrc").exists());

    // The user's directory became a link to elsewhere, meanwhile.
    user.dispatch(&dir, "echo w > src/w.txt");
    let elsewhere = user.cli.work().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_dir_all(dir.join("src")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, dir.join("src")).unwrap();
    let said = user.agora(&["apply", "@"]).failure(2);
    assert!(said.contains("behind a symbolic link"), "{said}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_link_by_a_name_that_tools_act_upon_and_one_that_leads_out_want_a_yes() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(
        &dir,
        "mkdir cfg; echo {} > cfg/tasks.json; for n in .vscode .claude .github; do ln -s cfg $n; done; \
         ln -s /etc/passwd evil; ln -s ../../up src/up; ln -s ../a.txt src/fine; git add -A; git commit -qm links",
    );
    let before = Untouched::look(&user, &dir);
    for words in [&["apply", "@"][..], &["apply", "@", "--commit"], &["apply", "@", "--branch", "links"]] {
        let said = user.agora(words).failure(2);
        assert!(said.contains("tools act upon `.claude`, `.github`, `.vscode` as soon"), "{said}");
        assert!(said.contains("links lead out of the tree: `evil`, `src/up`"), "{said}");
        assert!(said.contains("--yes") && !said.contains(" ID"), "{said}");
    }
    assert_eq!(Untouched::look(&user, &dir), before);
    user.agora(&["apply", "@", "--yes"]).success();
    assert_eq!(fs::read_link(dir.join("evil")).unwrap(), std::path::Path::new("/etc/passwd"));
}

#[test]
fn a_directory_that_became_a_link_is_no_way_out() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, "mkdir other; echo x > other/x; rm -r src; ln -s other src");
    for _again in 0..2 {
        user.agora(&["apply", "@"]).success();
        assert_eq!(fs::read_link(dir.join("src")).unwrap(), std::path::Path::new("other"));
        assert_eq!(fs::read_to_string(dir.join("other/x")).unwrap(), "x\n");
    }
    // A file of the user's is in the directory that is to go.
    user.git(&dir, &["clean", "-fdq"]);
    user.git(&dir, &["checkout", "--quiet", "."]);
    fs::remove_file(dir.join("src")).ok();
    user.git(&dir, &["checkout", "--quiet", "."]);
    user.put(&dir, "src/users.txt", "x\n");
    let before = Untouched::look(&user, &dir).files_only();
    let said = user.agora(&["apply", "@"]).failure(2);
    assert!(said.contains("`src` changed here, too"), "{said}");
    assert_eq!(Untouched::look(&user, &dir).files_only(), before);
}

#[test]
fn files_with_a_hidden_secret_are_skipped_and_said() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.put(&dir, "only here.txt", "nobody else\nhas this\n");
    // Whatever such a file is called.
    user.agent(
        "w",
        r#"echo "token = $TOKEN" > config.txt; echo fine > fine.txt
           mv 'only here.txt' moved.txt; echo "$TOKEN" >> moved.txt
           for name in 'sp ace' 'q"uote' 'bäck\slash' 'st*r[x]?' "$(printf 'two\nlines')" "$(printf 'raw\377')"; do
               echo "$TOKEN" > "$name"
           done"#,
    );
    let words = [
        "dispatch",
        "run",
        "--subagent",
        "w",
        "--workspace",
        dir.to_str().unwrap(),
        "--secret",
        "TOKEN=env:TOKEN",
    ];
    let ran = run(user.agora_command(&words).env("TOKEN", "correct-horse-battery"));
    let told = "are not in the ref: a secret is hidden in them; `agora apply t_";
    assert!(ran.code == Some(0) && ran.stderr.contains(told), "{ran:?}");
    let before = fs::read_dir(&dir).unwrap().count();
    let ran = user.agora(&["apply", "@"]);
    assert!(ran.stderr.contains("skipped") && ran.stderr.contains("config.txt"), "{}", ran.stderr);
    assert!(dir.join("fine.txt").exists() && !dir.join("config.txt").exists());
    // What was moved to such a file stays where it was.
    assert!(dir.join("only here.txt").exists() && !dir.join("moved.txt").exists());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), before + 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(r#"`"q\"uote"`, `"raw\377"`, `"two\nlines"`"#), "{}", ran.stderr);
    assert!(ran.stderr.contains("so that it stays"), "{}", ran.stderr);
}

#[test]
fn a_plain_directory_takes_work_too_and_an_empty_workspace_has_none() {
    let user = User::new(Mode::Layers);
    let plain = user.cli.work().join("plain");
    user.put(&plain, "a.txt", "one\n");
    user.dispatch(&plain, "echo two >> a.txt");
    user.agora(&["apply", "@"]).success();
    assert_eq!(fs::read_to_string(plain.join("a.txt")).unwrap(), "one\ntwo\n");
    let said = user.agora(&["apply", "@", "--commit"]).failure(2);
    assert!(said.contains("no repository, so that there is nothing to commit to"), "{said}");
    let said = user.agora(&["apply", "@", "--branch", "x"]).failure(2);
    assert!(said.contains("nothing to make a branch of"), "{said}");
    user.agora(&["dispatch", "run", "--subagent", "w"]).success();
    let said = user.agora(&["apply", "@"]).failure(2);
    assert!(said.contains("no place here") && said.contains("--patch"), "{said}");
}

/// Ends as a git from before 2.38 does, which merges in a working tree alone; all else is the real one's.
const OLD_GIT: &str = r#"#!/bin/sh
case " $* " in *" merge-tree --write-tree "*) echo "usage: git merge-tree <base-tree> <branch1> <branch2>" >&2; exit 129 ;; esac
case " $*" in *" version") echo git version 2.34.1; exit ;; esac
exec /usr/bin/git "$@"
"#;

#[test]
fn a_git_that_cannot_merge_is_told_as_that_and_a_branch_is_made_all_the_same() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.dispatch(&dir, "echo w >> a.txt");
    let before = Untouched::look(&user, &dir);
    let bin = user.cli.work().parent().unwrap().join("old");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("git"), OLD_GIT).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let apply = |more: &[&str]| {
        let mut command = user.agora_command(&[&["apply", "@"], more].concat());
        run(command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())))
    };
    let said = apply(&[]).failure(3);
    assert!(said.contains("git version 2.34.1 cannot merge it: that takes 2.38 or newer"), "{said}");
    assert!(said.contains("nothing was changed") && said.contains("--branch NAME"), "{said}");
    assert_eq!(Untouched::look(&user, &dir), before);
    apply(&["--branch", "theirs"]).success();
    assert_eq!(user.git(&dir, &["diff", "--name-only", "main", "theirs"]), "a.txt\n");
}
