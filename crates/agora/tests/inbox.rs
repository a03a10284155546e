//! The commands by which people meet questions, in a real terminal and from other processes.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use agora_testkit::cli::{Cli, run};
use agora_testkit::terminal::Terminal;
use serde_json::Value;

/// Asks what it is told to, after it changed something; and says what it was answered.
const ASKER: &str = r#"if [ -f .agora/resume.json ]; then grep -o '"answer": "[^"]*"' .agora/resume.json; exit; fi
printf 'one\n\033[31mtwo\n' > notes.txt; cp ask.json .agora/needs_input.json"#;

const WHICH: &str = r#"{"question": "Which database?", "options": [{"label": "sqlite", "description": "one file"},
  {"label": "postgres", "description": "a server of its own"}], "context": "Both are in Cargo.toml.\u001b[2J"}"#;

fn cli() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let register = ["subagent", "register", "--name", "asker", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", ASKER]].concat()).success();
    cli
}

/// Lets a thread ask, and returns the question's id.
fn pause(cli: &Cli, id: &str, question: &str) -> String {
    cli.write(&format!("{id}/ask.json"), question);
    let name = format!("d_{id}");
    let call = ["dispatch", "run", "--subagent", "asker", "--label", id, "--dispatch-id", &name];
    let asked = cli.run(&[&call[..], &["--workspace", id, "--pause-ok", "--json"]].concat()).json();
    asked["needsInput"]["questionId"].as_str().unwrap().to_owned()
}

fn state_of(cli: &Cli, id: &str) -> Value {
    cli.run(&["thread", "show", id, "--json"]).json()
}

