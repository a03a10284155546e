//! `agora demo`: the first thing that a stranger sees.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agora_testkit::cli::{self, Cli, Ran};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;
use agora_testkit::terminal::Terminal;
use serde_json::json;
use tokio::time::Instant;

/// A user with a temporary directory of their own, with a space in its name.
struct Stranger {
    cli: Cli,
    temporary: PathBuf,
}

impl Stranger {
    fn new() -> Self {
        Self::with(Cli::new(env!("CARGO_BIN_EXE_agora")))
    }

    fn with(cli: Cli) -> Self {
        let temporary = cli.work().join("a place");
        fs::create_dir(&temporary).unwrap();
        Self { cli, temporary }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.cli.command(arguments);
        command.env("TMPDIR", &self.temporary).env("NO_COLOR", "1").env("TERM", "xterm");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        cli::run(&mut self.command(arguments))
    }

    /// Returns the directories of demos.
    fn left(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.temporary).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Returns the processes that name this user's place.
    fn alive(&self) -> Vec<String> {
        let mark = self.cli.work().parent().unwrap().to_str().unwrap().to_owned();
        let names = |path: &Path| {
            let bytes = fs::read(path).unwrap_or_default();
            bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
        };
        let dirs = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let entry = entry.ok()?;
            entry.file_name().to_str()?.parse::<u32>().ok().filter(|id| *id != std::process::id())?;
            Some(entry.path())
        });
        let of_this = |dir: &PathBuf| names(&dir.join("environ")) || names(&dir.join("cmdline"));
        let told = |dir: PathBuf| {
            let arguments = fs::read(dir.join("cmdline")).unwrap_or_default();
            format!("{}: {}", dir.display(), String::from_utf8_lossy(&arguments).replace('\0', " "))
        };
        dirs.filter(of_this).map(told).collect()
    }
}

/// Waits for a condition, for a bounded time.
#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn without_a_terminal_it_is_played_to_the_end_and_leaves_nothing() {
    let stranger = Stranger::new();
    let Ran { code, stdout, stderr } = stranger.run(&["demo"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    for said in [
        "The agent is scripted: no account, no cost.",
        "RED    3/4/2026 is 2026-4-3 in invoices, 2026-3-4 in payments",
        "1. day-first\n        3 April. Payments change",
        "+printf \"%s-%02d-%02d\\n\"",
        "processes of the dispatch: 0 (",
        "$ kill -9 ",
        "The engine is dead.",
        "and is the same one as before",
        "no terminal: answering `day-first` for you, as --answer would",
        "GREEN  3/4/2026 is 2026-04-03 everywhere",
        "$ git log refs/agora/t_",
        "Read every date day-first, by agora/date-fixer",
        "(nothing: no file, index or branch of yours was touched)",
        "receipt of the answer: verified",
        " (demo)\n",
        "agora run \"",
    ] {
        assert!(stdout.contains(said), "`{said}` is missing:\n{stdout}");
    }
    let widest = stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}: {stdout}");
    assert!(!stdout.contains("(0 while it worked)"), "whoever counts none never looked: {stdout}");
    assert_eq!(stderr, "");
    assert_eq!(stranger.left(), Vec::<PathBuf>::new());
    assert_eq!(stranger.alive(), Vec::<String>::new());
    assert!(!stranger.cli.agora_home().exists(), "nothing of the user's own home is made");
}

#[test]
fn as_one_document_it_tells_what_can_be_checked_afterwards() {
    let stranger = Stranger::new();
    for answer in ["month-first", "1"] {
        let told = stranger.run(&["demo", "--json", "--keep", "--answer", answer]).json();
        assert_eq!((&told["green"], &told["receiptVerified"]), (&true.into(), &true.into()), "{told}");
        assert_eq!(told["whileWaiting"], json!({"processes": 0, "containers": 0, "costUsd": 0.0}));
        let kept = PathBuf::from(told["kept"].as_str().unwrap());
        let git = |words: &[&str]| {
            let mut command = cli::command("git");
            let ran = cli::run(command.args(words).current_dir(kept.join("shop")));
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            ran.stdout
        };
        let log = git(&["log", "--format=%s", told["gitRef"].as_str().unwrap()]);
        let chosen = if answer == "1" { "day-first" } else { answer };
        assert_eq!(log, format!("Read every date {chosen}\nInvoices and payments\n"));
        assert_eq!(git(&["status", "--porcelain"]), "");
        assert_eq!(told["repositoryTouched"], false);
        // What is kept is a home like any other.
        let mut command = stranger.command(&["thread", "show", "@", "--json"]);
        let thread = cli::run(command.env("AGORA_HOME", kept.join("agora"))).json();
        assert_eq!((&thread["state"], &thread["threadId"]), (&"finished".into(), &told["threadId"]));
        assert_eq!(thread["questions"][0]["state"], "answered");
    }
    assert_eq!(stranger.left().len(), 2, "what is kept is not swept");
    assert_eq!(stranger.alive(), Vec::<String>::new());
}

