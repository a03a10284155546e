//! What an agent logs in with: which of several, from where, and that nothing of the user's own is touched.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use agora_testkit::cli::{Cli, Ran, command, files_below, run};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;
use agora_testkit::terminal::Terminal;
use serde_json::{Value, json};

const RUN: [&str; 7] = ["dispatch", "run", "--subagent", "planner", "--prompt", "say hello", "--json"];

/// A place with the real Claude Code, and a subagent without any env bundle.
fn place() -> Option<Cli> {
    let claude = part::find("AGORA_TEST_CLAUDE")?;
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora")).program("claude", &claude);
    cli.run(&["subagent", "register", "--name", "planner", "--system-prompt", "You plan."]).success();
    // What a user's own login looks like. Nothing may read it, send it or change it.
    for (path, text) in own_files() {
        let path = cli.work().parent().unwrap().join("home").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Some(cli)
}

fn own_files() -> [(&'static str, &'static str); 2] {
    [
        (
            ".claude/.credentials.json",
            "{\"claudeAiOauth\":{\"accessToken\":\"own-access\",\"refreshToken\":\"own-refresh\"}}",
        ),
        (".codex/auth.json", "{\"tokens\":{\"refresh_token\":\"own-codex-refresh\"}}"),
    ]
}

fn with(cli: &Cli, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command: Command = cli.command(arguments);
    run(command.envs(variables.iter().copied()))
}

/// Returns the key that the last call of the model was made with.
fn key_of(model: &Model) -> String {
    let requests = model.requests();
    let headers = &requests.last().unwrap().headers;
    let key = headers.get("x-api-key").or_else(|| headers.get("authorization")).unwrap();
    key.trim_start_matches("Bearer ").to_owned()
}

fn secrets(cli: &Cli) -> Vec<String> {
    let root = cli.agora_home().join("secrets");
    let files = files_below(&root);
    files
        .iter()
        .map(|(path, _)| path.display().to_string())
        .filter(|path| path.ends_with(".sealed"))
        .collect()
}

#[test]
fn without_any_nothing_is_accepted_and_what_mends_it_is_said() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    cli.run(&["subagent", "register", "--name", "planner", "--system-prompt", "You plan."]).success();
    let text = &RUN[..RUN.len() - 1];
    let said = cli.run(text).failure(3);
    assert_eq!(
        said,
        "error: there is nothing that `claude` could log in with\n\
         hint: `agora auth claude` stores one for every dispatch\n\
         hint: or for this one alone: `--secret CLAUDE_CODE_OAUTH_TOKEN=env:CLAUDE_CODE_OAUTH_TOKEN`\n"
    );
    let said: Value = serde_json::from_str(&cli.run(&RUN).stdout).unwrap();
    assert_eq!(said["error"]["code"], "no-credential");
    assert_eq!(cli.run(&["ls", "--json"]).json(), serde_json::json!([]));
    // A command logs in with whatever it likes.
    let register = ["subagent", "register", "--name", "free", "--runtime", "command", "--", "/bin/true"];
    cli.run(&register).success();
    cli.run(&["dispatch", "run", "--subagent", "free"]).success();
}

