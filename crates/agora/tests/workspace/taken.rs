//! A commit is taken instead of a working tree: of a repository here, or of one that is fetched.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::SystemTime;

use agora_testkit::cli::{Ran, files_below, run};

use crate::support::{MODES, Mode, User, git_ref, said};

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
        // A merge that is under way is not one of that commit.
        user.put(&dir, ".git/MERGE_HEAD", &fs::read_to_string(dir.join(".git/refs/heads/main")).unwrap());
        let before = whole(&dir);
        user.agent("w", "git status --porcelain; ls .git/MERGE_HEAD; cat -A a.txt; head -c 7 large.bin; git log --format=%s");
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

/// Nobody has to find a repository that agora knows the place of.
#[test]
fn a_commit_is_taken_where_git_is_told_to_find_no_repository_by_itself() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let work = user.cli.work();
    user.git(&work, &["clone", "--quiet", "--bare", "main", "all/.bare"]);
    user.git(&work.join("all/.bare"), &["worktree", "add", "--quiet", "-b", "side", "../side"]);
    user.git(&work, &["config", "--global", "safe.bareRepository", "explicit"]);
    user.agent("w", "cat a.txt");
    for (dir, path) in [dir, work.join("all/side")].iter().flat_map(|dir| PATHS.map(|path| (dir, path))) {
        let words =
            ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--base", "main"];
        let ran = run(user.agora_command(&words).env("PATH", path));
        assert_eq!(ran.success(), "one\ntwo\nthree\n", "{path}");
        let gone = run(user.agora_command(&[&words[..7], &["gone"]].concat()).env("PATH", path)).failure(2);
        assert!(gone.contains("there is no commit `gone`"), "{gone}");
    }
    // And work comes home to it.
    let bare = work.join("all/.bare");
    let result = user.dispatch(&bare, "echo w >> a.txt");
    user.agora(&["apply", "@", "--branch", "done"]).success();
    let git_dir = format!("--git-dir={}", bare.display());
    let commit = user.git(&work, &[&git_dir, "rev-parse", &git_ref(&result)]);
    assert_eq!(user.git(&work, &[&git_dir, "rev-parse", "done"]), commit);
}

/// Lets an agent look at a repository that is named by its URL.
fn look(user: &User, dir: &Path, path: &str, base: Option<&str>) -> Ran {
    user.agent("w", "git log --format=%s; git for-each-ref --format='%(refname)' refs/heads refs/tags; git status --short; git fsck >&2");
    let url = format!("file://{}", dir.display());
    let mut words = vec!["dispatch", "run", "--subagent", "w", "--workspace", &url];
    words.extend(base.into_iter().flat_map(|base| ["--base", base]));
    run(user.agora_command(&words).env("PATH", path))
}

#[test]
fn what_is_gone_from_a_url_is_gone_from_its_cache() {
    for path in PATHS {
        let user = User::new(Mode::Layers);
        let dir = user.repository("main");
        user.git(&dir, &["branch", "side"]);
        user.git(&dir, &["tag", "v1"]);
        let all = "first\nrefs/heads/main\nrefs/heads/side\nrefs/tags/v1\n";
        assert_eq!(look(&user, &dir, path, None).success(), all);
        // Names of one kind become directories of names.
        user.git(&dir, &["branch", "-m", "side", "side/deep"]);
        user.git(&dir, &["tag", "-d", "v1"]);
        user.git(&dir, &["tag", "v1/0"]);
        let all = "first\nrefs/heads/main\nrefs/heads/side/deep\nrefs/tags/v1/0\n";
        assert_eq!(look(&user, &dir, path, Some("side/deep")).success(), all);
        assert!(look(&user, &dir, path, Some("side")).failure(2).contains("there is no commit `side`"));
        user.git(&dir, &["branch", "-m", "side/deep", "side"]);
        let all = "first\nrefs/heads/main\nrefs/heads/side\nrefs/tags/v1/0\n";
        assert_eq!(look(&user, &dir, path, None).success(), all);
    }
}