#[test]
fn on_a_terminal_one_answers_with_the_arrow_keys() {
    let stranger = Stranger::new();
    let mut terminal = Terminal::start(stranger.command(&["demo"]), 80);
    terminal.read_until("esc leaves it open");
    terminal.press("\x1b[B");
    terminal.read_until("› 2. month-first");
    terminal.press("\r");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("GREEN  3/4/2026 is 2026-03-04 everywhere"), "{seen}");
    assert!(seen.contains("`month-first`, by user:"), "{seen}");
    assert_eq!((stranger.left(), stranger.alive()), (Vec::new(), Vec::new()));
}

#[test]
fn an_answer_that_is_none_is_refused_before_anything_is_made() {
    let stranger = Stranger::new();
    let ran = stranger.run(&["demo", "--answer", "year-first"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("hint: one of these: `day-first`, `month-first`"), "{}", ran.stderr);
    assert_eq!((ran.stdout.as_str(), stranger.left()), ("", Vec::new()));
}

#[test]
fn whoever_leaves_or_interrupts_leaves_nothing() {
    let stranger = Stranger::new();
    for (keys, expected) in [("\x1b", 0), ("\x03", 130)] {
        let mut terminal = Terminal::start(stranger.command(&["demo"]), 80);
        terminal.read_until("esc leaves it open");
        terminal.press(keys);
        let (seen, code) = terminal.finish();
        assert_eq!(code, Some(expected), "{seen}");
        assert!(!seen.contains("GREEN"), "silence is no answer: {seen}");
        assert_eq!(seen.contains("one was cancelled"), expected == 0, "{seen}");
        assert_eq!((stranger.left(), stranger.alive()), (Vec::new(), Vec::new()));
    }
    let mut terminal = Terminal::start(stranger.command(&["demo"]), 80);
    terminal.read_until("engine: process ");
    terminal.interrupt();
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(130), "{seen}");
    assert_eq!((stranger.left(), stranger.alive()), (Vec::new(), Vec::new()));
}

#[test]
fn a_demo_that_is_killed_leaves_nothing_running() {
    let stranger = Stranger::new();
    // While the agent works, its engine clears up when it hears that nobody listens any more.
    let mut terminal = Terminal::start(stranger.command(&["demo"]), 80);
    terminal.read_until("engine: process ");
    terminal.kill();
    until("nothing runs and nothing is left", || stranger.alive().is_empty() && stranger.left().is_empty());
    // While it waits, nothing runs that could: the next demo does it.
    let mut terminal = Terminal::start(stranger.command(&["demo"]), 80);
    terminal.read_until("esc leaves it open");
    terminal.kill();
    until("nothing runs", || stranger.alive().is_empty());
    assert_eq!(stranger.left().len(), 1);
    let _ = stranger.run(&["demo", "--json"]).json();
    assert_eq!(stranger.left(), Vec::<PathBuf>::new());
}

