//! The real Claude Code and the real Codex at a terminal, against a scripted model.

use std::path::Path;

use agora_testkit::cli::{Cli, command, files_below, run};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;
use agora_testkit::terminal::Terminal;
use serde_json::{Value, json};

use crate::support::{questions, take_over, thread};

/// What a key looks like that nobody refuses for its form.
const KEY: &str = "sk-test-0123456789-0123456789";

/// A place with a repository, a real program, an env bundle that leads it to the model, and the subagent `planner`.
fn place(name: &str, program: &Path, url: (&str, &str), credential: &str, options: &[&str]) -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora")).program(name, program);
    let (endpoint, secret) = (format!("{}={}", url.0, url.1), format!("{credential}=env:KEY"));
    let register = ["env", "register", "--name", "default", "--value", &endpoint, "--secret", &secret];
    assert_eq!(run(cli.command(&register).env("KEY", KEY)).code, Some(0));
    let prompts = ["--system-prompt", "You are the planner.", "--prompt-template", "Task: {{task}}"];
    cli.run(&[&["subagent", "register", "--name", "planner"], &prompts[..], options].concat()).success();
    git(&cli, &["init", "--quiet"]);
    cli.write("README.md", "a project\n");
    git(&cli, &["add", "."]);
    git(
        &cli,
        &["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "-m", "first"],
    );
    cli
}

fn git(cli: &Cli, words: &[&str]) -> String {
    let mut git = command("git");
    run(git.args(words).current_dir(cli.work()).env("HOME", cli.work())).success()
}

fn dispatch(cli: &Cli) -> Value {
    let task = ["--prompt", "choose a database", "--workspace", ".", "--pause-ok", "--json"];
    cli.run(&[&["dispatch", "run", "--subagent", "planner"], &task[..]].concat()).json()
}

/// Leaves a program as a person does: with Ctrl-C, and again where it wants that.
fn leave(terminal: &mut Terminal) {
    terminal.forget();
    terminal.press("\x03");
    while terminal.read_until_shown(&["finished in", "Resume this session", "Shutting down", "again to"]) == 3
    {
        terminal.forget();
        terminal.press("\x03");
    }
}

#[test]
fn claude_is_taken_over_in_the_conversation_in_which_it_asked() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let question = json!({"questions": [{"question": "Which database?", "header": "Database", "multiSelect": false, "options": [
        {"label": "sqlite", "description": "one file"}, {"label": "postgres", "description": "a server"}]}]});
    let model = Model::start(vec![
        Turn::tool("AskUserQuestion", question),
        Turn::write_file("/workspace/choice.txt", "sqlite\n"),
        Turn::text("It is written."),
        Turn::shell("echo more >> choice.txt"),
        Turn::text("All done."),
    ]);
    let cli = place("claude", &claude, ("ANTHROPIC_BASE_URL", &model.url()), "ANTHROPIC_API_KEY", &[]);
    let first = dispatch(&cli);
    assert_eq!(first["needsInput"]["question"], "Which database?");

    let mut terminal = take_over(&cli, &[]);
    terminal.read_until_shown(&["manual mode on"]);
    terminal.type_text("take the small one");
    terminal.read_until_shown(&["take the small one"]);
    terminal.press("\r");
    // It asks whoever sits there before it writes.
    terminal.read_until_shown(&["Do you want to create"]);
    terminal.press_until_shown("\r", "It is written.");
    leave(&mut terminal);
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");

    let story = thread(&cli);
    assert_eq!((story["state"].as_str(), questions(&story)), (Some("finished"), vec!["cancelled"]));
    let taken = &story["dispatches"][1];
    assert!(taken["person"].as_str().unwrap().starts_with("user:"));
    assert_eq!((&taken["resumedWith"]["session"], &taken["auth"]), (&json!(true), &json!("api-key")));
    assert_eq!(
        taken["usage"]["models"][0]["inputTokens"], 200,
        "what the person used is counted: {}",
        taken["usage"]
    );
    let reference = taken["patch"]["gitRef"].as_str().unwrap();
    assert_eq!(git(&cli, &["show", &format!("{reference}:choice.txt")]), "sqlite\n");
    let asked = &model.requests()[1];
    assert!(
        asked.holds("Task: choose a database") && asked.holds("Which database?"),
        "it is the same conversation"
    );
    assert!(asked.holds("take the small one"));
    assert!(asked.system_text().contains("You are the planner."));
    assert!(asked.system_text().contains("A person has taken this session over"));

    let after = cli.run(&["continue", "@", "and now more", "--json"]).json();
    assert_eq!(
        (after["state"].as_str(), after["output"]["text"].as_str()),
        (Some("finished"), Some("All done."))
    );
    assert_eq!(after["usage"]["models"][0]["inputTokens"], 200, "and counted once");
    assert_eq!(git(&cli, &["show", &format!("{reference}:choice.txt")]), "sqlite\nmore\n");
    let last = &model.requests()[3];
    assert!(last.holds("take the small one") && last.holds("and now more"), "and so is this");
    assert!(!last.system_text().contains("A person has taken this session over"));
    let kept = files_below(&cli.agora_home());
    let leaked = kept
        .iter()
        .find(|(_, bytes)| bytes.windows(20).any(|seen| seen == &KEY.as_bytes()[KEY.len() - 20..]));
    assert_eq!(leaked.map(|(path, _)| path), None, "the key is nowhere");
}

