//! Who is first, who dies, and what is left then.

use std::fs;
use std::process::Stdio;

use agora_testkit::cli::{Ran, run};
use serde_json::json;

use crate::support::{asked, asker, at_the_prompt, command, questions, running, shell, take_over, thread};

#[test]
fn an_answer_that_comes_after_a_takeover_is_refused() {
    let cli = asker();
    let question = asked(&cli)["needsInput"]["questionId"].as_str().unwrap().to_owned();
    let mut terminal = at_the_prompt(&cli);
    let late = cli.run(&["answer", &question, "sqlite", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&late.stdout).unwrap();
    assert_eq!((late.code, document["error"]["code"].as_str()), (Some(2), Some("question-cancelled")));
    let second = take_over(&cli, &[]).finish();
    assert_eq!(second.1, Some(2), "{}", second.0);
    assert!(second.0.contains("cannot be continued now"), "{}", second.0);
    terminal.type_text("exit\n");
    assert_eq!(terminal.finish().1, Some(0));
}

#[test]
fn of_an_answer_and_a_takeover_one_counts() {
    for round in 0..3 {
        let cli = asker();
        let question = asked(&cli)["needsInput"]["questionId"].as_str().unwrap().to_owned();
        let mut answer = cli.command(&["answer", &question, "sqlite"]);
        let answer = answer.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut terminal = take_over(&cli, &[]);
        // At a prompt that never comes, nobody reads it.
        terminal.type_text("exit\nexit\n");
        let (seen, code) = terminal.finish();
        let answered = Ran::from(answer.wait_with_output().unwrap());
        let asked_about = match answered.code {
            Some(0) => "answered",
            Some(2) => "cancelled",
            _ => panic!("{round}: {}", answered.stderr),
        };
        assert_eq!(questions(&thread(&cli)), [asked_about], "{round}: {seen}{}", answered.stderr);
        assert!(
            code == Some(0) || (code == Some(2) && asked_about == "answered"),
            "{round}: {code:?} {seen}"
        );
    }
}

#[test]
fn whoever_takes_over_may_be_killed_and_what_was_done_is_kept() {
    let cli = asker();
    asked(&cli);
    let mut terminal = at_the_prompt(&cli);
    let word = format!("3133.7{}", std::process::id());
    // It does not care for a terminal that goes away.
    shell(&mut terminal, &format!("echo by hand >> made.txt; (trap '' HUP; sleep {word} &)"));
    // The shell does not wait until it runs.
    while running(&word).is_empty() {
        std::thread::yield_now();
    }
    terminal.kill();
    cli.run(&["dispatch", "watch", "@"]).success();
    assert_eq!(running(&word), Vec::<std::path::PathBuf>::new(), "nothing is left");
    let thread = thread(&cli);
    assert_eq!(thread["state"], "finished", "{thread}");
    let said = thread["dispatches"][1]["warnings"].to_string();
    assert!(said.contains("its terminal went away"), "{said}");
    assert_eq!(cli.run(&["continue", "@", "--json"]).json()["state"], "finished");
    let patch = cli.run(&["logs", "@", "--part", "patch"]).success();
    assert!(patch.contains("+first\n+by hand\n+back\n"), "{patch}");
}

#[test]
fn a_takeover_that_never_got_its_worker_ends_with_its_terminal() {
    let cli = asker();
    cli.settings(&format!("[target.local]\nmax_concurrent = 1\ngrant = [\"{}:rw\"]\n", cli.work().display()));
    let (gate, runs) = (cli.work().join("gate"), cli.work().join("runs"));
    let script = format!("echo > {}; while [ ! -e {} ]; do sleep 0.05; done", runs.display(), gate.display());
    command(&cli, "slow", &script);
    assert_eq!(run(agora_testkit::cli::command("mkfifo").args(["-m", "666"]).arg(&runs)).code, Some(0));
    let waits = asked(&cli)["threadId"].as_str().unwrap().to_owned();
    cli.run(&["dispatch", "run", "--subagent", "slow", "--detach"]).success();
    // The one place is taken when the pipe has been written to.
    fs::read(&runs).unwrap();
    let mut terminal = take_over(&cli, &[&waits]);
    terminal.read_until("waits for room");
    terminal.kill();
    let thread = cli.run(&["thread", "show", &waits, "--json"]).json();
    assert_eq!((thread["state"].as_str(), questions(&thread)), (Some("failed"), vec!["cancelled"]));
    assert_eq!(thread["failure"]["code"], "worker-not-started");
    assert!(thread["failure"]["detail"].as_str().unwrap().contains("their terminal was gone"));
    fs::write(gate, "").unwrap();
    let after = cli.run(&["continue", &waits, "--json"]).json();
    assert_eq!(
        (after["state"].as_str(), &after["resumedWith"]["workspace"]),
        (Some("finished"), &json!(true))
    );
}

#[test]
fn a_takeover_is_cancelled_from_elsewhere_and_leaves_the_terminal_as_it_was() {
    let cli = asker();
    asked(&cli);
    let mut terminal = take_over(&cli, &[]);
    let habits = terminal.habits();
    terminal.read_until("you take it over");
    terminal.read_until(crate::support::PROMPT);
    cli.run(&["cancel", "@"]).success();
    terminal.read_until("cancelled in");
    assert_eq!(terminal.habits(), habits);
    assert_eq!(terminal.finish().1, Some(1));
}

#[test]
fn whoever_may_not_answer_may_not_take_the_question_over_either() {
    let cli = asker();
    cli.settings("[[route]]\nsteps = [{ inbox = \"user:somebody-else\" }]\n");
    asked(&cli);
    let (seen, code) = take_over(&cli, &[]).finish();
    assert_eq!(code, Some(2), "{seen}");
    assert!(seen.contains("may not take the thread"), "{seen}");
    assert_eq!(questions(&thread(&cli)), ["open"]);
}

#[test]
fn what_runs_is_not_taken_over() {
    let cli = asker();
    cli.grant_work();
    let gate = cli.work().join("gate");
    command(&cli, "slow", &format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display()));
    cli.run(&["dispatch", "run", "--subagent", "slow", "--detach"]).success();
    let (seen, code) = take_over(&cli, &[]).finish();
    assert_eq!(code, Some(2), "{seen}");
    assert!(seen.contains("agora cancel"), "{seen}");
    fs::write(gate, "").unwrap();
    cli.run(&["dispatch", "watch", "@"]).success();
}
