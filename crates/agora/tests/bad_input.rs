//! Bad input: each gets a clear error, and nothing is changed.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts what it looks at"
)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use agora_testkit::cli::{Cli, files_below, run};

fn cli() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    cli.write("good/file", "good");
    cli.run(&["capability", "register", "--name", "good", "--from", "good"]).success();
    cli
}

/// Asserts that a command is refused with a message, in text and as JSON, and leaves everything as it was.
#[track_caller]
fn refused(cli: &Cli, arguments: &[&str], expected: &[&str]) {
    // The catalogue is a copy that reading may renew.
    let kept = || {
        let mut files = files_below(&cli.agora_home());
        files.retain(|(path, _)| !path.ends_with("catalogue"));
        files
    };
    let before = kept();
    let said = cli.run(arguments).failure(2);
    for expected in expected {
        assert!(said.contains(expected), "{said}\nshould say {expected}");
    }
    let ran = cli.run(&[arguments, &["--json"]].concat());
    assert_eq!(ran.code, Some(2));
    let error: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(error["error"]["code"].is_string() && error["error"]["message"].is_string(), "{error}");
    assert_eq!(ran.stderr, "", "with --json everything is in the document");
    assert!(kept() == before, "nothing changed");
}

#[track_caller]
fn tree_refused(cli: &Cli, expected: &[&str]) {
    refused(cli, &["capability", "register", "--name", "bad", "--from", "cap"], expected);
    assert_eq!(cli.run(&["capability", "list", "--json"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn paths_that_a_bundle_cannot_have() {
    for (path, expected) in [
        ("cap/a\\b", "backslash"),
        ("cap/.agora/needs_input.json", "`.agora/` is agora's own"),
        ("cap/.git/config", "`.git` is git's own"),
        ("cap/sub/.git/config", "`.git` is git's own"),
        ("cap/new\nline", "control character"),
    ] {
        let cli = cli();
        cli.write(path, "x");
        tree_refused(&cli, &["error: ", "cannot be part of a capability", expected, "hint: "]);
    }
}

#[test]
fn what_is_no_file() {
    let link = cli();
    link.write("cap/file", "x");
    symlink("/etc/passwd", link.work().join("cap/link")).unwrap();
    tree_refused(&link, &["`cap/link`", "symbolic link"]);

    let dangling = cli();
    dangling.write("cap/file", "x");
    symlink("/nowhere", dangling.work().join("cap/link")).unwrap();
    tree_refused(&dangling, &["`cap/link`", "symbolic link"]);

    let directory = cli();
    directory.write("cap/file", "x");
    symlink("/etc", directory.work().join("cap/dir")).unwrap();
    tree_refused(&directory, &["`cap/dir`", "symbolic link"]);

    let fifo = cli();
    fifo.write("cap/file", "x");
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert_eq!(run(mkfifo.arg(fifo.work().join("cap/pipe"))).code, Some(0));
    tree_refused(&fifo, &["`cap/pipe`", "a pipe (FIFO)"]);

    let socket = cli();
    socket.write("cap/file", "x");
    let _listener = UnixListener::bind(socket.work().join("cap/s")).unwrap();
    tree_refused(&socket, &["`cap/s`", "a socket"]);

    let device = cli();
    device.write("cap/file", "x");
    let mut mknod = std::process::Command::new("mknod");
    let made = run(mknod.arg(device.work().join("cap/null")).args(["c", "1", "3"]));
    // Only root can make a device; elsewhere nobody can put one there either.
    if made.code == Some(0) {
        tree_refused(&device, &["`cap/null`", "a device"]);
    }
}

#[test]
fn names_that_differ_only_in_case_or_are_not_text() {
    let case = cli();
    case.write("cap/Read.me", "x");
    case.write("cap/read.ME", "y");
    tree_refused(&case, &["`Read.me` and `read.ME` differ only in letter case"]);

    let both = cli();
    both.write("cap/a", "x");
    both.write("cap/A/b", "y");
    tree_refused(&both, &["`a` is a file, and also the directory of `A/b`"]);

    let bytes = cli();
    bytes.write("cap/file", "x");
    fs::write(bytes.work().join("cap").join(OsStr::from_bytes(b"\xff\xfe")), "x").unwrap();
    tree_refused(&bytes, &["its name is not UTF-8"]);

    let empty = cli();
    fs::create_dir(empty.work().join("cap")).unwrap();
    tree_refused(&empty, &["there is no file in it"]);
    refused(
        &empty,
        &["capability", "register", "--name", "bad", "--from", "nowhere"],
        &["`nowhere` cannot be read"],
    );
    refused(
        &empty,
        &["capability", "register", "--name", "bad", "--from", "good/file"],
        &["`good/file` cannot be read"],
    );
}

#[test]
fn what_is_too_large() {
    const LIMIT: usize = 50 * 1024 * 1024;
    let bytes = cli();
    bytes.write("cap/a", vec![b'a'; LIMIT]);
    bytes.run(&["capability", "register", "--name", "most", "--from", "cap"]).success();
    bytes.write("cap/b", "x");
    refused(
        &bytes,
        &["capability", "register", "--name", "bad", "--from", "cap"],
        &["52428801 bytes", "the most is 52428800 (50 MiB)", "hint: "],
    );
    let one = cli();
    one.write("cap/a", vec![b'a'; LIMIT + 1]);
    tree_refused(&one, &["52428801 bytes", "50 MiB"]);

    let files = cli();
    for number in 0..20_000 {
        files.write(&format!("cap/{}/{number}", number % 100), "");
    }
    files.run(&["capability", "register", "--name", "most", "--from", "cap"]).success();
    files.write("cap/one-more", "");
    refused(
        &files,
        &["capability", "register", "--name", "bad", "--from", "cap"],
        &["20001 files", "the most is 20000"],
    );
}

#[test]
fn credentials_wherever_they_are() {
    let key = ["AKIA", "IOSFODNN7EXAMPLE"].concat();
    let token = ["github_pat_", "11ABCDEFG0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789"].concat();
    let cli = cli();
    cli.write("cap/notes.txt", format!("one\ntwo {key}\n"));
    tree_refused(
        &cli,
        &["`cap/notes.txt`", "line 2", "`aws-access-key-id`", "--allow-credential-pattern aws-access-key-id"],
    );
    cli.write("cap/notes.txt", [b"\0\xff\n\n", token.as_bytes(), b"\0"].concat());
    tree_refused(&cli, &["`cap/notes.txt`", "line 3", "`github-token`"]);
    let said = cli.run(&["capability", "register", "--name", "bad", "--from", "cap"]).failure(2);
    assert!(!said.contains(&token), "the value is never shown");

    let prompt = format!("Use this:\n{token}");
    refused(
        &cli,
        &["subagent", "register", "--name", "bad", "--system-prompt", &prompt],
        &["`systemPrompt`", "line 2"],
    );
    refused(
        &cli,
        &["subagent", "register", "--name", "bad", "--prompt-template", &prompt],
        &["`promptTemplate`", "line 2"],
    );
    let value = format!("TOKEN={token}");
    refused(
        &cli,
        &["env", "register", "--name", "bad", "--value", &value],
        &["the value of `TOKEN`", "`github-token`"],
    );

    let allowed = [
        "env",
        "register",
        "--name",
        "fine",
        "--value",
        &value,
        "--allow-credential-pattern",
        "github-token",
    ];
    cli.run(&allowed).success();
    refused(
        &cli,
        &["env", "register", "--name", "bad", "--value", "A=b", "--allow-credential-pattern", "github"],
        &["no credential pattern is named `github`", "github-token"],
    );
}

#[test]
fn definitions_that_cannot_be_used() {
    let cli = cli();
    let case = |file: &str, content: &str, expected: &[&str]| {
        cli.write(file, content);
        refused(&cli, &["subagent", "register", "--name", "bad", "--from", file], expected);
    };
    case("a.yaml", "systemPrompt: x\nmodel: [fast\n", &["`a.yaml`", "line 2, column 8"]);
    case("a.yml", "systemPrompt: x\nsytemPrompt: y\n", &["unknown field `sytemPrompt`"]);
    case("a.toml", "systemPrompt = 'x'\nmodel = = 'y'\n", &["`a.toml`", "line 2, column 9"]);
    case("a.toml", "systemPrompt = 'x'\n[verify]\ncomand = 'y'\n", &["unknown field `comand`"]);
    case("a.md", "---\nname: bad\ntols: Read\n---\nx", &["unknown field `tols`"]);
    case("a.md", "no front matter", &["front matter"]);
    case("a.md", "---\nname: other\n---\nx", &["names its subagent `other`", "registered as `bad`"]);
    case("a.json", "{}", &[".yaml, .yml, .toml or .md"]);
    case(
        "b.yaml",
        "systemPrompt: x\ncapabilities: [goood]\n",
        &["no capability named `goood`", "did you mean `good`?"],
    );
    case(
        "c.yaml",
        "systemPrompt: x\ncapabilities: ['good@sha256:000000000000']\n",
        &["agora capability versions good"],
    );
    case("d.yaml", "systemPrompt: x\ncapabilities: [good, good]\n", &["`good` is listed twice"]);
    case(
        "e.yaml",
        "systemPrompt: x\ninputs: {type: strnig}\n",
        &["`inputs` is not a usable JSON Schema", "strnig"],
    );
    case("f.yaml", "systemPrompt: x\npromptTemplate: '{{#a}}'\n", &["line 1", "`a` is never closed"]);
    case(
        "g.yaml",
        "systemPrompt: x\ninputs: {maximum: 9223372036854775807}\n",
        &["9223372036854775807", "exactly"],
    );
    case("h.yaml", "runtime: command\n", &["wants `command`"]);
    cli.write("binary.yaml", b"systemPrompt: \xff\xfe");
    refused(&cli, &["subagent", "register", "--name", "bad", "--from", "binary.yaml"], &["not UTF-8"]);
    refused(&cli, &["subagent", "register", "--name", "bad"], &["nothing to run"]);
    refused(&cli, &["subagent", "register", "--system-prompt", "x"], &["has no name"]);
    assert_eq!(cli.run(&["subagent", "list", "--json"]).json().as_array().unwrap().len(), 0);
}

#[test]
fn names_references_and_variables_that_are_none() {
    let cli = cli();
    let long = "x".repeat(129);
    for name in ["a/b", "a@b", "a b", "", "..", long.as_str()] {
        refused(&cli, &["capability", "register", "--name", name, "--from", "good"], &["error: "]);
    }
    refused(
        &cli,
        &["capability", "get", "nope"],
        &["there is no capability named `nope`", "agora capability list"],
    );
    refused(&cli, &["capability", "get", "good@sha256:abc"], &["12 to 64 digits"]);
    refused(&cli, &["capability", "get", "good@yesterday"], &["neither `sha256:…` nor a time"]);
    refused(&cli, &["capability", "get", "good@2001-01-01T00:00:00Z"], &["had no version yet"]);
    refused(
        &cli,
        &["env", "register", "--name", "e", "--value", "AGORA_HOME=x"],
        &["`AGORA_HOME` is not a switch", "AGORA_CLAUDE_PERMISSION_MODE"],
    );
    refused(&cli, &["env", "register", "--name", "e", "--value", "9A=x"], &["not a variable's name"]);
    refused(
        &cli,
        &["env", "register", "--name", "e", "--value", "A=1", "--value", "A=2"],
        &["`A` is given twice"],
    );
    refused(
        &cli,
        &["env", "register", "--name", "e", "--value", "A=1", "--secret", "A=cmd:x"],
        &["as a value and as a secret"],
    );
    refused(&cli, &["capability", "list", "--nonsense"], &["unexpected argument"]);
    refused(&cli, &["explain", "nope"], &["there is no subagent named `nope`"]);
}

#[test]
fn words_that_name_what_there_is() {
    let cli = cli();
    refused(&cli, &["auth", "bogus"], &["`claude` or `codex`, or `status`, or `remove`"]);
    refused(&cli, &["run", "--jobs", "3", "a task"], &["--jobs"]);
    refused(&cli, &["run", "--jobs", "3"], &["--each"]);
    cli.write("short", "abc");
    let short = ["auth", "claude", "--secret", "ANTHROPIC_API_KEY=file:short"];
    refused(&cli, &short, &["`agora env register --allow-short-secret` takes it all the same"]);
}

#[test]
fn a_broken_agent_is_said_with_its_cause_when_a_home_is_made() {
    let cli = cli();
    cli.write(".claude/agents/fixer.md", "---\nname: [\n---\nfix it\n");
    let ran = cli.run(&["init", "--yes"]);
    let line =
        ran.stderr.lines().find(|line| line.contains("is not a usable definition")).unwrap_or_default();
    let (_, cause) = line.split_once("is not a usable definition").unwrap_or_default();
    assert!(cause.len() > 5, "{}", ran.stderr);
}

#[test]
fn a_grant_of_nothing_is_said() {
    let cli = cli();
    let config = cli.work().parent().unwrap().join("home/.config/agora");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("agora.toml"), "[target.local]\ngrant = [\"~/nowhere:ro\"]\n").unwrap();
    let mut git = std::process::Command::new("git");
    assert!(git.args(["init", "--quiet"]).current_dir(cli.work()).status().unwrap().success());
    let ran = cli.run(&["explain", "--sandbox"]);
    assert!(ran.stderr.contains("the grant `~/nowhere:ro` names nothing on this machine"), "{}", ran.stderr);
    assert!(ran.stdout.contains("/work/.git/objects\n"), "{}", ran.stdout);
}

#[test]
fn a_directory_whose_name_is_no_text_is_shown_in_every_document() {
    let cli = cli();
    let root = cli.work().parent().unwrap().to_owned();
    let odd = |name: &[u8]| {
        let dir = root.join(OsStr::from_bytes(name));
        fs::create_dir_all(&dir).unwrap();
        dir
    };
    let (work, home, user) = (odd(b"work-\xff"), odd(b"agora-\xff"), odd(b"home-\xff"));
    fs::write(work.join("agora.toml"), "[target.fast]\nmax_concurrent = 8\n").unwrap();
    let (file, shown) = (|name: &str| format!("{}/{name}", work.display()), home.display().to_string());
    let unseen = "the wall could not be tried: a path that is to be hidden or shown is no text";
    for (words, code, pointer, path) in [
        ("init", 0, "/home", shown.clone()),
        ("init --yes", 0, "/home", shown),
        ("trust", 0, "/file", file("agora.toml")),
        ("trust --list", 0, "/0/file", file("agora.toml")),
        ("trust --revoke", 0, "/file", file("agora.toml")),
        ("mcp install --client claude", 0, "/0/file", file(".mcp.json")),
        ("mcp install --client codex", 0, "/1/file", file(".agents/skills/agora/SKILL.md")),
        ("doctor", 0, "", String::new()),
        ("explain --sandbox", 3, "/error/message", unseen.into()),
        ("ls", 0, "", String::new()),
    ] {
        let arguments: Vec<&str> = words.split(' ').chain(["--json"]).collect();
        let mut command = cli.command(&arguments);
        let ran = run(command.current_dir(&work).env("AGORA_HOME", &home).env("HOME", &user));
        let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        let found = told.pointer(pointer).unwrap_or_default();
        assert!(ran.code == Some(code) && !found.is_null(), "{words}: {ran:?}");
        assert!(path.is_empty() || *found == path.as_str(), "{words}: {found}");
    }
}