#[test]
fn claude_that_is_left_without_a_word_still_has_its_question() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let question = json!({"questions": [{"question": "Which database?", "header": "Database", "multiSelect": false, "options": [
        {"label": "sqlite", "description": "one file"}, {"label": "postgres", "description": "a server"}]}]});
    let model = Model::start(vec![Turn::tool("AskUserQuestion", question), Turn::text("All done.")]);
    let cli = place("claude", &claude, ("ANTHROPIC_BASE_URL", &model.url()), "ANTHROPIC_API_KEY", &[]);
    dispatch(&cli);
    let mut terminal = take_over(&cli, &[]);
    terminal.read_until_shown(&["manual mode on"]);
    leave(&mut terminal);
    assert_eq!(terminal.finish().1, Some(0));
    let after = cli.run(&["continue", "@", "take sqlite", "--json"]).json();
    assert_eq!(
        (after["state"].as_str(), after["output"]["text"].as_str()),
        (Some("finished"), Some("All done.")),
        "{after}"
    );
    assert!(model.requests()[1].holds("take sqlite"));
}

#[test]
fn codex_is_taken_over_in_its_conversation() {
    let Some(codex) = part::find("AGORA_TEST_CODEX") else { return };
    let model = Model::start_with(|request| {
        if request.holds("and now more") {
            Turn::text("All done.")
        } else if request.holds("take the small one") {
            Turn::text("Small it is.")
        } else {
            Turn::text("Looked around.")
        }
    });
    let url = format!("{}/v1", model.url());
    let options = ["--runtime", "codex", "--model", "gpt-5-codex"];
    let cli = place("codex", &codex, ("OPENAI_BASE_URL", &url), "OPENAI_API_KEY", &options);
    assert_eq!(dispatch(&cli)["output"]["text"], "Looked around.");

    let mut terminal = take_over(&cli, &[]);
    // The line below what was said comes when keys are heard.
    terminal.read_until_shown(&["gpt-5-codex default"]);
    terminal.forget();
    terminal.type_text("take the small one");
    terminal.read_until_shown(&["take the small one"]);
    terminal.press("\r");
    // While it works, it asks what is to become of that.
    terminal.read_until_shown(&["Small it is. Worked for"]);
    leave(&mut terminal);
    let (seen, code) = terminal.finish();
    assert_eq!(code, Some(0), "{seen}");
    let asked = model.requests().into_iter().find(|request| request.holds("take the small one")).unwrap();
    assert!(asked.holds("Task: choose a database") && asked.holds("Looked around."), "the same conversation");
    let after = cli.run(&["continue", "@", "and now more", "--json"]).json();
    assert_eq!(
        (after["state"].as_str(), after["output"]["text"].as_str()),
        (Some("finished"), Some("All done."))
    );
    let last = model.requests().into_iter().rfind(|request| request.holds("and now more")).unwrap();
    assert!(last.holds("take the small one") && last.holds("Small it is."));
}