#[test]
fn a_git_that_died_while_it_fetched_is_in_nobodys_way() {
    let user = User::new(Mode::Layers);
    let from = user.repository("from");
    let url = format!("file://{}", from.display());
    user.git(&user.cli.work(), &["clone", "--quiet", "--depth=1", &url, "main"]);
    let dir = user.cli.work().join("main");
    let all = "first\nrefs/heads/main\n";
    assert_eq!(look(&user, &dir, PATHS[0], None).success(), all);
    let caches = user.home().join("repositories");
    let cache = fs::read_dir(&caches).unwrap().next().unwrap().unwrap().path();
    for lock in ["HEAD", "shallow", "packed-refs", "refs/heads/main", "refs/agora-cache/HEAD"] {
        fs::write(cache.join(format!("{lock}.lock")), "").unwrap();
    }
    user.git(&dir, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    assert_eq!(look(&user, &dir, PATHS[0], None).success(), format!("second\n{all}"));
}

/// How the other side keeps what it has, and what the user's own git prefers.
#[test]
fn a_url_is_fetched_from_whatever_repository_it_is() {
    let seen = "first\nrefs/heads/main\n";
    for (name, global, path) in [
        ("sha256", "", PATHS[0]),
        ("sha256", "", PATHS[1]),
        ("sha1", "[init]\ndefaultObjectFormat = sha256", PATHS[1]),
        ("sha1", "[init]\ndefaultRefFormat = reftable", PATHS[1]),
        ("sha1", "[safe]\nbareRepository = explicit", PATHS[0]),
        ("sha1", "[safe]\nbareRepository = explicit", PATHS[1]),
    ] {
        let user = User::new(Mode::Layers);
        let dir = user.cli.work().join("main");
        user.git(&user.cli.work(), &["init", "--quiet", &format!("--object-format={name}"), "main"]);
        user.put(&dir, "a.txt", "a\n");
        user.git(&dir, &["add", "-A"]);
        user.git(&dir, &["commit", "--quiet", "-m", "first"]);
        let config = user.cli.work().parent().unwrap().join("home/.gitconfig");
        let own = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{own}\n{global}\n")).unwrap();
        for base in [None, Some("main"), None] {
            assert_eq!(look(&user, &dir, path, base).success(), seen, "{name} {global} {path}");
        }
        // And the thread goes on: what it borrows is found again.
        user.agora(&["continue", "@"]).success();
    }
}

#[test]
fn a_url_of_a_shallow_repository_is_as_shallow() {
    for path in PATHS {
        let user = User::new(Mode::Layers);
        let from = user.repository("from");
        user.git(&from, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
        let url = format!("file://{}", from.display());
        user.git(&user.cli.work(), &["clone", "--quiet", "--depth=1", &url, "main"]);
        let dir = user.cli.work().join("main");
        assert_eq!(look(&user, &dir, path, None).success(), "second\nrefs/heads/main\n");
        user.git(&from, &["commit", "--quiet", "--allow-empty", "-m", "third"]);
        user.git(&dir, &["fetch", "--quiet", "--depth=1"]);
        user.git(&dir, &["reset", "--quiet", "--hard", "origin/main"]);
        assert_eq!(look(&user, &dir, path, None).success(), "third\nrefs/heads/main\n");
        user.git(&dir, &["fetch", "--quiet", "--unshallow"]);
        assert_eq!(look(&user, &dir, path, None).success(), "third\nsecond\nfirst\nrefs/heads/main\n");
    }
}

#[test]
fn a_url_without_a_default_branch_says_which_there_are() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    assert_eq!(look(&user, &dir, PATHS[0], None).success(), "first\nrefs/heads/main\n");
    user.git(&dir, &["symbolic-ref", "HEAD", "refs/heads/gone"]);
    let said = look(&user, &dir, PATHS[0], None).failure(2);
    assert!(
        said.contains("its HEAD names one that is not there") && said.contains("there is `main`"),
        "{said}"
    );
    assert_eq!(look(&user, &dir, PATHS[0], Some("main")).success(), "first\nrefs/heads/main\n");
    user.git(&dir, &["update-ref", "-d", "refs/heads/main"]);
    for base in [None, Some("main")] {
        let said = look(&user, &dir, PATHS[0], base).failure(2);
        assert!(said.contains("has no commit"), "{said}");
    }
}

#[test]
fn a_url_is_fetched_through_the_users_proxy() {
    let user = User::new(Mode::Layers);
    user.agent("w", "true");
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", proxy.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let mut line = String::new();
        let (mut stream, _) = proxy.accept().unwrap();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        line
    });
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", "http://repository.invalid/x.git"];
    let said = run(user.agora_command(&words).env("http_proxy", at)).failure(3);
    assert!(said.contains("could not be fetched") && said.contains("not found"), "{said}");
    assert!(asked.join().unwrap().starts_with("GET http://repository.invalid/x.git/info/refs"));
}
