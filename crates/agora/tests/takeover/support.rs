//! What the tests share: somebody at a terminal, and agents that they take over.

use std::fs;
use std::path::PathBuf;

use agora_testkit::cli::Cli;
use agora_testkit::terminal::Terminal;
use serde_json::Value;

/// An agent that asks at first, and the next time says what it was told.
const ASKER: &str = r#"if [ -e asked ]; then cat; echo back >> made.txt; else
  touch asked; echo first > made.txt
  echo '{"question": "Which database?", "options": ["sqlite", "postgres"]}' > .agora/needs_input.json
fi"#;

/// What a shell shows when it waits for a command.
pub(crate) const PROMPT: &str = "$ ";

pub(crate) fn asker() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    command(&cli, "asker", ASKER);
    cli
}

/// Registers a script as an agent.
pub(crate) fn command(cli: &Cli, name: &str, script: &str) {
    let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", script]].concat()).success();
}

/// Runs the asker to its question.
pub(crate) fn asked(cli: &Cli) -> Value {
    cli.run(&["dispatch", "run", "--subagent", "asker", "--pause-ok", "--json"]).json()
}

/// Sits down at a terminal and takes a thread over.
pub(crate) fn take_over(cli: &Cli, more: &[&str]) -> Terminal {
    let mut command = cli.command(&[&["takeover"], more].concat());
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1").env("SHELL", "/bin/sh");
    Terminal::start(command, 100)
}

/// Takes the last thread over, up to the shell's first prompt.
pub(crate) fn at_the_prompt(cli: &Cli) -> Terminal {
    let mut terminal = take_over(cli, &[]);
    terminal.read_until("you take it over");
    terminal.read_until(PROMPT);
    terminal
}

/// Runs a command in the shell, and returns what was shown until it had ended.
pub(crate) fn shell(terminal: &mut Terminal, line: &str) -> String {
    terminal.forget();
    // The quotes are only in the echo: what is waited for is what the shell prints.
    terminal.type_text(&format!("{line}; echo do''ne\n"));
    terminal.read_until("done\r\n").to_owned()
}

pub(crate) fn thread(cli: &Cli) -> Value {
    cli.run(&["thread", "show", "@", "--json"]).json()
}

/// Tells the states of a thread's questions.
pub(crate) fn questions(thread: &Value) -> Vec<&str> {
    thread["questions"].as_array().unwrap().iter().map(|asked| asked["state"].as_str().unwrap()).collect()
}

/// Finds processes of this machine by a word of their command lines.
pub(crate) fn running(word: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
    let says = |path: &PathBuf| {
        let line = fs::read(path).unwrap_or_default();
        line.windows(word.len()).any(|seen| seen == word.as_bytes())
    };
    processes.filter(says).collect()
}
