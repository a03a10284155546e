//! What a person sees first: set up, a first task, and each thing that may be missing for it.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agora_testkit::cli::{Cli, Ran, command, run};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;
use agora_testkit::terminal::Terminal;
use serde_json::json;

fn cli() -> Cli {
    Cli::new(env!("CARGO_BIN_EXE_agora"))
}

fn root(cli: &Cli) -> PathBuf {
    cli.work().parent().unwrap().to_owned()
}

/// A place where nothing is installed but what is named, and what a shell needs.
fn bare(cli: &Cli, programs: &[&str]) -> PathBuf {
    let bin = root(cli).join("bare");
    fs::create_dir_all(&bin).unwrap();
    for name in programs {
        let real = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(name));
        let real = real.into_iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(real, bin.join(name)).unwrap();
    }
    bin
}

fn repository(cli: &Cli) {
    let git = |arguments: &[&str]| {
        let mut git = command("git");
        git.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(arguments);
        assert_eq!(run(git.current_dir(cli.work())).code, Some(0), "{arguments:?}");
    };
    cli.write("README.md", "A project.\n");
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "begin"]);
}

fn screen(cli: &Cli, ran: Ran) -> String {
    // What stands around an agent is this machine's.
    let said: String = ran.stderr.split_inclusive('\n').filter(|line| !line.contains("sandbox")).collect();
    cli.steady(&format!("$? = {}\n{}{said}", ran.code.unwrap(), ran.stdout))
}

#[test]
fn the_readme_shows_what_registering_says() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let block = readme.split("```").find(|block| block.contains("$ agora capability register")).unwrap();
    let block = block.strip_prefix("console\n").unwrap().split("\n\n").next().unwrap();
    let (typed, shown): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with("$ "));
    let script: String = typed.iter().map(|line| format!("{}\n", &line[2..])).collect();

    let cli = cli().program("agora", Path::new(env!("CARGO_BIN_EXE_agora")));
    let environment = cli.command::<&str>(&[]);
    let mut shell = command("sh");
    shell.args(["-ec", &format!("exec 2>&1\n{script}")]).env_clear().current_dir(cli.work());
    shell.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = run(&mut shell).success();
    assert_eq!(said.lines().count(), shown.len(), "{said}");
    for (said, shown) in said.lines().zip(shown) {
        // A hash is long: the page shows its beginning.
        let is_so = shown.strip_suffix('…').map_or(said == shown, |beginning| said.starts_with(beginning));
        assert!(is_so, "README.md says {shown:?}, and agora {said:?}");
    }
}

