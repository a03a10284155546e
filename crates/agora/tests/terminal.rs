//! What a person sees in a terminal while an agent runs.

use std::fs;

use agora_testkit::cli::Cli;
use agora_testkit::terminal::Terminal;

/// Takes the line away that is written again and again: what is left is what stays on the screen.
const CLEARED: &str = "\r\x1b[K";

fn place() -> (Cli, std::path::PathBuf) {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let gate = cli.work().join("gate");
    cli.grant_work();
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.02; done; echo done > made.txt; echo All done.",
        gate.display()
    );
    let command = ["--runtime", "command", "--", "sh", "-c", &script];
    cli.run(&[&["subagent", "register", "--name", "slow"], &command[..]].concat()).success();
    (cli, gate)
}

#[test]
fn one_line_says_how_far_it_is_and_goes_when_it_ends() {
    let (cli, gate) = place();
    let mut command = cli.command(&["dispatch", "run", "--subagent", "slow"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command, 100);
    let shown = terminal.read_until("  agent").to_owned();
    let line = shown.rsplit(CLEARED).next().unwrap();
    let words: Vec<&str> = line.trim_start_matches("\x1b[?7l").split_whitespace().collect();
    assert!(words[0].starts_with("d_") && words[1].parse::<f64>().is_ok(), "id, then time: {line:?}");
    fs::write(gate, "").unwrap();
    let (shown, code) = terminal.finish();
    assert_eq!(code, Some(0));
    let (_, rest) = shown.rsplit_once(CLEARED).unwrap();
    let rest = cli.steady(&rest.replace("\r\n", "\n"));
    assert_eq!(
        rest,
        "All done.\nfinished in [SPAN], 1 file changed (+1 -0)\nd_[ID]\n\
         hint: `agora logs d_[ID] --part patch` shows what it changed\n"
    );
}

#[test]
fn the_line_fits_into_a_narrow_terminal() {
    let (cli, gate) = place();
    let mut command = cli.command(&["dispatch", "run", "--subagent", "slow"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command, 12);
    let shown = terminal.read_until("…\x1b[?7h").to_owned();
    let line = shown.rsplit("\x1b[?7l").next().unwrap().trim_end_matches("\x1b[?7h");
    assert!(line.chars().count() < 12, "{line:?}");
    fs::write(gate, "").unwrap();
    assert_eq!(terminal.finish().1, Some(0));
}
