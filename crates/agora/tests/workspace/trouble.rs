//! Kills, a full disk, two at once, and what a sweep takes.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use agora_testkit::cli::{files_below, run};
use agora_testkit::part::skipped;

use crate::support::{MODES, Mode, User, said, warned};

fn bases(user: &User) -> Vec<PathBuf> {
    let Ok(sources) = fs::read_dir(user.home().join("bases")) else { return Vec::new() };
    sources
        .flat_map(|source| fs::read_dir(source.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn is_making(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("tmp-")
}

#[test]
fn whoever_is_killed_while_a_base_is_made_leaves_none_or_a_whole_one() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    for number in 0..3000 {
        let below = dir.join(format!("d{}", number % 30));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(number.to_string()), "x".repeat(2000)).unwrap();
    }
    user.agent("w", "find . -name '[0-9]*' -type f | wc -l");
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--json"];
    let mut killed = 0;
    for _ in 0..5 {
        let mut child =
            user.agora_command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Until a base is begun: its directory is there, and not its name.
        while !bases(&user).iter().any(|path| is_making(path)) && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        killed += u32::from(bases(&user).iter().any(|path| is_making(path)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(killed > 0, "nobody was killed in time");
    let result = user.agora(&words).json();
    assert_eq!(said(&result), ["3000"]);
    assert!(!bases(&user).iter().any(|path| is_making(path)), "{:?}", bases(&user));
}

#[test]
fn two_at_once_share_one_base() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.agent("w", "cat a.txt; echo w > w");
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--json"];
    let children: Vec<_> = (0..4)
        .map(|_| user.agora_command(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said(&result), ["one", "two", "three"]);
    }
    let bases = bases(&user).into_iter().filter(|path| path.is_dir()).count();
    assert_eq!(bases, 1);
    assert_eq!(user.git(&dir, &["for-each-ref", "refs/agora"]).lines().count(), 4);
}

#[test]
fn six_at_once_fetch_from_one_url() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.agent("w", "cat a.txt");
    let url = format!("file://{}", dir.display());
    let words = ["dispatch", "run", "--subagent", "w", "--workspace", &url, "--json"];
    let branches = |user: &User| {
        let heads: String = (0..400).map(|number| format!("update refs/heads/b{number} HEAD\n")).collect();
        user.put(&dir, ".git/moves", &heads);
        user.git(&dir, &["-c", "alias.move=!git update-ref --stdin < .git/moves", "move"]);
    };
    branches(&user);
    user.agora(&words).success();
    user.git(&dir, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    branches(&user);
    let children: Vec<_> = (0..6)
        .map(|_| user.agora_command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn only_what_changed_is_kept_for_the_next() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    for number in 0..50 {
        fs::write(dir.join(format!("{number}.bin")), vec![b'x'; 100_000]).unwrap();
    }
    // Older than any clock's tick.
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for (path, _) in
        files_below(&dir).iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "bin"))
    {
        fs::File::options().write(true).open(path).unwrap().set_modified(past).unwrap();
    }
    let first = user.dispatch(&dir, "true");
    user.put(&dir, "0.bin", "changed");
    fs::remove_file(dir.join("1.bin")).unwrap();
    let second = user.dispatch(&dir, "cat 0.bin; ls *.bin | wc -l; echo z > 2.bin");
    assert_eq!(said(&second), ["changed49"]);
    assert_eq!(first["workspace"]["base"], second["workspace"]["base"]);
    let sealed = user
        .home()
        .join("dispatches")
        .join(second["dispatchId"].as_str().unwrap())
        .join("out/workspace.sealed");
    assert!(fs::metadata(sealed).unwrap().len() < 50_000, "the snapshot holds what changed");
    assert_eq!(fs::metadata(dir.join("2.bin")).unwrap().len(), 100_000);
}

/// The image of a disk that is nearly empty.
#[test]
fn a_file_with_holes_takes_no_more_than_it_holds() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = user.repository("main");
        let image = fs::File::create(dir.join("disk.img")).unwrap();
        image.set_len(1 << 30).unwrap();
        image.write_all_at(b"begin", 0).unwrap();
        image.write_all_at(b"middle", 1 << 29).unwrap();
        image.sync_all().unwrap();
        let look = "stat -c %s disk.img; head -c 5 disk.img; tail -c +536870913 disk.img | head -c 6; test $(du -k disk.img | cut -f1) -lt 1000";
        for _ in 0..2 {
            assert_eq!(said(&user.dispatch(&dir, look)), ["1073741824", "beginmiddle"], "{mode:?}");
        }
        let copies = files_of(user.home(), "disk.img");
        assert!(
            !copies.is_empty() && copies.iter().all(|copy| copy.blocks() * 512 < 1_000_000),
            "{copies:?}"
        );
    }
}

