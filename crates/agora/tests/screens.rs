//! What a person sees, to the letter.
#![expect(clippy::disallowed_methods, reason = "a test starts what it looks at")]
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agora_testkit::cli::{Cli, command, run};
use agora_testkit::part;

fn cli() -> Cli {
    Cli::new(env!("CARGO_BIN_EXE_agora"))
}

#[test]
fn the_first_screen() {
    insta::assert_snapshot!(cli().run(&["--help"]).success(), @r#"
    Dispatch headless coding agents, and answer their questions

    Usage: agora [OPTIONS] <COMMAND>

    Run:
      demo         See an agent ask, wait at no cost, go on: in seconds, no account
      run          Run an agent on a task, in this repository
      inbox        Answer the questions that are open, one by one
      answer       Answer a question; the work goes on where it stopped
      apply        Bring a thread's work into your files
      continue     Go on with a thread that ended
      takeover     Go on with it yourself, in the agent's own interactive program
      cancel       Cancel a dispatch, or a thread that waits

    Look:
      ls           List what runs and ran
      show         Show what became of a dispatch
      logs         Print what an agent printed

    Set up:
      init         Set up: a login, a project's agents, settings

    Also: doctor, subagent, capability, env, auth, trust, dispatch, thread,
          status, route, serve, mcp, protocol, explain, deploy, sync, image, gc,
          completions.

    Options:
      -h, --help              Print help
      -V, --version           Print version
          --json              Print exactly one JSON document, also on error
          --namespace <NAME>  The namespace to look names up in [default: default]

    Run `agora COMMAND --help` for its options and an example.
    Results go to standard output, everything else to standard error.
    "#);
}

/// Returns the commands that a help screen lists: a line each, or on the first screen also in a sentence.
fn listed(help: &str) -> Vec<String> {
    let also =
        help.split_once("Also: ").and_then(|(_, rest)| rest.split_once('.')).map_or("", |(also, _)| also);
    let own = help.split("\n\n").filter(|part| {
        ["Run:", "Look:", "Set up:", "Commands:"].iter().any(|heading| part.starts_with(heading))
    });
    // A description that is wrapped goes on further in.
    let lines = own.flat_map(str::lines).filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = lines.chain(also.split(',').map(str::trim));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn no_help_is_wider_than_the_terminal() {
    let cli = cli();
    let (mut seen, mut waiting) = (0, vec![Vec::new()]);
    while let Some(path) = waiting.pop() {
        for flag in ["-h", "--help"] {
            let arguments: Vec<String> = path.iter().cloned().chain([flag.to_owned()]).collect();
            let help = run(cli.command(&arguments).env("COLUMNS", "80")).success();
            let wide = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "agora {}", arguments.join(" "));
            if flag == "-h" {
                waiting.extend(listed(&help).into_iter().map(|name| [path.as_slice(), &[name]].concat()));
            }
        }
        seen += 1;
    }
    assert!(seen > 50, "only {seen} commands have been looked at");
}

#[test]
fn what_every_command_takes_stands_after_what_is_its_own() {
    let cli = cli();
    insta::assert_snapshot!(run(cli.command(&["apply", "-h"]).env("COLUMNS", "80")).success(), @r"
    Bring a thread's work into your own tree

    Usage: agora apply [OPTIONS] [ID]

    Arguments:
      [ID]  A dispatch, thread or question id, the beginning of one, a label, or `@`
            for the last one [default: @]

    Options:
          --branch <NAME>  Make a branch of it, with the agent's own commits;
                           nothing else changes
          --commit         Commit it on the branch that is checked out
          --patch          Print it as a patch, and change nothing
          --yes            Also files that tools act upon as soon as they are there,
                           and links that lead out of the tree
      -h, --help           Print help (see more with '--help')

    Everywhere:
          --json              Print exactly one JSON document, also on error
          --namespace <NAME>  The namespace to look names up in [default: default]

    Examples:
      agora apply @
      agora apply t_7f3k --branch fix-parser
      agora apply @ --patch | git apply --stat
      agora dispatch apply @ --commit
    ");
}

#[test]
fn help_is_found_by_those_who_ask_in_the_other_order() {
    let cli = cli();
    for path in [&[][..], &["run"], &["dispatch", "run"]] {
        let asked = cli.run(&[&["help"], path].concat()).success();
        assert_eq!(asked, cli.run(&[path, &["--help"]].concat()).success());
    }
    insta::assert_snapshot!(cli.run(&["help", "rnu"]).failure(2), @r"
    error: unrecognized subcommand 'rnu'
    hint: a similar command exists: `run`
    hint: `agora --help` lists the commands
    ");
    insta::assert_snapshot!(cli.run(&["dispatch", "lits"]).failure(2), @r"
    error: unrecognized subcommand 'lits'
    hint: a similar subcommand exists: 'list'
    hint: `agora dispatch --help` lists the commands
    ");
}

#[test]
fn explaining_shows_both_prompts() {
    let cli = cli();
    cli.write("style/NOTES.md", "small commits");
    cli.run(&["capability", "register", "--name", "style", "--from", "style"]).success();
    cli.write(
        "planner.yaml",
        "systemPrompt: You plan.\ncapabilities: [style]\npromptTemplate: |\n  Plan {{task}}.\n  {{#resumed}}\n  The answer was {{answer}}.\n  {{/resumed}}\n",
    );
    cli.run(&["subagent", "register", "--name", "planner", "--from", "planner.yaml"]).success();
    let text = cli.run(&["explain", "planner", "--input", r#"{"task": "the parser"}"#]).success();
    insta::assert_snapshot!(cli.steady(&text.replace("@sha256", " sha256")), @r#"
    subagent:    planner sha256:[HASH]
    runtime:     claude-code
    capability:  style sha256:[HASH] (1 file, 13 bytes)
    env:         none (a bundle named `default` would be used)
    inputs:      {"properties":{"task":{}},"required":["task"],"type":"object"} (derived from the template)

    overlay (3 files):
      .agents/skills/agora-needs-input/SKILL.md (from agora-needs-input)
      .claude/skills/agora-needs-input/SKILL.md (from agora-needs-input)
      NOTES.md (from style)

    system prompt:
      You plan.

    first prompt:
      Plan the parser.

    resumed prompt:
      Plan the parser.
      The answer was <answer>.
    "#);
    let unknown = cli.run(&["explain", "planner", "--input", r#"{"tusk": "x"}"#]).failure(2);
    insta::assert_snapshot!(unknown, @r#"
    error: the prompt cannot be written
      because the template asks for `task`, which the input does not have
    hint: give it in the input, or make it optional in the template: `{{#name}}…{{/name}}`
    "#);
}

#[test]
fn explaining_shows_what_a_command_is() {
    let cli = cli();
    cli.run(&[
        "subagent",
        "register",
        "--name",
        "lint",
        "--runtime",
        "command",
        "--",
        "./lint.sh",
        "--strict",
    ])
    .success();
    let text = cli.run(&["explain", "lint"]).success();
    let shown: Vec<&str> = text.lines().skip(1).take(2).collect();
    assert_eq!(shown, ["runtime:     command", r#"command:     ["./lint.sh","--strict"]"#]);
    assert_eq!(
        cli.run(&["explain", "lint", "--json"]).json()["command"],
        serde_json::json!(["./lint.sh", "--strict"])
    );
}

#[test]
fn explaining_the_wall_of_a_container_tells_what_is_in_it() {
    let cli = cli();
    cli.settings("[target.box]\ncompute = \"docker\"\nnetwork = \"none\"\n");
    insta::assert_snapshot!(cli.run(&["explain", "--sandbox", "--target", "box"]).success(), @r"
    wall:     a container of its own, without capabilities and new privileges; in it what Landlock and seccomp can
    network:  none

    writable:
      the workspace
      its home and `/tmp`, in memory

    readable:
      the files of the image `agora/worker`, and nothing of this machine
    ");
    let told = cli.run(&["explain", "--sandbox", "--target", "box", "--json"]).json();
    assert_eq!(told, serde_json::json!({"container": {"image": "agora/worker", "network": "none"}}));
}

#[test]
fn explaining_the_wall_tells_what_a_dispatch_tells_of_memory_that_nobody_counts() {
    let cli = cli();
    cli.settings("[target.local]\nmemory = \"1GiB\"\n");
    let script = ["--runtime", "command", "--", "/bin/echo", "done"];
    cli.run(&[&["subagent", "register", "--name", "quick"], &script[..]].concat()).success();
    let open = |hide: &str, words: &str, pointer: &str| {
        let agora = env!("CARGO_BIN_EXE_agora");
        let mut unshare = command("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c"]);
        unshare.arg(format!("{hide} || exit 99; exec '{agora}' {words}")).env_clear().current_dir(cli.work());
        unshare.envs(cli.command::<&str>(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = run(&mut unshare);
        if ran.code != Some(0) {
            part::skipped(&format!("no user namespaces here: {}", ran.stderr));
            return None;
        }
        let open = ran.json().pointer(pointer).unwrap().to_string();
        Some(open.contains("no control group counts it"))
    };
    let hidden = "mount -t tmpfs none /sys/fs/cgroup";
    let Some(said) = open(hidden, "explain --sandbox --json", "/leavesOpen") else { return };
    assert!(said);
    assert_eq!(open(hidden, "run --agent quick x --json", "/isolation/leavesOpen"), Some(said));
    let told = open("true", "explain --sandbox --json", "/leavesOpen");
    assert_eq!(told, open("true", "run --agent quick x --json", "/isolation/leavesOpen"));
}

/// Returns the overlay that `explain` shows of a subagent with these capabilities, as text and as JSON.
fn overlay(cli: &Cli, capabilities: &str) -> (String, String) {
    cli.write("a.yaml", format!("systemPrompt: You plan.\ncapabilities: [{capabilities}]\n"));
    cli.run(&["subagent", "register", "--name", "a", "--from", "a.yaml"]).success();
    let text = cli.run(&["explain", "a"]).success();
    let from = text.find("overlay").unwrap_or_default();
    let to = text.find("\nsystem prompt").unwrap_or(text.len());
    let json: serde_json::Value =
        serde_json::from_str(&cli.run(&["explain", "a", "--json"]).success()).unwrap();
    (text[from..to].to_owned(), json["overlay"].to_string())
}

#[test]
fn explaining_shows_who_wins_who_loses_and_what_is_merged() {
    let cli = cli();
    cli.write("one/.claude/settings.json", r#"{"env": {"A": "1"}}"#);
    cli.write("one/.claude/skills/agora-needs-input/OWN.md", "Ask in Latin.");
    cli.write("one/NOTES.md", "one");
    cli.write("two/.claude/settings.json", r#"{"env": {"B": "2"}}"#);
    cli.write("two/NOTES.md", "two");
    for name in ["one", "two"] {
        cli.run(&["capability", "register", "--name", name, "--from", name]).success();
    }
    let (text, json) = overlay(&cli, "one, two");
    insta::assert_snapshot!(text, @r#"
    overlay (4 files):
      .agents/skills/agora-needs-input/SKILL.md (from agora-needs-input)
      .claude/settings.json (merged from one, two)
      .claude/skills/agora-needs-input/OWN.md (from one)
      NOTES.md (from two)
      dropped: .claude/skills/agora-needs-input/SKILL.md of agora-needs-input, replaced by one
      dropped: NOTES.md of one, replaced by two
    "#);
    insta::assert_snapshot!(json, @r#"{"conflict":null,"dropped":[{"loser":"agora-needs-input","path":".claude/skills/agora-needs-input/SKILL.md","winner":"one"},{"loser":"one","path":"NOTES.md","winner":"two"}],"files":4,"merged":[{"from":["one","two"],"path":".claude/settings.json"}]}"#);
    cli.run(&["env", "register", "--name", "default", "--value", "AGORA_DISABLE_NEEDS_INPUT_HELPER=true"])
        .success();
    insta::assert_snapshot!(overlay(&cli, "two").0, @r#"
    overlay (2 files):
      .claude/settings.json (from two)
      NOTES.md (from two)
    "#);
}

#[test]
fn explaining_shows_a_conflict_before_a_dispatch_meets_it() {
    let cli = cli();
    cli.write("one/.claude/settings.json", r#"{"permissions": {"allow": ["Read"]}}"#);
    cli.write("two/.claude/settings.json", r#"{"permissions": {"allow": "Read"}}"#);
    cli.write("three/.claude", "a file");
    for name in ["one", "two", "three"] {
        cli.run(&["capability", "register", "--name", name, "--from", name]).success();
    }
    insta::assert_snapshot!(overlay(&cli, "one, two").0, @r#"
    overlay (3 files):
      .agents/skills/agora-needs-input/SKILL.md (from agora-needs-input)
      .claude/settings.json (merged from one, two)
      .claude/skills/agora-needs-input/SKILL.md (from agora-needs-input)
      conflict: `.claude/settings.json` cannot be merged: `/permissions/allow` is a list in `one`, but a text in `two`; a dispatch would fail with `overlay-conflict`
    "#);
    let (text, json) = overlay(&cli, "one, three");
    insta::assert_snapshot!(text, @r#"
    overlay (0 files):
      conflict: `.claude` is a file in `three`, but the directory of `.claude/settings.json` in `one`; a dispatch would fail with `overlay-conflict`
    "#);
    insta::assert_snapshot!(json, @r#"{"conflict":"`.claude` is a file in `three`, but the directory of `.claude/settings.json` in `one`","dropped":[],"files":0,"merged":[]}"#);
}

#[test]
fn explaining_many_files_stays_readable() {
    let cli = cli();
    for file in 0..30 {
        cli.write(&format!("many/file{file:02}"), "x");
    }
    cli.run(&["capability", "register", "--name", "many", "--from", "many"]).success();
    let (text, json) = overlay(&cli, "many");
    assert!(
        text.starts_with("overlay (32 files):\n") && text.ends_with("\n  … and 12 more files\n"),
        "{text}"
    );
    assert_eq!((text.lines().count(), json.contains(r#""files":32"#)), (22, true));
}

#[test]
fn an_error_has_what_failed_why_and_what_next() {
    let cli = cli();
    cli.write("cap/file", "x");
    std::os::unix::fs::symlink("file", cli.work().join("cap/link")).unwrap();
    insta::assert_snapshot!(cli.run(&["capability", "register", "--name", "c", "--from", "cap"]).failure(2), @r#"
    error: `cap/link` cannot be part of a capability
      because it is a symbolic link; put a copy of the file there
    hint: a capability has only files and directories; take it out and register again
    "#);
    insta::assert_snapshot!(cli.run(&["capability", "register", "--name", "c d", "--from", "cap"]).failure(2), @r#"
    error: invalid value 'c d' for '--name <NAME>': a name has only letters and digits of ASCII, `-`, `_` and `.`, not ' '
    "#);
    insta::assert_snapshot!(cli.run(&["capability", "register", "--name", "c", "--from", "nope"]).failure(2), @r#"
    error: `nope` cannot be read
      because No such file or directory (os error 2)
    hint: `--from DIR` takes a directory: what is below it is laid over the agent's workspace
    "#);
    insta::assert_snapshot!(cli.run(&["subagent", "register", "--from", "nope.yaml"]).failure(2), @r#"
    error: `nope.yaml` cannot be read
      because No such file or directory (os error 2)
    hint: `--from FILE` takes a .yaml, .toml or .md file that describes it
    "#);
    insta::assert_snapshot!(cli.run(&["deploy"]).failure(2), @r#"
    error: `agora.deploy.yaml` cannot be read
      because No such file or directory (os error 2)
    hint: `agora deploy --help` shows such a file; `--from FILE` names another
    "#);
    let json = cli.run(&["capability", "get", "c", "--json"]);
    insta::assert_snapshot!(json.stdout, @r#"
    {"error":{"code":"unknown-name","hints":["`agora capability list` shows what there is"],"message":"there is no capability named `c`"}}
    "#);
    let wrong = cli.run(&["capability", "get", "--json"]);
    assert_eq!((wrong.code, wrong.stderr.as_str()), (Some(2), ""));
    insta::assert_snapshot!(wrong.stdout, @r#"
    {"error":{"code":"usage","hints":["usage: agora capability get --json <REFERENCE>"],"message":"the following required arguments were not provided: <REFERENCE>"}}
    "#);
}

#[test]
fn completions_are_scripts_that_their_shell_takes() {
    let cli = cli();
    for shell in ["bash", "zsh", "fish"] {
        let script = cli.run(&["completions", shell]).success();
        assert!(script.contains("capability"), "{shell}");
    }
    let script = cli.write("agora.bash", cli.run(&["completions", "bash"]).success());
    let mut bash = std::process::Command::new("bash");
    assert_eq!(run(bash.arg("-n").arg(script)).code, Some(0));
}

#[test]
fn colour_is_for_terminals() {
    let said = cli().run(&["capability", "get", "c"]).failure(2);
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn the_doctor_finds_the_real_programs_and_a_real_daemon() {
    let cli = cli();
    let parts =
        ["AGORA_TEST_CLAUDE", "AGORA_TEST_CODEX", "AGORA_TEST_DOCKER_HOST"].map(agora_testkit::part::find);
    let [Some(claude), Some(codex), Some(docker)] = parts else { return };
    let path =
        format!("{}:{}:/usr/bin:/bin", claude.parent().unwrap().display(), codex.parent().unwrap().display());
    let mut command = cli.command(&["doctor", "--json"]);
    command.env("PATH", path).env("DOCKER_HOST", docker).env("ANTHROPIC_API_KEY", "a-key-that-is-not-shown");
    let ran = run(&mut command);
    assert!(!ran.stdout.contains("a-key-that-is-not-shown"));
    let findings: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    for topic in ["home", "sandbox", "cgroup", "docker", "claude", "codex", "git", "credential"] {
        assert!(
            findings.as_array().unwrap().iter().any(|finding| finding["topic"] == topic),
            "{topic}: {findings}"
        );
    }
    let of =
        |topic: &str| findings.as_array().unwrap().iter().find(|finding| finding["topic"] == topic).unwrap();
    for topic in ["docker", "claude", "codex"] {
        assert_eq!(of(topic)["status"], "ok", "{findings}");
    }
    assert!(of("claude")["detail"].as_str().unwrap().contains("2.1.325"), "{findings}");
    assert!(of("codex")["detail"].as_str().unwrap().contains("0.166.0"), "{findings}");
}

#[test]
fn the_doctor_says_what_is_missing_and_how_to_get_it() {
    let cli = cli();
    let mut command = cli.command(&["doctor"]);
    let ran = run(command.env("PATH", "/nowhere"));
    for expected in ["claude", "npm install -g @anthropic-ai/claude-code", "codex", "git", "missing"] {
        assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    }
    let file = cli.write("a-file", "");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = cli.command(&["doctor", "--json"]);
    let ran = run(command.env("AGORA_HOME", file));
    assert_eq!(ran.code, Some(3), "a home that is a file is broken: {}", ran.stdout);
}