/// Writes a program that the tests use as an editor or a pager.
fn script(cli: &Cli, name: &str, text: &str) -> String {
    let path = cli.write(name, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn walk(cli: &Cli, columns: u16, variables: &[(&str, &str)]) -> Terminal {
    let mut command = cli.command(&["inbox"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1").envs(variables.iter().copied());
    Terminal::start(command, columns)
}

/// Waits until every thread has ended or waits: whoever carries them has its own process.
fn until_nothing_runs(cli: &Cli) {
    loop {
        let live = cli.run(&["ls", "--live", "--json"]).json();
        if live.as_array().unwrap().is_empty() {
            return;
        }
        for one in live.as_array().unwrap() {
            let _ = cli.run(&["logs", "-f", one["dispatchId"].as_str().unwrap()]);
        }
    }
}

#[test]
fn an_inbox_is_walked_from_one_question_to_the_next() {
    let cli = cli();
    let questions = [
        pause(&cli, "first", WHICH),
        pause(&cli, "second", r#"{"question": "And why?"}"#),
        pause(&cli, "third", r#"{"question": "Shall I go on?", "options": ["yes", "no"]}"#),
    ];
    let shown = cli.work().join("shown");
    let pager = script(&cli, "pager", &format!("cat > {}", shown.display()));
    let mut terminal = walk(&cli, 80, &[("PAGER", &pager)]);
    let seen = terminal.read_until("q leaves").to_owned();
    let header = "question 1 of 3 · asker · first · waits ";
    assert!(seen.contains(header) && seen.contains(&questions[0]), "{seen}");
    assert!(seen.contains("  Both are in Cargo.toml.\u{fffd}[2J"), "an escape is shown, not done: {seen}");
    assert!(seen.contains("changed so far: 1 file (+2 -0)\r\n  notes.txt +2 -0"), "{seen}");
    assert!(seen.contains("     a server of its own"), "what an option implies: {seen}");

    terminal.press("d");
    terminal.read_times("q leaves", 2);
    let diff = fs::read_to_string(&shown).unwrap();
    assert!(diff.contains("+one\n+\u{fffd}[31mtwo\n") && !diff.contains('\x1b'), "{diff}");
    terminal.press("\x1b[B");
    terminal.read_until("› 2. postgres");
    terminal.press("\r");
    terminal.read_until("answered; it goes on as d_");

    terminal.read_until("question 2 of 3 · asker · second");
    terminal.read_until("And why?");
    terminal.read_until("esc shows other keys");
    terminal.press("\x1b");
    terminal.read_until("enter writes");
    terminal.press("s");
    terminal.read_until("skipped; it stays open");

    terminal.read_until("question 3 of 3 · asker · third");
    terminal.read_until("2. no");
    terminal.press("x");
    terminal.read_until("x again declines");
    terminal.press("x");
    let (seen, code) = terminal.finish();
    assert!(seen.contains("declined; its thread has ended"), "{seen}");
    assert!(seen.contains("1 answered, 1 declined, 1 skipped; 1 question stays open"), "{seen}");
    assert_eq!(code, Some(0));

    until_nothing_runs(&cli);
    let first = state_of(&cli, "first");
    assert_eq!(
        (&first["state"], &first["questions"][0]["answer"]["answers"]["q1"]),
        (&"finished".into(), &"postgres".into())
    );
    assert_eq!(first["dispatches"][1]["output"]["text"], "\"answer\": \"postgres\"\n");
    assert_eq!(state_of(&cli, "second")["state"], "waiting");
    assert_eq!(state_of(&cli, "third")["failure"]["code"], "question-declined");
}

#[test]
fn an_answer_is_written_on_the_line_or_in_an_editor() {
    let cli = cli();
    pause(&cli, "first", r#"{"question": "Why?", "context": "Two reasons came to mind."}"#);
    pause(&cli, "second", r#"{"question": "What for?"}"#);
    let seen_file = cli.work().join("prepared");
    // The first time it leaves the file as it is, then it writes.
    let editor = script(
        &cli,
        "editor",
        &format!(
            "if [ ! -e {0} ]; then cp \"$1\" {0}; exit; fi\nprintf '# Two things\\n\\nspeed\\n#: Why?\\n' > \"$1\"",
            seen_file.display()
        ),
    );
    let mut terminal = walk(&cli, 60, &[("EDITOR", &editor)]);
    terminal.read_until("esc shows other keys");
    terminal.press("\x1b");
    terminal.read_until("e editor");
    terminal.press("e");
    terminal.read_until("nothing was written; it stays open");
    terminal.read_times("e editor", 2);
    terminal.press("e");
    terminal.read_until("answered; it goes on");
    terminal.read_until("question 2 of 2");
    terminal.read_times("esc shows other keys", 2);
    terminal.press("for a smal\x7fll gain\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x17great");
    terminal.press("\n");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("2 answered; no question is open"), "{seen}");
    let prepared = fs::read_to_string(seen_file).unwrap();
    assert!(
        prepared.starts_with("\n#: Why?\n") && prepared.contains("#:   Two reasons came to mind."),
        "{prepared}"
    );
    let answer = |id: &str| state_of(&cli, id)["questions"][0]["answer"]["answers"]["q1"].clone();
    assert_eq!(answer("first"), "# Two things\n\nspeed");
    assert_eq!(answer("second"), "for a great gain");
    until_nothing_runs(&cli);
}

#[test]
fn whoever_leaves_the_inbox_leaves_everything_open() {
    let cli = cli();
    pause(&cli, "first", WHICH);
    pause(&cli, "second", r#"{"question": "Why?"}"#);
    for (keys, expected) in [("q", 0), ("\x1b", 0), ("\x03", 130), ("s\x03", 130)] {
        let mut terminal = walk(&cli, 80, &[]);
        terminal.read_until("q leaves");
        for key in keys.split_inclusive('s') {
            terminal.press(key);
            if key == "s" {
                terminal.read_until("esc shows other keys");
            }
        }
        let (seen, code) = terminal.finish();
        assert_eq!(code, Some(expected), "{seen}");
        assert!(seen.contains("2 questions stay open"), "{seen}");
    }
    // A signal, not a key: nobody pressed anything.
    let mut terminal = walk(&cli, 80, &[]);
    terminal.read_until("q leaves");
    terminal.interrupt();
    assert_eq!(terminal.finish().1, Some(130));
    assert_eq!(cli.run(&["inbox", "--json"]).json().as_array().unwrap().len(), 2);
}

#[test]
fn a_walk_goes_on_when_somebody_else_answers() {
    let cli = cli();
    let question = pause(&cli, "first", WHICH);
    let mut terminal = walk(&cli, 40, &[]);
    let seen = terminal.read_until("q leaves").to_owned();
    let fits = |line: &str| line.replace("\x1b[K", "").replace("\x1b[J", "").chars().count() <= 40;
    assert!(seen.split("\r\n").all(fits), "{seen:?}");
    pause(&cli, "second", r#"{"question": "Why?"}"#);
    // Nobody presses a key: the walk hears of it.
    cli.run(&["answer", &question, "sqlite"]).success();
    terminal.read_until("answered meanwhile by `user:");
    terminal.read_until("question 2 of 2");
    terminal.read_until("esc shows other keys");
    terminal.press("because\n");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(state_of(&cli, "first")["questions"][0]["answer"]["answers"]["q1"], "sqlite");
    assert_eq!(state_of(&cli, "second")["questions"][0]["answer"]["answers"]["q1"], "because");
    until_nothing_runs(&cli);
}

/// Starts a dispatch at a terminal, which asks right there.
fn run_here(cli: &Cli, id: &str, question: &str) -> Terminal {
    cli.write(&format!("{id}/ask.json"), question);
    let mut command =
        cli.command(&["dispatch", "run", "--subagent", "asker", "--label", id, "--workspace", id]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    Terminal::start(command, 80)
}

/// Whoever pressed keys while the agent worked had not seen what it would ask.
#[test]
fn what_was_typed_before_the_question_was_there_is_no_answer_to_it() {
    let cli = cli();
    let mut terminal = run_here(&cli, "bored", WHICH);
    terminal.press("2\r\rxx\r");
    terminal.read_until("esc leaves it open");
    terminal.press("\x1b");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(4), "{seen}");
    assert_eq!(state_of(&cli, "bored")["questions"][0]["state"], "open", "{seen}");
}

/// Who may not answer is told so before they have thought about it, and not asked at the terminal they dispatched from.
#[test]
fn whoever_may_not_answer_is_told_who_may_and_is_not_asked() {
    let cli = cli();
    cli.settings("[[route]]\nmatch = { label = \"leads\" }\nmay_answer = [\"group:leads\"]\n[group]\nleads = [\"user:ann\"]\n");
    let (seen, code) = run_here(&cli, "leads", WHICH).finish();
    assert_eq!(code, Some(4), "{seen}");
    assert!(seen.contains("2. postgres") && seen.contains("only `group:leads` may answer it"), "{seen}");
    assert!(!seen.contains("esc leaves it open"), "nobody is asked here: {seen}");
    let mut terminal = walk(&cli, 80, &[]);
    terminal.read_until("q leaves");
    terminal.press("q");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("only `group:leads` may answer it"), "{seen}");
    assert_eq!(state_of(&cli, "leads")["questions"][0]["state"], "open");
}

/// A route on which nobody is in time, so that whoever is asked is the first to look at the clock.
const NO_TIME: &str =
    "[[route]]\nmatch = { label = \"late\" }\nexpire_after = \"1ms\"\nat_expiry = \"use-default\"\n";
const WITH_DEFAULT: &str =
    r#"{"question": "Which?", "options": ["sqlite", "postgres"], "default": "sqlite"}"#;

#[test]
fn whoever_sits_at_a_run_follows_it_also_with_somebody_elses_answer() {
    let cli = cli();
    cli.settings(NO_TIME);
    // Too late: the asker's default holds, and this very process is there to go on.
    let (seen, code) = run_here(&cli, "late", WITH_DEFAULT).finish();
    assert!(seen.contains("the question has expired; it goes on as d_"), "{seen}");
    assert!(seen.contains("\"answer\": \"sqlite\"") && !seen.contains("postgres\""), "{seen}");
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(cli.run(&["status", "--line"]).success(), "");
    // Somebody was faster.
    let mut terminal = run_here(&cli, "faster", WITH_DEFAULT);
    terminal.read_until("esc leaves it open");
    cli.run(&["answer", "faster", "postgres"]).success();
    let (seen, code) = terminal.finish();
    assert!(seen.contains("answered meanwhile by `user:") && seen.contains("it goes on as d_"), "{seen}");
    assert!(seen.contains("\"answer\": \"postgres\""), "{seen}");
    assert_eq!(code, Some(0), "{seen}");
}

#[test]
fn what_a_questions_end_set_going_in_a_walk_is_carried() {
    let cli = cli();
    cli.settings(NO_TIME);
    pause(&cli, "first", WHICH);
    let mut terminal = walk(&cli, 80, &[]);
    terminal.read_until("q leaves");
    // Opens while the walk is at another question: nobody has looked at its clock.
    pause(&cli, "late", WITH_DEFAULT);
    terminal.press("s");
    terminal.read_until("question 2 of 2");
    let (seen, code) = terminal.finish();
    assert!(seen.contains("the question has expired"), "{seen}");
    assert_eq!(code, Some(0), "{seen}");
    // This looks and turns nothing: whoever carries it was started by the walk.
    let since = tokio::time::Instant::now();
    while cli.run(&["status", "--line"]).success() != "1 asks\n" {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "nobody carries it");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let late = state_of(&cli, "late");
    assert_eq!(late["dispatches"][1]["output"]["text"], "\"answer\": \"sqlite\"\n");
    until_nothing_runs(&cli);
}

#[test]
fn several_items_are_asked_in_turn_and_several_options_marked() {
    let cli = cli();
    let question = r#"{"questions": [
        {"id": "parts", "header": "Parts", "question": "Which parts?", "multiSelect": true, "options": ["a", "b", "c"]},
        {"id": "why", "question": "Why these?", "options": ["small", "old"], "allowOther": true}
    ]}"#;
    pause(&cli, "both", question);
    let mut terminal = walk(&cli, 80, &[]);
    terminal.read_until("(1 of 2) Parts: Which parts?");
    terminal.read_until("space marks");
    terminal.press("\r");
    terminal.read_until("mark one or more");
    terminal.press("13\r");
    terminal.read_until("› a, c");
    terminal.read_until("(2 of 2) Why these?");
    terminal.read_until("something else …");
    terminal.press("3\r");
    terminal.read_until("esc shows other keys");
    terminal.press("both\r");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    let answers = state_of(&cli, "both")["questions"][0]["answer"]["answers"].clone();
    assert_eq!(answers, serde_json::json!({"parts": ["a", "c"], "why": "both"}));
    until_nothing_runs(&cli);
}

/// The notice ends with a line to type; somebody who types it without an answer has not answered.
#[test]
fn a_word_that_names_a_question_is_no_answer_to_it() {
    let cli = cli();
    let refused = |words: &[&str]| {
        let ran = cli.run(&[&["answer"], words].concat());
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        ran.stderr
    };
    let free = pause(&cli, "free", r#"{"question": "Why?"}"#);
    let said = refused(&[&free]);
    assert!(said.contains(&format!("the answer is missing: `{free}` says which question")), "{said}");
    assert!(said.contains(&format!("hint: `agora answer {free} VALUE` answers it")), "{said}");
    assert!(said.contains(&format!("if `{free}` is the answer: `agora answer {free} {free}`")), "{said}");
    let thread = state_of(&cli, "free")["threadId"].as_str().unwrap().to_owned();
    for name in [&free[..5], "d_free", &thread, "q_nobody", "d_mine", "free", "@"] {
        assert!(refused(&[name]).contains("the answer is missing"), "{name}");
    }
    assert_eq!(state_of(&cli, "free")["questions"][0]["state"], "open");

    // Where several are open, and where it has several items, the hint is one that works.
    let both = r#"{"questions": [{"id": "db", "question": "Which?"}, {"id": "why", "question": "Why?"}]}"#;
    let several = pause(&cli, "several", both);
    let said = refused(&[&several]);
    assert!(said.contains("the answer is missing"), "{said}");
    assert!(
        said.contains(&format!("`agora answer {several} --answers '{{\"db\":\"…\",\"why\":\"…\"}}'`")),
        "{said}"
    );
    cli.run(&["answer", &several, "--answers", r#"{"db": "sqlite", "why": "one file"}"#]).success();
    assert!(refused(&[&several]).contains("it is not open any more"), "nor one that was answered");

    // What a question offers is an answer, whatever else it could be.
    cli.run(&["answer", &free, &free]).success();
    until_nothing_runs(&cli);
    pause(&cli, "shirts", r#"{"question": "Which?", "options": ["t_shirt", "free", "@"]}"#);
    cli.run(&["answer", "t_shirt"]).success();
    assert_eq!(state_of(&cli, "shirts")["questions"][0]["answer"]["answers"]["q1"], "t_shirt");
    until_nothing_runs(&cli);
}

/// Every dispatch has digits that a question of it would have. One that asked nothing makes the beginning of an id no less clear.
#[test]
fn the_beginning_of_a_questions_id_is_compared_with_questions() {
    let cli = cli();
    let register = ["subagent", "register", "--name", "silent", "--runtime", "command", "--", "true"];
    cli.run(&register).success();
    cli.run(&["dispatch", "run", "--subagent", "silent", "--dispatch-id", "d_alike0"]).success();
    let silent = cli.run(&["answer", "q_alike", "sqlite"]);
    assert!(silent.stderr.contains("has asked nothing"), "{}", silent.stderr);
    pause(&cli, "alike1", WHICH);
    cli.run(&["answer", "q_alike", "sqlite"]).success();
    pause(&cli, "alike2", WHICH);
    let ambiguous = cli.run(&["answer", "q_alike", "sqlite"]);
    assert!(ambiguous.stderr.contains("`q_alike2`, `q_alike1`\n"), "{}", ambiguous.stderr);
    until_nothing_runs(&cli);
}

#[test]
fn a_look_at_a_question_tells_how_it_is_answered_or_what_became_of_it() {
    let cli = cli();
    let both = r#"{"questions": [{"id": "db", "question": "Which?"}, {"id": "why", "question": "Why?"}]}"#;
    let several = pause(&cli, "several", both);
    let how = format!("`agora answer {several} --answers '{{\"db\":\"…\",\"why\":\"…\"}}'` answers it");
    for look in [&["show", "several"][..], &["thread", "show", "several"], &["inbox"]] {
        let ran = cli.run(look);
        assert!(ran.stderr.contains(&how), "{look:?}: {}", ran.stderr);
    }
    assert!(cli.run(&["show", "several"]).success().contains(&format!("asks:        {several}\n")));
    let declined = cli.run(&["answer", "several", "--decline", "--json"]).json();
    let thread = state_of(&cli, "several")["threadId"].clone();
    let expected = serde_json::json!({
        "questionId": several, "threadId": thread, "dispatchId": "d_several", "declined": true
    });
    assert_eq!(declined, expected);
    let shown = cli.run(&["show", "several"]);
    assert!(
        shown.stdout.contains(&format!("asked:       {several}, which was declined")),
        "{}",
        shown.stdout
    );
    assert_eq!(shown.stderr, "", "there is nothing to answer any more");
    let cancelled = pause(&cli, "cancelled", WHICH);
    cli.run(&["cancel", "cancelled"]).success();
    let shown = cli.run(&["show", "cancelled"]).success();
    assert!(shown.contains(&format!("asked:       {cancelled}, which was cancelled")), "{shown}");
}

#[test]
fn an_answer_comes_from_a_file_or_a_pipe_as_it_stands() {
    let cli = cli();
    cli.write("crlf.txt", "two\r\nlines\r\n");
    cli.write("object.json", r#"{"port": 80}"#);
    for (id, file, expected) in
        [("crlf", "crlf.txt", "two\r\nlines"), ("object", "object.json", r#"{"port": 80}"#)]
    {
        pause(&cli, id, r#"{"question": "What goes into the file?"}"#);
        cli.run(&["answer", id, "--from-file", file]).success();
        assert_eq!(state_of(&cli, id)["questions"][0]["answer"]["answers"]["q1"], expected);
    }
    for (id, value, input, expected) in
        [("piped", "-", "two\nlines\n", "two\nlines"), ("number", "-5", "", "-5")]
    {
        pause(&cli, id, r#"{"question": "What goes into the file?"}"#);
        cli.run_with_input(&["answer", id, value], input).success();
        assert_eq!(state_of(&cli, id)["questions"][0]["answer"]["answers"]["q1"], expected);
    }
    assert!(cli.run(&["answer", "piped", "--folow"]).failure(2).contains("--follow"), "no answer");
    // What has no end is not read to it.
    pause(&cli, "endless", r#"{"question": "What goes into the file?"}"#);
    let ran = cli.run(&["answer", "endless", "--from-file", "/dev/zero"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("`/dev/zero` has more than 1048576 bytes"), "{}", ran.stderr);
    until_nothing_runs(&cli);
}

/// Reads a process's lines until one fits.
fn line_with(lines: &mut impl Iterator<Item = std::io::Result<String>>, text: &str) -> String {
    lines.map(Result::unwrap).find(|line| line.contains(text)).unwrap_or_else(|| panic!("no `{text}`"))
}

fn watch(cli: &Cli, more: &[&str]) -> (Child, impl Iterator<Item = std::io::Result<String>> + use<>) {
    let mut command = cli.command(&[&["inbox", "--watch"], more].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

#[test]
fn another_process_hears_of_questions_that_open_and_are_closed() {
    let cli = cli();
    let first = pause(&cli, "first", WHICH);
    let (mut json, mut documents) = watch(&cli, &["--json"]);
    let (mut text, mut lines) = watch(&cli, &[]);
    let open: Value = serde_json::from_str(&line_with(&mut documents, "question.opened")).unwrap();
    assert_eq!((&open["questionId"], &open["options"][1]), (&first.as_str().into(), &"postgres".into()));
    assert!(line_with(&mut lines, &first).ends_with("  opened  asker: Which database?"));

    let second = pause(&cli, "second", r#"{"question": "Why?"}"#);
    let open: Value = serde_json::from_str(&line_with(&mut documents, &second)).unwrap();
    assert_eq!((&open["kind"], &open["question"]), (&"question.opened".into(), &"Why?".into()));
    assert!(line_with(&mut lines, &second).contains("opened  asker: Why?"));

    cli.run(&["answer", &first, "2"]).success();
    cli.run(&["answer", &second, "--decline"]).success();
    let closed: Value = serde_json::from_str(&line_with(&mut documents, &first)).unwrap();
    assert_eq!((&closed["kind"], &closed["by"]["door"]), (&"question.answered".into(), &"cli".into()));
    assert_eq!(closed["answers"]["q1"], "postgres");
    let closed: Value = serde_json::from_str(&line_with(&mut documents, &second)).unwrap();
    assert_eq!(closed["kind"], "question.declined");
    assert!(line_with(&mut lines, &first).ends_with("through cli: postgres"));
    assert!(line_with(&mut lines, &second).contains("declined by user:"));

    // Ctrl-C ends it, and so does a reader that goes away, without anything having to happen.
    rustix_kill(&json);
    assert_eq!(json.wait().unwrap().code(), Some(130));
    drop(lines);
    assert_eq!(text.wait().unwrap().code(), Some(0));
    until_nothing_runs(&cli);
}

fn rustix_kill(child: &Child) {
    let ended = run(agora_testkit::cli::command("kill").args(["-INT", &child.id().to_string()]));
    assert_eq!(ended.code, Some(0));
}

#[test]
fn a_story_is_told_across_two_pauses() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let script = r#"n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count
case $n in
0) printf '%s' '{"question": "Which database?", "options": [{"label": "sqlite", "description": "one file"}, "postgres"], "context": "Both are in Cargo.toml.\nMore."}' > .agora/needs_input.json;;
1) echo x > second.txt; echo '{"question": "And why?"}' > .agora/needs_input.json;;
*) echo "All done.";;
esac"#;
    let register = ["subagent", "register", "--name", "asker", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", script]].concat()).success();
    let call =
        ["dispatch", "run", "--subagent", "asker", "--label", "nightly", "--prompt", "split the parser"];
    let asked = cli.run(&[&call[..], &["--pause-ok", "--json"]].concat()).json();
    assert_eq!(asked["state"], "needs_input");
    let open = cli.run(&["thread", "show", "@"]).success();
    assert!(open.contains(" · waiting · asker · nightly\n"), "{open}");
    cli.run(&["answer", "sqlite", "--follow", "--pause-ok"]).success();
    cli.run(&["answer", "it is one file\nand small", "--follow"]).success();
    let told = cli.run(&["thread", "show", "@"]).success();
    let user = told.split_whitespace().find(|word| word.starts_with("user:")).unwrap().to_owned();
    let told = cli.steady(&told).replace(&user, "user:ann");
    insta::assert_snapshot!(told, @r"
    thread t_[ID] · finished · asker · nightly
      split the parser

    [DATE] [CLOCK]  dispatched by user:ann to local (d_[ID])
    [DATE] [CLOCK]  asked, and stopped (q_[ID])
                          worked [SPAN], 1 file changed (+1 -0)
                            Which database?
                              1. sqlite
                                 one file
                              2. postgres
                            because: Both are in Cargo.toml. …
    [DATE] [CLOCK]  answered by user:ann through cli, after [SPAN]
                            sqlite
                          it went on as d_[ID]
    [DATE] [CLOCK]  asked, and stopped (q_[ID])
                          worked [SPAN], 2 files changed (+2 -1) since the answer
                            And why?
    [DATE] [CLOCK]  answered by user:ann through cli, after [SPAN]
                            it is one file
                            and small
                          it went on as d_[ID]
    [DATE] [CLOCK]  finished
                          worked [SPAN], 1 file changed (+1 -1) since the answer
                            All done.

    agents worked [SPAN] in 3 dispatches, cost not reported
    people thought [SPAN] over 2 questions; while it waited: 0 processes, $0
    ");
    let json = cli.run(&["thread", "show", "@", "--json"]).json();
    let totals = &json["totals"];
    assert_eq!(
        (&totals["questions"], &totals["dispatches"], &totals["liveWhileWaiting"]),
        (&2.into(), &3.into(), &0.into())
    );
    assert_eq!(json["questions"][0]["nextDispatchId"], json["dispatches"][1]["dispatchId"]);
    assert_eq!(json["questions"][1]["answer"]["by"]["door"], "cli");
    let first = &json["questions"][0];
    for field in ["question", "options", "context", "questions", "partialState"] {
        assert_eq!(first[field], asked["needsInput"][field], "{field}");
    }
    assert!(first["question"].is_string());
}

#[test]
fn a_prompt_is_told_what_there_is_and_nothing_is_touched() {
    let cli = cli();
    let prompt = || cli.run(&["status", "--line"]);
    assert_eq!(prompt().success(), "");
    assert!(!cli.agora_home().join("ledger.sqlite").exists(), "nothing is made to look at nothing");
    pause(&cli, "first", WHICH);
    pause(&cli, "second", WHICH);
    let before = agora_testkit::cli::files_below(&cli.agora_home());
    assert_eq!(prompt().success(), "2 ask\n");
    let after = agora_testkit::cli::files_below(&cli.agora_home());
    let names = |files: &[(std::path::PathBuf, Vec<u8>)]| {
        files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&before), names(&after));
    assert_eq!(cli.run(&["status", "--line", "--json"]).json()["questions"], 2);
    let whole = cli.run(&["status"]).success();
    assert!(whole.contains("running:    nothing\nquestions:  2 open; the oldest waits "), "{whole}");
    assert_eq!(cli.run(&["status", "--json"]).json()["questions"], 2);
    // No home at all, and one that is something else: a prompt has no room for errors.
    let mut nowhere = cli.command(&["status", "--line"]);
    let ran = run(nowhere.env_remove("HOME").env_remove("AGORA_HOME"));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    for file in ["ledger.sqlite-wal", "ledger.sqlite-shm"] {
        fs::remove_file(cli.agora_home().join(file)).unwrap();
    }
    fs::write(cli.agora_home().join("ledger.sqlite"), "no ledger").unwrap();
    let ran = prompt();
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
}