#[test]
fn what_is_missing_is_named() {
    let stranger = Stranger::new();
    let mut command = stranger.command(&["demo"]);
    let ran = cli::run(command.env("PATH", stranger.cli.work()));
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("git is not installed"), "{}", ran.stderr);
    let ran = stranger.run(&["demo", "--agent", "codex"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert_eq!(stranger.run(&["demo", "--agent", "gpt"]).code, Some(2));
}

/// A real agent that could log in is offered, and nobody is taken at their silence.
#[test]
fn a_real_agent_is_offered_and_not_taken_for_granted() {
    let stranger = Stranger::new();
    let claude = stranger.cli.write("claude", "#!/bin/sh\nexit 1\n");
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let with_claude = || {
        let mut command = stranger.command(&["demo"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", stranger.cli.work().display()));
        command.env("ANTHROPIC_API_KEY", "a-key-that-is-no-key");
        command
    };
    let mut terminal = Terminal::start(with_claude(), 80);
    terminal.read_until("It costs money. [y/N] ");
    terminal.press("\n");
    terminal.read_until("esc leaves it open");
    terminal.press("\r");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("The agent is scripted") && seen.contains("agora demo --agent claude"), "{seen}");
    let alone = cli::run(&mut with_claude());
    assert_eq!(alone.code, Some(0), "{}", alone.stderr);
    assert!(alone.stdout.contains("agora demo --agent claude"), "{}", alone.stdout);
    assert!(!alone.stdout.contains("a-key-that-is-no-key"));
}

/// Plays with a program that is called `claude`, knows nothing of a model, and asks.
fn with_asking_claude() -> Stranger {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let asks = r#"[ "$1" = --version ] && { echo '2.1.0 (Claude Code)'; exit; }
echo '{"question": "Day first?", "options": ["yes", "no"]}' > .agora/needs_input.json"#;
    let claude = cli.write("bin/claude", format!("#!/bin/sh\n{asks}\n"));
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let stranger = Stranger::with(cli.program("claude", &claude));
    let register = ["env", "register", "--name", "default", "--secret", "ANTHROPIC_API_KEY=env:KEY"];
    let registered = cli::run(stranger.cli.command(&register).env("KEY", "sk-test-0123456789"));
    assert_eq!(registered.code, Some(0), "{}", registered.stderr);
    stranger
}

/// A real agent is in the user's own ledger: nothing is recorded there in their name that they did not say, and nothing is left open
/// that rests on a directory which is gone.
#[test]
fn a_real_agent_gets_no_answer_that_nobody_gave() {
    let stranger = with_asking_claude();
    for form in [&["demo", "--agent", "claude"][..], &["demo", "--agent", "claude", "--json"]] {
        let ran = stranger.run(form);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let said = ran.stdout + &ran.stderr;
        assert!(said.contains("nobody is here to answer claude"), "{said}");
        assert!(said.contains("agora demo --agent claude --answer 1"), "{said}");
    }
    assert_eq!(stranger.run(&["ls", "--json"]).json(), json!([]), "nothing was dispatched");

    let mut terminal = Terminal::start(stranger.command(&["demo", "--agent", "claude"]), 80);
    terminal.read_until("esc leaves it open");
    let thread = stranger.run(&["thread", "show", "@", "--json"]).json();
    let owner = thread["owner"].as_str().unwrap().to_owned();
    assert!(owner.starts_with("user:"), "{thread}");
    assert_eq!(thread["questions"][0]["terms"]["mayAnswer"], json!([owner]), "nobody else may answer");
    terminal.press("\x1b");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("You left it open.") && seen.contains("one was cancelled"), "{seen}");
    let thread = stranger.run(&["thread", "show", "@", "--json"]).json();
    assert_eq!(
        (&thread["state"], &thread["questions"][0]["state"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(stranger.run(&["inbox", "--json"]).json(), json!([]));
    assert_eq!((stranger.left(), stranger.alive()), (Vec::new(), Vec::new()));
}

/// A real agent's question is in the user's own inbox. Nobody answers it once its demo was killed, and what it rests on goes: the next
/// demo, scripted or not, takes it away, and nothing that somebody plays with or keeps.
#[test]
fn what_a_killed_demo_left_open_in_the_users_inbox_is_cancelled_by_the_next() {
    let stranger = with_asking_claude();
    let open = || -> Vec<String> {
        let open = stranger.run(&["inbox", "--json"]).json();
        open.as_array().unwrap().iter().map(|asked| asked["threadId"].as_str().unwrap().to_owned()).collect()
    };
    let start = |arguments: &[&str], dir: &Path| {
        let mut command = stranger.command(&[&["demo", "--agent", "claude"], arguments].concat());
        command.env("TMPDIR", dir);
        let mut terminal = Terminal::start(command, 80);
        terminal.read_until("esc leaves it open");
        terminal
    };
    let kill = |terminal: Terminal| {
        terminal.kill();
        until("nothing runs", || stranger.alive().is_empty());
    };
    let mut kept = start(&["--keep"], &stranger.temporary);
    kept.press("\x1b");
    assert_eq!(kept.finish().1, Some(0));
    let [kept] = open().try_into().unwrap();
    // Everything but what is kept.
    let asked = || -> Vec<String> { open().into_iter().filter(|thread| *thread != kept).collect() };
    kill(start(&[], &stranger.temporary));
    let [first] = asked().try_into().unwrap();
    // A place that went with the machine's next start is not there to be swept.
    let elsewhere = stranger.cli.work().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    kill(start(&[], &elsewhere));
    fs::remove_dir_all(&elsewhere).unwrap();
    let [second] = asked().try_into().unwrap();
    let played = start(&[], &stranger.temporary);
    let [third] = asked().try_into().unwrap();
    assert_ne!((&first, &second), (&second, &third));

    let scripted = stranger.run(&["demo"]);
    assert_eq!((scripted.code, scripted.stderr.as_str()), (Some(0), ""), "there is nothing that is nobody's");
    assert_eq!(open(), [kept.clone(), third.clone()], "one is kept, and somebody plays with the other");
    kill(played);
    let scripted = stranger.run(&["demo"]);
    let told = format!("cancelled what a demo left open that was killed: {third}\n");
    assert_eq!((scripted.code, scripted.stderr), (Some(0), told));
    assert_eq!(open(), [kept.as_str()]);
    for thread in [first, second, third] {
        let thread = stranger.run(&["thread", "show", &thread, "--json"]).json();
        let states = (&thread["state"], &thread["questions"][0]["state"]);
        assert_eq!(states, (&"cancelled".into(), &"cancelled".into()));
    }
}

/// The same with the real Claude Code, against a scripted model: it asks, its engine is killed, it goes on in its own session.
#[test]
fn a_real_agent_can_play() {
    let mut step = 0;
    let model = Model::start_with(move |request| {
        step += 1;
        let taught = request.system_text();
        let path = taught.lines().find_map(|line| line.strip_prefix('`')?.strip_suffix("needs_input.json`"));
        let option = |label: &str| json!({"label": label, "description": "the other caller changes"});
        let question = json!({"question": "Day first?", "options": [option("yes"), option("no")],
            "context": "Nothing tells.", "partial_state": {"remaining": ["one parser"]}});
        match (step, path) {
            (1, Some(path)) => Turn::write_file(format!("{path}needs_input.json"), question.to_string()),
            (2, _) => {
                Turn::shell("sed -i s/month_first/day_first/ payment.sh && git commit -qam 'One parser'")
            }
            _ => Turn::text("Done."),
        }
    });
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let stranger = Stranger::with(Cli::new(env!("CARGO_BIN_EXE_agora")).program("claude", &claude));
    let (url, secret) = (format!("ANTHROPIC_BASE_URL={}", model.url()), "ANTHROPIC_API_KEY=env:KEY");
    let register = ["env", "register", "--name", "default", "--value", &url, "--secret", secret];
    let registered = cli::run(stranger.cli.command(&register).env("KEY", "sk-test-0123456789"));
    assert_eq!(registered.code, Some(0), "{}", registered.stderr);
    let ran = stranger.run(&["demo", "--agent", "claude", "--answer", "yes"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for said in [
        "The agent is claude, with your login: it costs money",
        "Day first?",
        "The engine is dead.",
        "`yes`, by --answer",
        "One parser, by agora/claude",
        "receipt of the answer: verified",
        "its workspace, its own session and its notes",
    ] {
        assert!(ran.stdout.contains(said), "`{said}` is missing:\n{}", ran.stdout);
    }
    assert_eq!((stranger.left(), stranger.alive()), (Vec::new(), Vec::new()));
    let checked = stranger.run(&["protocol", "check", "@", "--json"]).json();
    let points = checked["pauses"][0]["points"].as_array().unwrap();
    let redone = points.iter().find(|point| point["point"] == "nothing-redone").unwrap();
    assert_eq!(
        (&redone["verdict"], &redone["evidence"]["calls"]["repeated"]),
        (&json!("passed"), &json!(0)),
        "{redone}"
    );
}
