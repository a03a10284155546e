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

/// Asks twice: one of two, then for words.
const ASKER: &str = r#"case $(ls answers 2>/dev/null | wc -l) in
0) mkdir answers; touch answers/1
   echo '{"question": "Which database?", "options": [{"label": "sqlite", "description": "one file"}, {"label": "postgres"}],
     "context": "Both are in Cargo.toml.\u001b[2J"}' > .agora/needs_input.json;;
1) touch answers/2; grep -o '"answer": "[^"]*"' .agora/resume.json
   echo '{"question": "And why?"}' > .agora/needs_input.json;;
*) grep -o '"answer": "[^"]*"' .agora/resume.json;;
esac"#;

fn asker() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let register = ["subagent", "register", "--name", "asker", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", ASKER]].concat()).success();
    cli
}

#[test]
fn a_question_is_asked_and_answered_right_there_any_number_of_times() {
    let cli = asker();
    let mut terminal = Terminal::start(cli.command(&["dispatch", "run", "--subagent", "asker"]), 60);
    let seen = terminal.read_until("esc leaves it open");
    assert!(seen.contains("nothing runs until somebody answers"), "{seen}");
    assert!(
        seen.contains("Both are in Cargo.toml.\u{fffd}[2J"),
        "an escape of the agent's is shown, not done: {seen}"
    );
    terminal.press("\x1b[B");
    terminal.read_until("› 2. postgres");
    terminal.press("\r");
    terminal.read_until("And why?");
    terminal.read_until("> ");
    terminal.press("it has an index\n");
    let (seen, code) = terminal.finish();
    assert!(
        seen.contains(r#""answer": "postgres""#) && seen.contains(r#""answer": "it has an index""#),
        "{seen}"
    );
    assert_eq!(code, Some(0), "{seen}");
}

#[test]
fn whoever_leaves_a_question_finds_it_open() {
    let cli = asker();
    for (keys, expected) in [("\x1b", 4), ("\x03", 130)] {
        let mut terminal = Terminal::start(cli.command(&["dispatch", "run", "--subagent", "asker"]), 80);
        terminal.read_until("esc leaves it open");
        terminal.press(keys);
        let (seen, code) = terminal.finish();
        assert_eq!(code, Some(expected), "{seen}");
        assert!(seen.contains("it stays open: `agora answer q_"), "{seen}");
    }
    assert_eq!(cli.run(&["inbox", "--json"]).json().as_array().unwrap().len(), 2);
}

#[test]
fn whoever_is_asked_is_told_when_somebody_else_answers_and_follows() {
    let cli = asker();
    let mut terminal = Terminal::start(cli.command(&["dispatch", "run", "--subagent", "asker"]), 80);
    terminal.read_until("esc leaves it open");
    cli.run(&["answer", "postgres"]).success();
    let seen = terminal.read_until("; it goes on as d_");
    assert!(seen.contains("\x1b[J\x1b[?2004lanswered meanwhile by `user:"), "the menu goes first: {seen:?}");
    terminal.read_until("And why?");
    terminal.read_until("> ");
    terminal.press("half a thou");
    terminal.read_until("> half a thou");
    cli.run(&["answer", "it has an index"]).success();
    let (seen, code) = terminal.finish();
    assert_eq!(seen.matches("answered meanwhile by").count(), 2, "{seen}");
    assert!(
        seen.contains(r#""answer": "it has an index""#) && !seen.contains(r#""answer": "half"#),
        "{seen}"
    );
    assert_eq!(code, Some(0), "{seen}");
}

#[test]
fn a_run_ends_as_its_thread_did_when_the_question_is_closed_elsewhere() {
    let cli = asker();
    let run = || Terminal::start(cli.command(&["dispatch", "run", "--subagent", "asker"]), 80);
    for (close, said) in [
        (&["cancel", "@"][..], "the question was cancelled by `user:"),
        (&["answer", "@", "--decline"], "the question was declined by `user:"),
    ] {
        let mut terminal = run();
        terminal.read_until("esc leaves it open");
        cli.run(close).success();
        let (seen, code) = terminal.finish();
        assert!(seen.contains(said) && seen.contains("`; its thread has ended"), "{seen}");
        assert_eq!(code, Some(1), "{seen}");
    }
    // Nobody else looks at the clock.
    cli.settings("[[route]]\nexpire_after = \"300ms\"\nat_expiry = \"fail\"\n");
    let (seen, code) = run().finish();
    assert!(seen.contains("esc leaves it open"), "{seen}");
    assert!(seen.contains("the question has expired; its thread has ended"), "{seen}");
    assert_eq!(code, Some(1), "{seen}");
}

/// What an agent says so that a terminal does something: clears it, names its window, writes into the clipboard, moves the cursor, asks it
/// for an answer that would be typed, and turns the direction of writing.
const STEERING: [&str; 9] = [
    "\x1b[2J",
    "\x1b]0;mine\x07",
    "\x1b]52;c;bWluZQ==\x07",
    "\x1b[1A",
    "\x1b[31m",
    "\u{9b}6n",
    "\u{9d}52;c;eA==\u{9c}",
    "\u{202e}",
    "\x08",
];

/// Asks in such words, and when it was answered says them, in its last words and beside them.
const STEERER: &str = r#"if [ -f .agora/resume.json ]; then cat words; cat words >&2; cp words made.txt; exit 1; fi
printf '%s' "$(cat ask)" > .agora/needs_input.json"#;

#[test]
fn what_an_agent_says_does_nothing_to_a_terminal_and_is_whole_in_a_pipe() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let words = STEERING.map(|one| format!("<{one}>")).concat();
    let ask = serde_json::json!({
        "question": format!("Which?{words}"), "context": words, "partialState": {"a": words},
        "options": [{"label": format!("a{words}"), "description": words}, {"label": "b"}],
    });
    cli.write("tree/words", format!("{words}\n"));
    cli.write("tree/ask", ask.to_string());
    let command = ["--runtime", "command", "--", "sh", "-c", STEERER];
    cli.run(&[&["subagent", "register", "--name", "steerer"], &command[..]].concat()).success();

    let harmless = |arguments: &[&str]| {
        let mut command = cli.command(arguments);
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        let (seen, _) = Terminal::start(command, 400).finish();
        for one in STEERING {
            assert!(!seen.contains(one), "{arguments:?} lets {one:?} through: {seen:?}");
        }
        seen
    };
    let run = ["run", "--agent", "steerer", "x", "--workspace", "tree", "--pause-ok"];
    let seen = harmless(&run);
    assert!(seen.contains("Which?<\u{fffd}[2J>"), "it asked, and that can be read: {seen}");
    for look in ["inbox --list", "show @", "show @ --json", "thread show @", "logs @ --part worker", "ls"] {
        harmless(&look.split(' ').collect::<Vec<_>>());
    }
    let seen = harmless(&["answer", "@", "b", "--follow"]);
    assert!(seen.contains("<\u{fffd}[2J>"), "{seen}");
    for look in [
        "show @",
        "show @ --json",
        "thread show @",
        "logs @",
        "logs @ --json",
        "logs @ --part worker",
        "logs @ --part patch",
        "dispatch watch @",
        "apply @ --patch",
        "status",
        "protocol check @",
        "thread list",
        "dispatch describe @",
    ] {
        harmless(&look.split(' ').collect::<Vec<_>>());
    }

    let piped = cli.run(&["logs", "@"]).success();
    assert!(piped.contains(&words), "{piped:?}");
    let shown = cli.run(&["show", "@", "--json"]).json();
    assert_eq!(shown["output"]["text"].as_str().map(str::trim_end), Some(words.as_str()));
}
