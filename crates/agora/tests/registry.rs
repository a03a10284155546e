//! Registering and finding, through the built command.
#![expect(clippy::disallowed_methods, reason = "a test starts what it looks at")]

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use agora_testkit::cli::{Cli, run};
use agora_testkit::part;
use serde_json::{Value, json};

fn cli() -> Cli {
    Cli::new(env!("CARGO_BIN_EXE_agora"))
}

fn register(cli: &Cli, content: &str) -> Value {
    cli.write("cap/NOTES.md", content);
    cli.run(&["capability", "register", "--name", "notes", "--from", "cap", "--json"]).json()
}

#[test]
fn older_content_again_is_a_new_version_and_references_find_the_right_one() {
    let cli = cli();
    let first = register(&cli, "first");
    let second = register(&cli, "second");
    let third = register(&cli, "first");
    let again = register(&cli, "first");
    assert_eq!(
        [&first["change"], &second["change"], &third["change"], &again["change"]],
        ["new", "changed", "changed", "unchanged"]
    );
    assert_eq!(third["contentHash"], first["contentHash"]);

    let versions = cli.run(&["capabilities", "versions", "notes", "--json"]).json();
    let numbers: Vec<u64> =
        versions.as_array().unwrap().iter().map(|version| version["version"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [3, 2, 1], "newest first");
    let latest = cli.run(&["capability", "get", "notes", "--json"]).json();
    assert_eq!(latest["contentHash"], first["contentHash"], "the latest is the first content");

    let short = &second["contentHash"].as_str().unwrap()[.."sha256:".len() + 12];
    let by_hash = cli.run(&["capability", "get", &format!("notes@{short}"), "--json"]).json();
    assert_eq!(by_hash["version"], 2);
    let by_time = |version: &Value| {
        let reference = format!("notes@{}", version["registeredAt"].as_str().unwrap());
        cli.run(&["capability", "get", &reference, "--json"]).json()["contentHash"].clone()
    };
    assert_eq!(by_time(&second), second["contentHash"]);
    assert_eq!(by_time(&third), first["contentHash"]);
}

#[test]
fn eight_processes_with_fifty_versions_each_lose_none() {
    let cli = cli();
    for process in 0..8 {
        for turn in 0..50 {
            cli.write(&format!("{process}/{turn}/file"), format!("{process} {turn}"));
        }
    }
    thread::scope(|scope| {
        for process in 0..8 {
            let cli = &cli;
            scope.spawn(move || {
                for turn in 0..50 {
                    let from = format!("{process}/{turn}");
                    cli.run(&["capability", "register", "--name", "busy", "--from", &from]).success();
                }
            });
        }
    });
    let versions = cli.run(&["capability", "versions", "busy", "--json"]).json();
    let versions = versions.as_array().unwrap();
    let numbers: Vec<u64> =
        versions.iter().rev().map(|version| version["version"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=400).collect::<Vec<_>>());
    let mut hashes: Vec<&str> =
        versions.iter().map(|version| version["contentHash"].as_str().unwrap()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 400, "every content is there");
    let mut times: Vec<&str> =
        versions.iter().rev().map(|version| version["registeredAt"].as_str().unwrap()).collect();
    let sorted = times.clone();
    times.sort_unstable();
    assert_eq!(times, sorted, "times never run backwards");
}

#[test]
fn a_process_killed_at_any_moment_leaves_the_old_or_the_new_state() {
    let cli = cli();
    let register = |content: &str| {
        cli.write("cap/file", content);
        cli.command(&["capability", "register", "--name", "k", "--from", "cap"])
    };
    run(&mut register("first")).success();
    let rounds = if part::full() { 300 } else { 40 };
    let (mut known, mut before, mut after) = (1, 0, 0);
    // The kill feels its way to the moment at which the version comes to exist, and then falls around it, whatever else
    // the machine is doing: too early, and the next one comes later; too late, and it comes earlier.
    let mut delay = Duration::from_millis(1);
    for round in 0..rounds {
        let mut child =
            register(&format!("{round}")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while begun.elapsed() < delay {
            std::hint::spin_loop();
        }
        let _ = child.kill();
        child.wait().unwrap();
        let count = cli.run(&["capability", "versions", "k", "--json"]).json().as_array().unwrap().len();
        match count - known {
            0 => (before, delay) = (before + 1, delay.mul_f64(1.3)),
            1 => (after, delay) = (after + 1, delay.mul_f64(0.8)),
            more => panic!("{more} versions came of one registration"),
        }
        known = count;
        cli.run(&["capability", "get", "k"]).success();
    }
    assert!(before > 0 && after > 0, "the kills fell on both sides: {before} before, {after} after");
    run(&mut register("at last")).success();
}

#[test]
fn what_a_subagent_and_an_env_hold_comes_back() {
    let cli = cli();
    register(&cli, "x");
    cli.write(
        "planner.yaml",
        "description: plans\nsystemPrompt: You plan.\npromptTemplate: 'Plan {{task}}'\nmodel: max\ncapabilities: [notes]\n\
         verify: {command: cargo test}\nbudget: {usd: 2.5}\ninputs: {type: object, required: [task]}\n",
    );
    cli.run(&["subagent", "register", "--name", "planner", "--from", "planner.yaml"]).success();
    let mut shown = cli.run(&["subagent", "get", "planner", "--json"]).json();
    for key in ["contentHash", "registeredAt"] {
        assert!(shown.as_object_mut().unwrap().remove(key).is_some());
    }
    assert_eq!(
        shown,
        json!({
            "name": "planner", "version": 1, "description": "plans", "systemPrompt": "You plan.",
            "promptTemplate": "Plan {{task}}", "model": "max", "runtime": "claude-code", "capabilities": ["notes"],
            "verify": {"command": "cargo test", "timeoutSeconds": 600}, "ask": "when-blocked",
            "budget": {"usd": 2.5, "onLimit": "ask"}, "inputs": {"type": "object", "required": ["task"]}
        })
    );
    let assigned = cli.run(&["subagent", "assign", "planner", "--capabilities", "", "--json"]).json();
    assert_eq!(assigned["version"], 2);
    assert_eq!(cli.run(&["subagents", "get", "planner", "--json"]).json()["capabilities"], json!([]));

    let command =
        ["subagent", "register", "--name", "lint", "--runtime", "command", "--", "./lint.sh", "--strict"];
    cli.run(&command).success();
    assert_eq!(
        cli.run(&["subagent", "get", "lint", "--json"]).json()["command"],
        json!(["./lint.sh", "--strict"])
    );

    cli.run(&["env", "register", "--name", "e", "--value", "A=b=c", "--secret", "K=cmd:op read op://x"])
        .success();
    let env = cli.run(&["envs", "get", "e", "--json"]).json();
    assert_eq!(
        (&env["values"], &env["secrets"]),
        (&json!({"A": "b=c"}), &json!({"K": "cmd:op read op://x"}))
    );
}

#[test]
fn namespaces_are_apart() {
    let cli = cli();
    register(&cli, "x");
    assert_eq!(cli.run(&["capability", "list", "--json", "--namespace", "team"]).json(), json!([]));
    let mut command = cli.command(&["capability", "get", "notes"]);
    let said = run(command.env("AGORA_NAMESPACE", "team")).failure(2);
    assert!(said.contains("there is no capability named `notes`"), "{said}");
}

#[test]
fn reading_makes_nothing_and_a_closed_pipe_is_no_failure() {
    let cli = cli();
    assert_eq!(cli.run(&["capability", "list", "--json"]).json(), json!([]));
    assert!(!cli.agora_home().exists(), "looking changes nothing");
    register(&cli, "x");
    let mut child = cli.command(&["capability", "list"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success(), "a reader that goes away has seen enough");
}