#[test]
fn without_any_agent() {
    let cli = cli();
    let bin = bare(&cli, &["sh", "git"]);
    let ran = run(cli.command(&["run", "fix the flaky test"]).env("PATH", &bin));
    insta::assert_snapshot!(screen(&cli, ran), @r#"
    $? = 3
    error: neither `claude` nor `codex` is installed here
    hint: `npm install -g @anthropic-ai/claude-code`, or `npm install -g @openai/codex`
    hint: `agora doctor` shows where it looks and what else is missing
    "#);
    let ran = run(cli.command(&["run", "--agent", "claude", "fix the flaky test"]).env("PATH", &bin));
    insta::assert_snapshot!(screen(&cli, ran), @r#"
    $? = 3
    error: `claude` is not installed here, or not on PATH
    hint: `npm install -g @anthropic-ai/claude-code`
    hint: `agora doctor` shows where it looks and what else is missing
    "#);
    assert_eq!(cli.run(&["ls", "--json"]).json(), json!([]));
}

#[test]
fn without_a_credential() {
    let cli = cli().program("claude", "/bin/true".as_ref());
    insta::assert_snapshot!(screen(&cli, cli.run(&["run", "fix the flaky test"])), @r#"
    $? = 3
    error: there is nothing that `claude` could log in with
    hint: `agora auth claude` stores one for every dispatch
    hint: or for this one alone: `--secret CLAUDE_CODE_OAUTH_TOKEN=env:CLAUDE_CODE_OAUTH_TOKEN`
    "#);
    let codex = cli.run(&["run", "--agent", "codex", "fix it"]);
    insta::assert_snapshot!(screen(&cli, codex), @r#"
    $? = 3
    error: `codex` is not installed here, or not on PATH
    hint: `npm install -g @openai/codex`
    hint: `agora doctor` shows where it looks and what else is missing
    "#);
    assert_eq!(cli.run(&["ls", "--json"]).json(), json!([]));
}

#[test]
fn with_a_credential_that_is_refused() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let model = Model::start_with(|_| Turn::error(401, "authentication_error", "invalid x-api-key"));
    let cli = cli().program("claude", &claude);
    let mut command = cli.command(&["run", "fix the flaky test", "--json"]);
    command.env("ANTHROPIC_API_KEY", "sk-wrong-0123456789").env("ANTHROPIC_BASE_URL", model.url());
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told["failure"]["code"], "auth");
    assert!(told["durationMs"].as_u64().unwrap() < 10_000, "{}", told["durationMs"]);
    // Whose it was, and what gives it another.
    let is_told = |hint: &str| {
        let shown = cli.run(&["show"]).success();
        assert!(shown.contains(&format!("hint:        {hint}")), "{shown}");
    };
    let hint = "the api-key of the environment is refused; set `ANTHROPIC_API_KEY` to another there, or let `agora auth claude` store one";
    assert!(told["failure"]["hint"].as_str().unwrap().starts_with(hint), "{told:#}");
    is_told(hint);
    let with = |words: &[&str]| {
        let mut command = cli.command(words);
        command.env("KEY", "sk-wrong-0123456789").env("URL", model.url());
        run(&mut command)
    };
    let secrets = ["--secret", "ANTHROPIC_API_KEY=env:KEY", "--secret", "ANTHROPIC_BASE_URL=env:URL"];
    with(&[&["auth", "claude"], &secrets[..]].concat()).success();
    assert_eq!(with(&["run", "fix the flaky test"]).code, Some(1));
    is_told("the api-key that is stored is refused; `agora auth claude` stores another");
    assert_eq!(with(&[&["run", "fix the flaky test"], &secrets[..]].concat()).code, Some(1));
    is_told(
        "the api-key given with the dispatch is refused; dispatch again with another (`--secret ANTHROPIC_API_KEY=…`)",
    );
}

#[test]
fn without_git_in_a_repository() {
    let cli = cli();
    repository(&cli);
    cli.run(&["subagent", "register", "--name", "echo", "--runtime", "command", "--", "/bin/echo", "done"])
        .success();
    let bin = bare(&cli, &["sh"]);
    let ran = run(cli.command(&["run", "--agent", "echo", "x"]).env("PATH", &bin));
    insta::assert_snapshot!(screen(&cli, ran), @r#"
    $? = 0
    done
    warning: there is no git on the PATH: the work is kept as a patch, and not as a ref
    finished in [SPAN], no file changed
    d_[ID]
    hint: `agora logs d_[ID]` shows every step it took
    "#);
}

#[test]
fn in_a_home_with_spaces_in_its_name() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let model = Model::start_with(|_| Turn::text("Mended."));
    let cli = cli().program("claude", &claude);
    repository(&cli);
    let home = root(&cli).join("home of Ann 'n Bob");
    fs::create_dir(&home).unwrap();
    let at_home = |command: &mut Command| {
        command.env("HOME", &home).env_remove("AGORA_HOME");
        command.env("ANTHROPIC_API_KEY", "sk-0123456789").env("ANTHROPIC_BASE_URL", model.url());
        run(command)
    };
    let ran = at_home(&mut cli.command(&["init", "--yes"]));
    assert_eq!(cli.steady(&ran.stdout), "[HOME] of Ann 'n Bob/.local/share/agora\n", "{}", ran.stderr);
    assert!(home.join(".config/agora/agora.toml").is_file());
    let ran = at_home(&mut cli.command(&["run", "fix the flaky test"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Mended.\n"), "{}", ran.stderr);
}

#[test]
fn on_a_full_disk() {
    let cli = cli();
    repository(&cli);
    let home = cli.agora_home();
    fs::create_dir_all(&home).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=4m none '{0}' || exit 99\n\
         '{1}' subagent register --name echo --runtime command -- /bin/echo done >/dev/null 2>&1 || exit 98\n\
         dd if=/dev/zero of='{0}/fill' bs=1k >/dev/null 2>&1\n'{1}' run --agent echo 'fix it'",
        home.display(),
        env!("CARGO_BIN_EXE_agora"),
    );
    let mut unshare = command("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", &script]);
    unshare
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("AGORA_HOME", &home)
        .env("HOME", root(&cli).join("home"));
    let ran = run(unshare.current_dir(cli.work()));
    if ran.code == Some(99) || ran.stderr.starts_with("unshare") {
        return part::skipped(&format!("no user namespaces here: {}", ran.stderr));
    }
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("No space left on device"), "{ran:?}");
    assert!(
        ran.stderr.ends_with("hint: make room on the disk and run it again; nothing was changed\n"),
        "{ran:?}"
    );
}

#[test]
fn setting_up_on_a_full_disk_writes_no_half_file() {
    let cli = cli();
    let (home, user) = (cli.agora_home(), root(&cli).join("home"));
    let config = user.join(".config/agora");
    fs::create_dir_all(&config).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k none '{0}' || exit 99\n\
         dd if=/dev/zero of='{0}/fill' bs=1k >/dev/null 2>&1\n'{1}' init --yes; code=$?; ls -A '{0}' >&2; exit $code",
        config.display(),
        env!("CARGO_BIN_EXE_agora"),
    );
    let mut unshare = command("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", &script]).env_clear();
    unshare.env("PATH", "/usr/bin:/bin").env("AGORA_HOME", &home).env("HOME", &user);
    let ran = run(unshare.current_dir(cli.work()));
    if ran.code == Some(99) || ran.stderr.starts_with("unshare") {
        return part::skipped(&format!("no user namespaces here: {}", ran.stderr));
    }
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let said = cli.steady(&ran.stderr);
    let home = said.lines().find(|line| line.starts_with("home ")).unwrap_or_default();
    assert!(home.starts_with("home        - `[ROOT]/agora` does not exist yet ("), "{said}");
    let (_, end) = said.split_once("error: ").unwrap();
    insta::assert_snapshot!(end, @r"
    `[HOME]/.config/agora/agora.toml` cannot be written
      because No space left on device (os error 28)
    hint: mend that, and run `agora init` again: it offers what is left
    fill
    ");
    // A link that leads nowhere is somebody's.
    std::os::unix::fs::symlink("nowhere", config.join("agora.toml")).unwrap();
    let ran = cli.run(&["init", "--yes"]);
    assert!(ran.code == Some(0) && ran.stderr.contains("is a link to a file that is not there"), "{ran:?}");
    assert!(!config.join("nowhere").exists() && config.join("agora.toml").is_symlink());
}

#[test]
fn setting_up_says_what_it_would_do_does_it_and_is_done() {
    let cli = cli().program("claude", "/bin/true".as_ref());
    repository(&cli);
    cli.write(".claude/agents/planner.md", "---\nname: planner\ndescription: Plans.\n---\nYou plan.\n");
    let bin = format!("{}:{}", root(&cli).join("bin").display(), bare(&cli, &["git"]).display());
    let init = |more: &[&str]| {
        let mut command = cli.command(&[&["init"], more].concat());
        command.env("PATH", &bin).env("ANTHROPIC_API_KEY", "sk-0123456789");
        run(&mut command)
    };
    // Whether there is a daemon, and which git, is this machine's.
    let of_ours = |ran: &Ran| {
        let lines = ran.stderr.lines().filter(|line| {
            !["home", "docker", "podman", "git ", "claude  ", "codex  "]
                .iter()
                .any(|topic| line.starts_with(topic))
        });
        cli.steady(&lines.collect::<Vec<_>>().join("\n"))
    };
    let first = init(&[]);
    assert_eq!(cli.steady(&first.stdout), "[ROOT]/agora\n");
    insta::assert_snapshot!(of_ours(&first), @r#"
    repository  [ROOT]/work
    credential  claude: `ANTHROPIC_API_KEY` in the environment
    credential  - codex: none found, and none needed until codex is installed
    would store ANTHROPIC_API_KEY of this environment for claude: `agora auth claude`
    would register 1 agent and 0 skills of [ROOT]/work/.claude: `agora sync`
    would write [HOME]/.config/agora/agora.toml with every setting in comments: `agora init --yes`
    agora keeps everything here:
    hint: `agora run 'what is this project, and how is it tested?'`
    hint: `agora doctor` shows what this machine can do
    "#);
    assert_eq!(cli.run(&["subagent", "list", "--json"]).json(), json!([]), "nothing was done");
    insta::assert_snapshot!(of_ours(&init(&["--yes"])), @r#"
    repository  [ROOT]/work
    credential  claude: `ANTHROPIC_API_KEY` in the environment
    credential  - codex: none found, and none needed until codex is installed
    taking `ANTHROPIC_API_KEY` of this environment
    stored: claude logs in with its api-key
    registered 1 agent and 0 skills of [ROOT]/work/.claude
    wrote [HOME]/.config/agora/agora.toml
    agora keeps everything here already:
    hint: `agora run 'what is this project, and how is it tested?'`
    hint: `agora doctor` shows what this machine can do
    "#);
    insta::assert_snapshot!(of_ours(&init(&["--yes"])), @r#"
    repository  [ROOT]/work
    credential  claude: stored as `local:auth/claude`
    credential  - codex: none found, and none needed until codex is installed
    agora keeps everything here already:
    hint: `agora run 'what is this project, and how is it tested?'`
    hint: `agora doctor` shows what this machine can do
    "#);
    let told = init(&["--json"]).json();
    assert_eq!((&told["created"], &told["offers"]), (&json!(false), &json!([])));
}

#[test]
fn one_broken_agent_does_not_hide_the_others() {
    let cli = cli();
    cli.write(".claude/agents/planner.md", "---\nname: planner\ndescription: Plans.\n---\nYou plan.\n");
    cli.write(".claude/agents/broken.md", "---\nname: [\n---\nx\n");
    let told = run(cli.command(&["init"]).env("PATH", bare(&cli, &["git"])));
    assert!(told.stderr.contains("register 1 agent and 0 skills"), "{}", told.stderr);
    assert!(told.stderr.contains("broken.md"), "{}", told.stderr);
    // To sync is all or nothing.
    assert!(cli.run(&["sync"]).failure(2).contains("broken.md"));
}

#[test]
fn setting_up_on_a_terminal_asks() {
    let cli = cli();
    cli.write(".claude/agents/planner.md", "---\nname: planner\ndescription: Plans.\n---\nYou plan.\n");
    let mut command = cli.command(&["init"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1").env("PATH", bare(&cli, &["git"]));
    command.env("ANTHROPIC_API_KEY", "sk-0123456789");
    let mut terminal = Terminal::start(command, 120);
    terminal.read_until("Store ANTHROPIC_API_KEY of this environment for claude? [Y/n] ");
    terminal.type_text("n\n");
    terminal.read_until("Register 1 agent and 0 skills of ./.claude? [Y/n] ");
    terminal.type_text("\n");
    terminal.read_until("with every setting in comments? [y/N] ");
    terminal.type_text("\n");
    let (shown, code) = terminal.finish();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("left: `agora auth claude`"), "{shown}");
    assert_eq!(cli.run(&["subagent", "list", "--json"]).json()[0]["name"], "planner");
    let told = cli.run(&["auth", "status", "--json"]).json();
    assert_eq!(told[0]["stored"], json!(null));
    assert!(!root(&cli).join("home/.config").exists());
}

/// Whoever made the archive that it was unpacked from chose what the directory is called.
#[test]
fn what_is_asked_does_nothing_to_the_terminal() {
    let cli = cli();
    let dir = "odd\u{1b}[2J";
    cli.write(
        &format!("{dir}/.claude/agents/planner.md"),
        "---\nname: planner\ndescription: Plans.\n---\nYou plan.\n",
    );
    let made = run(command("git").args(["init", "--quiet"]).current_dir(cli.work().join(dir)));
    assert_eq!(made.code, Some(0));
    let mut command = cli.command(&["init"]);
    command.current_dir(cli.work().join(dir));
    command.env("TERM", "xterm").env("NO_COLOR", "1").env("PATH", bare(&cli, &["git"]));
    let mut terminal = Terminal::start(command, 400);
    let asked = terminal.read_until("/.claude? [Y/n] ").to_owned();
    assert!(asked.contains("odd\u{fffd}[2J") && !asked.contains("odd\u{1b}"), "{asked:?}");
    terminal.type_text("\u{4}");
    terminal.finish();
}

#[test]
fn who_stops_setting_up_has_changed_nothing() {
    let cli = cli();
    cli.write(".claude/agents/planner.md", "---\nname: planner\ndescription: Plans.\n---\nYou plan.\n");
    let mut command = cli.command(&["init"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1").env("PATH", bare(&cli, &["git"]));
    command.env("ANTHROPIC_API_KEY", "sk-0123456789");
    let mut terminal = Terminal::start(command, 120);
    terminal.read_until("Store ANTHROPIC_API_KEY of this environment for claude? [Y/n] ");
    terminal.type_text("y\n");
    terminal.read_until("Register 1 agent and 0 skills of ./.claude? [Y/n] ");
    terminal.type_text("\u{4}");
    let (shown, code) = terminal.finish();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.ends_with("stopped: nothing was done\r\n"), "{shown}");
    assert!(!cli.agora_home().exists() && !root(&cli).join("home/.config").exists());
}

#[test]
fn a_first_task_works_on_a_copy_of_the_repository_as_it_is() {
    let cli = cli();
    repository(&cli);
    cli.write("notes.txt", "not committed\n");
    let script = "cat README.md notes.txt; echo more >> README.md";
    let command = ["--runtime", "command", "--", "sh", "-c", script];
    cli.run(&[&["subagent", "register", "--name", "writer"], &command[..]].concat()).success();
    fs::create_dir(cli.work().join("deep")).unwrap();
    let ran = run(cli.command(&["run", "--agent", "writer", "x"]).current_dir(cli.work().join("deep")));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "A project.\nnot committed\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 file changed (+1 -0)"), "{}", ran.stderr);
    assert_eq!(
        fs::read_to_string(cli.work().join("README.md")).unwrap(),
        "A project.\n",
        "the user's is as it was"
    );
    assert!(ran.stderr.contains("`agora apply d_"), "and the next command brings it home: {}", ran.stderr);
    // Outside a repository it begins with nothing, and says so.
    let ran = run(cli.command(&["run", "--agent", "writer", "x"]).current_dir(root(&cli).join("home")));
    assert!(
        ran.stderr.starts_with("this is no git repository: the agent begins with an empty directory\n"),
        "{ran:?}"
    );
}