fn files_of(dir: &Path, name: &str) -> Vec<fs::Metadata> {
    let entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()).collect();
    let below = entries.iter().filter(|entry| entry.file_type().unwrap().is_dir());
    let below = below.flat_map(|entry| files_of(&entry.path(), name)).collect::<Vec<_>>();
    let here =
        entries.iter().filter(|entry| entry.file_name() == name).map(|entry| entry.metadata().unwrap());
    here.chain(below).collect()
}

#[test]
fn a_full_disk_is_said_before_anything_is_accepted() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    fs::write(dir.join("large"), vec![b'x'; 8 << 20]).unwrap();
    user.agent("w", "true");
    let home = user.home().to_owned();
    let script = format!(
        "cp -a {0} {0}.kept && mount -t tmpfs -o size=4m none {0} && cp -a {0}.kept/. {0}/ || exit 99\n\
         {1} dispatch run --subagent w --workspace {2}; code=$?\n\
         {1} ls --json | grep -q '\\[\\]' || exit 98\n\
         test -z \"$(ls {0}/grounds 2>/dev/null)\" || exit 97\n\
         test -z \"$(ls -d {0}/bases/*/[0-9]* {0}/bases/*/tmp* 2>/dev/null)\" || exit 96\n\
         exit $code",
        home.display(),
        env!("CARGO_BIN_EXE_agora"),
        dir.display()
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", &script]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("AGORA_HOME", &home).env("HOME", &home);
    let ran = run(&mut command);
    if ran.code == Some(99) || ran.stderr.contains("unshare") {
        agora_testkit::part::skipped(&format!("no user namespaces here: {}", ran.stderr));
        return;
    }
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
}

#[test]
fn a_repository_of_somebody_elses_is_worked_on_and_git_says_why_nothing_comes_home() {
    if !rustix::process::geteuid().is_root() {
        return skipped("it takes root to give files away");
    }
    let user = User::new(Mode::Layers);
    let dir = user.repository("theirs");
    run(std::process::Command::new("chown").args(["-R", "4321:4321"]).arg(&dir)).success();
    let result = user.dispatch(&dir, "git status --porcelain; echo w >> a.txt; git commit -qam w");
    assert!(warned(&result).contains("dubious ownership"), "{result:#}");
    assert!(user.agora(&["apply", "@", "--patch"]).success().contains("+w\n"));
    let words =
        ["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap(), "--base", "HEAD"];
    let wrong = user.agora(&words);
    assert!(
        wrong.stderr.contains("dubious ownership") && !wrong.stderr.contains("no commit"),
        "{}",
        wrong.stderr
    );
    // Once they trust it, it comes.
    user.git(&user.cli.work(), &["config", "--global", "--add", "safe.directory", dir.to_str().unwrap()]);
    let id = result["threadId"].as_str().unwrap();
    user.agora(&["apply", id, "--branch", "theirs"]).success();
    assert_eq!(user.git(&dir, &["log", "-1", "--format=%s", "theirs"]), "w\n");
}

#[test]
fn a_repository_that_nobody_can_borrow_from_is_refused_before_anything_starts() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("two\nlines");
    user.agent("w", "git status");
    let wrong = user.agora(&["dispatch", "run", "--subagent", "w", "--workspace", dir.to_str().unwrap()]);
    assert!(wrong.failure(2).contains("has a line break in its name"));
    // Where nothing is borrowed it is a name like any other.
    let plain = user.cli.work().join("three\nlines");
    user.put(&plain, "a.txt", "a\n");
    let result = user.dispatch(&plain, "echo w >> a.txt");
    assert_eq!(result["patch"]["files"], 1);
    user.agora(&["apply", "@"]).success();
    assert_eq!(fs::read_to_string(plain.join("a.txt")).unwrap(), "a\nw\n");
}
