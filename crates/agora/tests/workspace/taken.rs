//! A commit is taken instead of a working tree: of a repository here, or of one that is fetched.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use agora_testkit::cli::{files_below, run};

use crate::support::{MODES, Mode, User, said};

/// The git of the distribution first, or another that is newer, where there is one.
const PATHS: [&str; 2] = ["/usr/bin:/bin:/usr/local/bin", "/usr/local/bin:/usr/bin:/bin"];

/// Everything in a directory, byte by byte, and when it was written.
fn whole(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>, SystemTime)> {
    let files = files_below(dir).into_iter();
    files.map(|(path, _)| (path.clone(), fs::read(&path).unwrap(), modified(&path))).collect()
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn a_commit_is_taken_without_a_program_of_the_repositorys_and_without_a_trace_in_it() {
    for (mode, path) in MODES.into_iter().zip(PATHS) {
        let user = User::new(mode);
        let dir = user.repository("main");
        user.put(&dir, ".gitattributes", "*.txt filter=canary text eol=crlf ident\n*.bin filter=lfs\n");
        user.put(
            &dir,
            "large.bin",
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        );
        user.put(&dir, "a.txt", "one\n$Id$\n");
        user.git(&dir, &["add", "-A"]);
        user.git(&dir, &["commit", "--quiet", "-m", "second"]);
        // What is configured from here on waits for whoever checks something out.
        let owned = user.cli.work().join("owned");
        let canary = format!("touch {}; cat", owned.display());
        for kind in ["filter.canary", "filter.lfs"] {
            for key in ["clean", "smudge", "process"] {
                user.git(&dir, &["config", &format!("{kind}.{key}"), &canary]);
            }
            user.git(&dir, &["config", &format!("{kind}.required"), "true"]);
        }
        for key in ["core.fsmonitor", "core.sshCommand", "core.pager", "core.alternateRefsCommand"] {
            user.git(&dir, &["config", key, &canary]);
        }
        user.put(&dir, ".git/info/attributes", "* filter=canary\n");
        for hook in ["post-checkout", "post-index-change", "reference-transaction", "post-merge"] {
            user.put(&dir, &format!(".git/hooks/{hook}"), &format!("#!/bin/sh\n{canary}\n"));
            user.git(&dir, &["-c", &format!("alias.x=!chmod 755 .git/hooks/{hook}"), "x"]);
        }
        user.git(&dir, &["config", "core.splitIndex", "true"]);
        user.git(&dir, &["config", "splitIndex.maxPercentChange", "0"]);
        let _ = fs::remove_file(&owned);
        let before = whole(&dir);
        user.agent("w", "git status --porcelain; cat -A a.txt; head -c 7 large.bin; git log --format=%s");
        for rev in ["HEAD", "main"] {
            let words = [
                "dispatch",
                "run",
                "--subagent",
                "w",
                "--json",
                "--workspace",
                dir.to_str().unwrap(),
                "--base",
                rev,
            ];
            let result = run(user.agora_command(&words).env("PATH", path)).json();
            assert_eq!(said(&result), ["one$", "$Id$$", "versionsecond", "first"], "{path}: {result:#}");
        }
        assert!(!owned.exists(), "{path}: a program of the repository's ran");
        assert_eq!(whole(&dir), before, "{path}");
    }
}

#[test]
fn what_a_clone_in_part_lacks_is_not_fetched_into_it_unasked() {
    let user = User::new(Mode::Layers);
    let from = user.repository("from");
    user.git(&from, &["config", "uploadpack.allowFilter", "true"]);
    user.put(&from, "a.txt", "later\n");
    user.git(&from, &["commit", "--quiet", "-am", "later"]);
    let url = format!("file://{}", from.display());
    user.git(&user.cli.work(), &["clone", "--quiet", "--filter=blob:none", &url, "part"]);
    let dir = user.cli.work().join("part");
    user.agent("w", "cat a.txt");
    let run = |rev: &str| {
        let words =
            ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--base", rev];
        user.agora(&words)
    };
    let before = whole(&dir);
    assert_eq!(run("HEAD").success(), "later\n");
    let wrong = run("HEAD~1").failure(3);
    assert!(
        wrong.contains("`git read-tree` failed") && wrong.contains("cloned in part: `git archive"),
        "{wrong}"
    );
    assert_eq!(whole(&dir), before);
    let hint = wrong.split('`').find(|words| words.starts_with("git archive")).unwrap();
    user.git(&dir, &["-c", &format!("alias.fill=!{hint}"), "fill"]);
    assert_eq!(run("HEAD~1").success(), "one\ntwo\nthree\n");
}
