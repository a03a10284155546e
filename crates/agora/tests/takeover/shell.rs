//! A runtime without an interactive program: a shell in its workspace, behind the same wall.

use std::process::Stdio;

use agora_testkit::cli::run;
use serde_json::json;

use crate::support::{PROMPT, asked, asker, at_the_prompt, questions, shell, take_over, thread};

#[test]
fn a_question_is_taken_over_and_the_work_goes_on_in_both_hands() {
    let cli = asker();
    let before = asked(&cli);
    let mut terminal = take_over(&cli, &[]);
    let habits = terminal.habits();
    let seen = terminal.read_until("you take it over").to_owned();
    assert!(
        seen.contains("its question ends without an answer") && seen.contains("Which database?"),
        "{seen}"
    );
    assert!(seen.contains("`command` has no interactive program"), "{seen}");
    terminal.read_until(PROMPT);
    assert_ne!(terminal.habits(), habits, "every key is the program's");
    let seen = shell(&mut terminal, "cat made.txt; echo by hand >> made.txt; false");
    assert!(seen.contains("first"), "the workspace is the thread's: {seen}");
    terminal.type_text("exit\n");
    terminal.read_until("finished in");
    assert_eq!(terminal.habits(), habits, "the terminal is as it was");
    assert_eq!(terminal.finish().1, Some(0), "what a shell's last command said is no verdict");

    let thread = thread(&cli);
    assert_eq!((thread["state"].as_str(), questions(&thread)), (Some("finished"), vec!["cancelled"]));
    let taken = &thread["dispatches"][1];
    let person = taken["person"].as_str().unwrap();
    assert!(person.starts_with("user:"), "{person}");
    assert_eq!(taken["threadId"], before["threadId"]);
    assert_eq!(taken["resumedWith"]["workspace"], json!(true));
    assert!(cli.run(&["ls"]).success().contains(&format!("finished ({person})")));
    let told = cli.run(&["thread", "show"]).success();
    assert!(told.contains(&format!("{person} took it over (d_")), "{told}");
    assert!(told.contains(" in 1 dispatch, people ") && told.contains(" in 1 taken over"), "{told}");
    assert_eq!(thread["totals"]["takenOver"], json!(1));
    assert!(cli.run(&["show", "@"]).success().contains(&format!("person:      {person} took it over")));

    let after = cli.run(&["continue", "@", "and now", "--json"]).json();
    assert_eq!((after["state"].as_str(), &after["person"]), (Some("finished"), &json!(null)));
    let patch = cli.run(&["logs", "@", "--part", "patch"]).success();
    assert!(patch.contains("+first\n+by hand\n+back\n"), "{patch}");
}

#[test]
fn what_is_typed_and_shown_is_kept_nowhere() {
    let cli = asker();
    asked(&cli);
    let mut terminal = at_the_prompt(&cli);
    shell(&mut terminal, "echo hunter-one-two | wc -c");
    terminal.type_text("exit\n");
    assert_eq!(terminal.finish().1, Some(0));
    let kept = agora_testkit::cli::files_below(&cli.agora_home());
    let holds = |bytes: &[u8]| bytes.windows(14).any(|seen| seen == b"hunter-one-two");
    assert_eq!(kept.iter().find(|(_, bytes)| holds(bytes)).map(|(path, _)| path), None);
}

#[test]
fn the_size_of_the_terminal_and_ctrl_c_are_the_programs() {
    let cli = asker();
    asked(&cli);
    let mut terminal = at_the_prompt(&cli);
    assert!(shell(&mut terminal, "stty size").contains("24 100\r\n"));
    terminal.resize(40, 90);
    let seen = shell(&mut terminal, "while [ \"$(stty size)\" != '40 90' ]; do sleep 0.05; done; stty size");
    assert!(seen.contains("40 90\r\n"), "{seen}");
    terminal.forget();
    // Said by the program that is to be interrupted: a shell that is about to start it may lose the key.
    terminal.type_text("sh -c \"echo wai''ting; exec sleep 1000\"\n");
    terminal.read_until("waiting\r\n");
    terminal.forget();
    terminal.press("\x03");
    terminal.read_until(PROMPT);
    assert!(shell(&mut terminal, "echo alive").contains("alive"), "only the command ended");
    terminal.type_text("exit\n");
    assert_eq!(terminal.finish().1, Some(0));
}

#[test]
fn a_question_that_is_left_behind_is_asked_as_always() {
    let cli = asker();
    asked(&cli);
    let mut terminal = at_the_prompt(&cli);
    shell(&mut terminal, r#"echo '{"question": "And the port?"}' > .agora/needs_input.json"#);
    terminal.type_text("exit\n");
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(4), "{seen}");
    assert!(seen.contains("And the port?"), "{seen}");
    assert_eq!(questions(&thread(&cli)), ["cancelled", "open"]);
}

#[test]
fn nothing_of_the_persons_own_terminal_is_within_reach() {
    let cli = asker();
    asked(&cli);
    let mut terminal = at_the_prompt(&cli);
    let own = terminal.name().to_owned();
    // 0x5412 is TIOCSTI: to type into the terminal that one has.
    let push = r#"perl -e 'my $x = "x"; print ioctl(STDIN, 0x5412, $x) ? "typed" : "refused: $!", "\n"'"#;
    let seen = shell(&mut terminal, push);
    assert!(seen.contains("refused: Operation not permitted"), "{seen}");
    let open = format!("(echo got''cha > {own}) 2>/dev/null || echo clo''sed; ls /dev/pts");
    let seen = shell(&mut terminal, &open);
    assert!(seen.contains("closed") && !seen.contains("gotcha\r"), "{seen}");
    terminal.type_text("exit\n");
    assert_eq!(terminal.finish().1, Some(0));
}

#[test]
fn without_a_terminal_it_says_what_to_do_instead() {
    let cli = asker();
    asked(&cli);
    let said = cli.run(&["takeover"]).failure(2);
    assert!(said.contains("needs a terminal") && said.contains("agora continue"), "{said}");
    let mut command = cli.command(&["takeover", "--json"]);
    let ran = run(command.stdin(Stdio::null()));
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, document["error"]["code"].as_str()), (Some(2), Some("no-terminal")));
    assert_eq!(questions(&thread(&cli)), ["open"], "nothing has happened");
}
