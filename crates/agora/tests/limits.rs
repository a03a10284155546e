//! Questions at the edges of what is valid, from the file that an agent writes to the answer it goes on with. Each command is a
//! process of its own, so that everything is read back from what was recorded.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use agora_testkit::cli::Cli;
use serde_json::{Value, json};

/// Asks by the file, or by what it prints, and says what it goes on with.
const ASKER: &str = r#"if [ -f .agora/resume.json ]; then tr -d ' \n' < .agora/resume.json; exit; fi
if [ -f say.txt ]; then cat say.txt; else cp ask.json .agora/needs_input.json; fi"#;

fn cli() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let register = ["subagent", "register", "--name", "asker", "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", ASKER]].concat()).success();
    cli
}

/// Lets a thread ask what stands in a file of its workspace. Its ids are made of the name.
fn pause(cli: &Cli, name: &str, file: &str, content: &str) {
    cli.write(&format!("{name}/{file}"), content);
    let id = format!("d_{name}");
    let call = ["dispatch", "run", "--subagent", "asker", "--dispatch-id", &id, "--label", name];
    cli.run(&[&call[..], &["--workspace", name, "--pause-ok"]].concat()).success();
}

fn open_questions(cli: &Cli) -> Vec<String> {
    let inbox = cli.run(&["inbox", "--json"]).json();
    inbox.as_array().unwrap().iter().map(|open| open["questionId"].as_str().unwrap().to_owned()).collect()
}

/// Answers a question, and returns what the agent said that went on.
fn answered(cli: &Cli, name: &str, value: &str) -> String {
    cli.run(&["answer", &format!("q_{name}"), value, "--follow"]).success()
}

#[test]
fn the_deepest_state_comes_back_to_the_agent_that_asked() {
    let cli = cli();
    let state = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    pause(&cli, "file", "ask.json", &format!(r#"{{"question":"By file?","partial_state":{state}}}"#));
    // Beside the file's name, the state stands one level deeper than it was written.
    let printed = format!(r#"{{"question":"By output?","stateFile":"notes.md","partial_state":{state}}}"#);
    pause(&cli, "output", "say.txt", &format!("AWAITING_USER_INPUT {printed}"));
    assert_eq!(open_questions(&cli), ["q_file", "q_output"]);
    for name in ["file", "output"] {
        assert!(cli.run(&["thread", "show", name, "--json"]).success().contains(&state), "{name}");
        assert!(answered(&cli, name, "yes").contains(&state), "{name}");
    }
    for command in [&["ls"][..], &["status"], &["gc"], &["dispatch", "watch", "file"]] {
        cli.run(command).success();
    }
    assert!(open_questions(&cli).is_empty());
}

#[test]
fn a_question_of_a_whole_mebibyte_is_asked_and_answered() {
    let cli = cli();
    let asked = json!({"question": "All of it?", "options": ["yes", "no"], "context": ""}).to_string();
    let context = "x".repeat((1 << 20) - asked.len());
    let asked = asked.replace(r#""context":"""#, &format!(r#""context":"{context}""#));
    assert_eq!(asked.len(), 1 << 20);
    pause(&cli, "large", "ask.json", &asked);
    let inbox = cli.run(&["inbox", "--json"]).json();
    assert_eq!(inbox[0]["context"], Value::String(context));
    assert!(answered(&cli, "large", "yes").contains(r#""answer":"yes""#));
}

#[test]
fn as_many_items_and_options_as_there_may_be_are_asked_and_answered_and_no_more() {
    let cli = cli();
    let options: Vec<String> = (0..1000).map(|number| format!("option {number}")).collect();
    let asked = json!({"question": "Which?", "options": options, "multiSelect": true});
    pause(&cli, "options", "ask.json", &asked.to_string());
    let said = answered(&cli, "options", &options.join(","));
    assert!(said.contains("option0") && said.contains("option999"), "{said}");

    let items: Vec<Value> =
        (0..100).map(|number| json!({"id": format!("i{number}"), "question": "?"})).collect();
    pause(&cli, "items", "ask.json", &json!({"questions": items}).to_string());
    let replies: serde_json::Map<String, Value> =
        (0..100).map(|number| (format!("i{number}"), "x".into())).collect();
    cli.run(&["answer", "q_items", "--answers", &Value::Object(replies).to_string(), "--follow"]).success();

    let many: Vec<String> = (0..100_000).map(|number| format!("{number:x}")).collect();
    let many = json!({"question": "Which?", "options": many}).to_string();
    assert!(many.len() < 1 << 20, "it is not refused for its size");
    cli.write("many/ask.json", many);
    let run = cli.run(&["dispatch", "run", "--subagent", "asker", "--workspace", "many", "--json"]);
    let failed: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(failed["failure"]["code"], "sentinel-malformed");
}

/// What nobody can read is shown as that, keeps nobody from the rest, and can be got rid of.
#[test]
fn a_thread_that_cannot_be_read_is_named_and_given_up() {
    let cli = cli();
    pause(&cli, "broken", "ask.json", r#"{"question": "Lost?"}"#);
    pause(&cli, "whole", "ask.json", r#"{"question": "Which?", "options": ["a", "b"]}"#);
    let ledger = rusqlite::Connection::open(cli.agora_home().join("ledger.sqlite")).unwrap();
    let spoiled = "UPDATE entries SET body = CAST('{' AS BLOB) WHERE seq = 3 AND thread =
                   (SELECT thread FROM dispatches WHERE dispatch = 'd_broken')";
    assert_eq!(ledger.execute(spoiled, []).unwrap(), 1);
    drop(ledger);

    let inbox = cli.run(&["inbox", "--list"]);
    assert!(inbox.stdout.contains("q_whole") && !inbox.stdout.contains("q_broken"), "{}", inbox.stdout);
    assert!(inbox.stderr.contains("is damaged: entry 3:"), "{}", inbox.stderr);
    assert!(inbox.stderr.contains("hint: `agora cancel t_"), "{}", inbox.stderr);
    let states: Vec<Value> = cli.run(&["ls", "--json"]).json().as_array().unwrap().clone();
    let states: Vec<&str> = states.iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["needs_input", "damaged"]);
    let threads = cli.run(&["thread", "list", "--json"]).json();
    assert_eq!((&threads[0]["state"], &threads[1]["state"]), (&"waiting".into(), &"damaged".into()));
    assert_eq!(threads[1]["dispatchId"], "d_broken");
    for command in [&["status"][..], &["thread", "list"], &["gc"]] {
        cli.run(command).success();
    }
    assert!(cli.run(&["show", "broken"]).failure(3).contains("`agora cancel t_"));
    let doctor = || {
        let findings: Value = serde_json::from_str(&cli.run(&["doctor", "--json"]).stdout).unwrap();
        let finding = findings.as_array().unwrap().iter().find(|finding| finding["topic"] == "ledger");
        finding.unwrap()["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(doctor(), "broken");
    // The only question that can be read is meant.
    cli.run(&["answer", "a", "--follow"]).success();

    let given_up = cli.run(&["cancel", "broken", "--json"]).json();
    assert_eq!(given_up["state"], "damaged");
    let kept = std::fs::read_to_string(given_up["kept"].as_str().unwrap()).unwrap();
    assert!(kept.lines().count() > 3 && kept.contains("dispatch.accepted"), "{kept}");
    assert_eq!(doctor(), "ok");
    let inbox = cli.run(&["inbox", "--list"]);
    assert!(
        inbox.stderr.contains("no question is open") && !inbox.stderr.contains("damaged"),
        "{}",
        inbox.stderr
    );
}