#[test]
fn the_first_that_there_is_wins() {
    let model = Model::start_with(|_| Turn::text("Hello."));
    let Some(cli) = place() else { return };
    let url = model.url();
    let around = [("ANTHROPIC_API_KEY", "sk-of-the-environment"), ("ANTHROPIC_BASE_URL", url.as_str())];

    let ran = with(&cli, &RUN[..RUN.len() - 1], &around);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("it logs in with `ANTHROPIC_API_KEY` of this environment\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(key_of(&model), "sk-of-the-environment");
    assert_eq!(secrets(&cli), Vec::<String>::new(), "with the thread's end it is gone");

    let ran = with(&cli, &["continue", "@", "once more"], &around);
    assert!(
        ran.stderr.contains("it logs in with `ANTHROPIC_API_KEY` of this environment\n"),
        "{}",
        ran.stderr
    );
    assert!(cli.run(&["show"]).success().contains("credential:  api-key, of the environment\n"));
    let told = with(&cli, &["continue", "@", "once more", "--json"], &around).json();
    assert_eq!((&told["auth"], &told["authFrom"]), (&"api-key".into(), &"environment".into()));
    let told = with(&cli, &["continue", "@", "once more", "--detach", "--json"], &around).json();
    assert_eq!(told["authFrom"], "environment", "before anything runs");
    cli.run(&["dispatch", "watch", "@"]).success();
    assert_eq!(secrets(&cli), Vec::<String>::new());

    let store = ["--secret", "ANTHROPIC_API_KEY=env:STORED", "--secret", "ANTHROPIC_BASE_URL=env:URL"];
    let values = [("STORED", "sk-of-the-store"), ("URL", url.as_str())];
    let ran = with(&cli, &[&["auth", "claude", "--json"], &store[..]].concat(), &values);
    let told = ran.json();
    assert_eq!((&told["auth"], &told["vendor"]), (&Value::from("api-key"), &Value::from("claude")));
    assert_eq!(with(&cli, &RUN, &around).json()["authFrom"], "stored");
    assert_eq!(key_of(&model), "sk-of-the-store");
    assert_eq!(secrets(&cli).len(), 2, "what is stored for everybody stays");

    let endpoint = format!("ANTHROPIC_BASE_URL={url}");
    let register = ["env", "register", "--name", "default", "--value", &endpoint];
    let secret = ["--secret", "CLAUDE_CODE_OAUTH_TOKEN=env:BUNDLED"];
    let ran =
        with(&cli, &[&register[..], &secret[..]].concat(), &[("BUNDLED", "sk-ant-oat01-of-the-bundle")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(with(&cli, &RUN, &around).json()["auth"], "subscription");
    assert_eq!(key_of(&model), "sk-ant-oat01-of-the-bundle");

    let own = [&RUN[..], &["--secret", "ANTHROPIC_API_KEY=env:OWN"]].concat();
    let told = with(&cli, &own, &[("OWN", "sk-of-the-dispatch")]).json();
    assert_eq!(told["auth"], "api-key", "although a bundle has a subscription: {told}");
    assert_eq!(key_of(&model), "sk-of-the-dispatch");

    // The user's own login was neither sent nor changed, and is nowhere in agora's home.
    let sent = model.requests().iter().map(|request| format!("{:?}", request.headers)).collect::<String>();
    assert!(!sent.contains("own-access") && !sent.contains("own-refresh"));
    for (path, text) in own_files() {
        assert_eq!(fs::read_to_string(cli.work().parent().unwrap().join("home").join(path)).unwrap(), text);
    }
    let copied = |(_, bytes): &(_, Vec<u8>)| bytes.windows(11).any(|part| part == b"own-refresh");
    assert!(!files_below(&cli.agora_home()).iter().any(copied));
}

#[test]
fn what_is_stored_is_one_login_and_can_be_forgotten() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let said = cli.run(&["auth", "claude"]).failure(3);
    assert!(said.contains("standard input is not a terminal"), "{said}");
    let around = [("ANTHROPIC_API_KEY", "sk-0123456789")];
    let ran = with(&cli, &["auth", "claude"], &around);
    assert_eq!(ran.stdout, "stored: claude logs in with its api-key (ANTHROPIC_API_KEY)\n");
    assert!(ran.stderr.starts_with("taking `ANTHROPIC_API_KEY` of this environment\n"), "{}", ran.stderr);
    // Another one takes its place.
    let token = ["auth", "claude", "--secret", "CLAUDE_CODE_OAUTH_TOKEN=stdin"];
    cli.run_with_input(&token, "sk-ant-oat01-x\n").success();
    let left = secrets(&cli);
    assert!(left.len() == 1 && left[0].contains("CLAUDE_CODE_OAUTH_TOKEN"), "{left:?}");

    let half = ["auth", "claude", "--secret", "ANTHROPIC_AUTH_TOKEN=stdin"];
    let said = cli.run_with_input(&half, "sk-half-a-gateway\n").failure(2);
    assert!(said.starts_with("error: `ANTHROPIC_AUTH_TOKEN` is not what `claude` logs in with\n"), "{said}");
    assert_eq!(secrets(&cli), left, "nothing was changed");
    let said = cli.run(&["auth", "gemini"]).failure(2);
    assert!(said.contains("it is `claude` or `codex`"), "{said}");

    assert_eq!(cli.run(&["auth", "claude", "--remove"]).success(), "forgotten\n");
    assert_eq!(cli.run(&["auth", "claude", "--remove"]).success(), "nothing was stored\n");
    assert_eq!(secrets(&cli), Vec::<String>::new());
}

/// What `claude setup-token` does to a terminal and to the directory that it is given, and then waits for its person.
const VENDOR: &str = "#!/bin/sh\nstty -echo\numask 022\necho a-token > \"$CLAUDE_CONFIG_DIR/kept\"\n\
    ls -ld \"$CLAUDE_CONFIG_DIR\"\necho the vendors screen\nread code\nstty echo\n";

/// Sits down at a terminal that controls what runs in it, as a shell's does: Ctrl-C is a signal there.
fn sit(cli: &Cli, line: &str) -> Terminal {
    let vendor = cli.write("bin/claude", VENDOR);
    fs::set_permissions(&vendor, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(cli.work().join("tmp")).unwrap();
    let around = cli.command::<&str>(&[]);
    let mut shell = command("setsid");
    shell.args(["--ctty", "sh", "-c", &format!("echo begun; read go; exec {line}")]).current_dir(cli.work());
    shell.env_clear().envs(around.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("TERM", "xterm").env("NO_COLOR", "1").env("TMPDIR", cli.work().join("tmp"));
    shell.env("PATH", format!("{}:/usr/bin:/bin", cli.work().join("bin").display()));
    Terminal::start(shell, 100)
}

#[test]
fn who_stops_logging_in_gets_the_terminal_back_and_leaves_nothing() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let line = format!("{} auth claude", env!("CARGO_BIN_EXE_agora"));
    // In the vendor's program, and where agora asks for what that has shown.
    for (typed, shown) in [("", "the vendors screen"), ("a code\n", "CLAUDE_CODE_OAUTH_TOKEN (not shown): ")]
    {
        let mut terminal = sit(&cli, &line);
        terminal.read_until("begun");
        let habits = terminal.habits();
        terminal.type_text("go\n");
        terminal.read_until("the vendors screen");
        assert_ne!(terminal.habits(), habits, "the vendor's program has it");
        terminal.type_text(typed);
        let said = terminal.read_until(shown);
        assert!(said.contains("drwx------"), "{said}");
        terminal.type_text("\u{3}");
        terminal.read_until("error: ");
        assert_eq!(terminal.habits(), habits, "at {shown:?}");
        let (said, code) = terminal.finish();
        assert_eq!(code, Some(130), "{said}");
        assert_eq!(fs::read_dir(cli.work().join("tmp")).unwrap().count(), 0, "at {shown:?}");
        assert_eq!(secrets(&cli), Vec::<String>::new());
    }
}

#[test]
fn a_document_has_nothing_of_the_vendors_screen_in_it() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let mut terminal = sit(&cli, &format!("{} auth claude --json > told", env!("CARGO_BIN_EXE_agora")));
    terminal.type_text("go\n");
    terminal.read_until("the vendors screen");
    terminal.type_text("a code\n");
    terminal.read_until("(not shown): ");
    terminal.type_text("sk-ant-oat01-wrong\u{15}sk-ant-oat01-0123456X\u{7f}789\n");
    let (shown, code) = terminal.finish();
    assert!(code == Some(0) && !shown.contains("sk-ant"), "{shown}");
    let told: Value = serde_json::from_slice(&fs::read(cli.work().join("told")).unwrap()).unwrap();
    assert_eq!(told["auth"], "subscription");
    assert_eq!(secrets(&cli).len(), 1);
}

#[test]
fn a_secret_is_asked_for_at_the_terminal_wherever_errors_go() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let line =
        format!("{} auth claude --secret ANTHROPIC_API_KEY=prompt 2> told", env!("CARGO_BIN_EXE_agora"));
    let mut terminal = sit(&cli, &line);
    terminal.type_text("go\n");
    terminal.read_until("ANTHROPIC_API_KEY (not shown): ");
    terminal.type_text("sk-ant-api03-0123456789\n");
    let (shown, code) = terminal.finish();
    assert_eq!(code, Some(0), "{shown}");
    let told = fs::read_to_string(cli.work().join("told")).unwrap();
    assert!(told.starts_with("hint: "), "{told:?}");
    assert_eq!(secrets(&cli).len(), 1);
}

/// Stores another login than was there.
fn store(cli: &Cli, key: &str, url: &str) {
    let store =
        ["auth", "claude", "--secret", "ANTHROPIC_API_KEY=env:KEY", "--secret", "ANTHROPIC_BASE_URL=env:URL"];
    let ran = with(cli, &store, &[("KEY", key), ("URL", url)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn what_goes_on_logs_in_with_what_is_there_now_or_is_not_accepted() {
    let question = json!({"questions": [{"question": "Which?", "header": "Which", "multiSelect": false, "options": [
        {"label": "a", "description": "one"}, {"label": "b", "description": "two"}]}]});
    let model = Model::start(vec![
        Turn::text("Hello."),
        Turn::tool("AskUserQuestion", question),
        Turn::text("It is a."),
    ]);
    let Some(cli) = place() else { return };
    let url = model.url();
    store(&cli, "sk-of-the-first", &url);
    cli.run(&RUN).success();
    let thread = || {
        let story = cli.run(&["thread", "show", "@", "--json"]).json();
        let questions: Vec<Value> =
            story["questions"].as_array().unwrap().iter().map(|asked| asked["state"].clone()).collect();
        (story["state"].clone(), story["dispatches"].as_array().unwrap().len(), questions)
    };
    let refused = |ran: Ran| {
        let said: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &said["error"]["code"]), (Some(3), &"no-credential".into()), "{ran:?}");
    };

    cli.run(&["auth", "claude", "--remove"]).success();
    let before = thread();
    refused(cli.run(&["continue", "@", "once more", "--json"]));
    let mut command = cli.command(&["takeover", "@"]);
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
    let (seen, code) = Terminal::start(command, 100).finish();
    assert!(code == Some(3) && seen.contains("nothing that `claude` could log in with"), "{code:?}: {seen}");
    assert_eq!(thread(), before, "it stays as it was");
    assert_eq!(before, ("finished".into(), 1, vec![]));

    store(&cli, "sk-of-the-second", &url);
    let asked = cli.run(&["continue", "@", "once more", "--pause-ok", "--json"]).json();
    assert_eq!(key_of(&model), "sk-of-the-second");
    let question = asked["needsInput"]["questionId"].as_str().unwrap();

    cli.run(&["auth", "claude", "--remove"]).success();
    refused(cli.run(&["answer", question, "a", "--json"]));
    assert_eq!(thread(), ("waiting".into(), 2, vec!["open".into()]));
    store(&cli, "sk-of-the-third", &url);
    let answered = cli.run(&["answer", question, "a", "--follow", "--json"]).json();
    assert_eq!(answered["result"]["state"], "finished", "{answered:#}");
    assert_eq!(key_of(&model), "sk-of-the-third");
}

#[test]
fn a_login_of_another_environment_is_the_threads_until_it_ends() {
    let question = json!({"questions": [{"question": "Which?", "header": "Which", "multiSelect": false, "options": [
        {"label": "a", "description": "one"}, {"label": "b", "description": "two"}]}]});
    let model = Model::start(vec![
        Turn::tool("AskUserQuestion", question.clone()),
        Turn::tool("AskUserQuestion", question),
        Turn::text("Both."),
    ]);
    let Some(cli) = place() else { return };
    let url = model.url();
    let around = [("ANTHROPIC_API_KEY", "sk-of-the-environment"), ("ANTHROPIC_BASE_URL", url.as_str())];
    let asked = with(&cli, &[&RUN[..], &["--pause-ok"]].concat(), &around).json();
    // Whoever answers elsewhere has it not.
    let question = asked["needsInput"]["questionId"].as_str().unwrap();
    let again = cli.run(&["answer", question, "a", "--follow", "--pause-ok", "--json"]).json();
    assert_eq!(key_of(&model), "sk-of-the-environment");
    assert_eq!(
        (&again["authFrom"], &again["result"]["authFrom"]),
        (&"environment".into(), &"environment".into())
    );
    store(&cli, "sk-of-the-store", &url);
    let question = again["result"]["needsInput"]["questionId"].as_str().unwrap();
    let done = cli.run(&["answer", question, "b", "--follow", "--json"]).json();
    assert_eq!(
        (&done["result"]["state"], key_of(&model)),
        (&"finished".into(), "sk-of-the-store".to_owned())
    );
    assert_eq!(secrets(&cli).len(), 2, "nothing of the thread's own is left");
}
