//! `agora run`: what comes with agora, who goes first, one input and many.

use std::fs;

use agora_testkit::cli::{Cli, Ran, run};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;
use agora_testkit::terminal::Terminal;
use serde_json::{Value, json};

fn cli() -> Cli {
    Cli::new(env!("CARGO_BIN_EXE_agora"))
}

/// A place where programs of the agents' names do nothing: enough for what is decided before one starts.
fn installed(names: &[&str]) -> Cli {
    names.iter().fold(cli(), |cli, name| cli.program(name, "/bin/true".as_ref()))
}

fn with(cli: &Cli, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    run(cli.command(arguments).envs(variables.iter().copied()))
}

/// A subagent that is a shell script, with the task in its input.
fn script(cli: &Cli, name: &str, script: &str) {
    let command = ["--runtime", "command", "--", "sh", "-c", script];
    cli.run(&[&["subagent", "register", "--name", name], &command[..]].concat()).success();
}

#[test]
fn the_real_claude_does_it_and_is_recorded_by_its_hash() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let model = Model::start_with(|_| Turn::text("Mended."));
    let cli = cli().program("claude", &claude);
    let url = model.url();
    let around = [("ANTHROPIC_API_KEY", "sk-of-the-environment"), ("ANTHROPIC_BASE_URL", url.as_str())];
    let ran = with(&cli, &["run", "mend the test"], &around);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Mended.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("claude does it, with the api-key of this environment\n"), "{}", ran.stderr);
    let told = with(&cli, &["run", "mend the test", "--json"], &around).json();
    let shown = cli.run(&["show", "@", "--json"]).json();
    assert_eq!(told["resolved"], shown["resolved"]);
    assert_eq!(told["resolved"]["subagent"]["name"], "claude");
    let sent = serde_json::to_string(&model.requests().last().unwrap().body).unwrap();
    assert!(sent.contains("mend the test") && sent.contains("You work alone on a copy"), "{sent}");
    assert_eq!(cli.run(&["subagent", "list", "--json"]).json(), json!([]), "it is in nobody's way");
}

#[test]
fn the_real_codex_does_it_when_it_is_the_only_one() {
    let Some(codex) = part::find("AGORA_TEST_CODEX") else { return };
    let model = Model::start_with(|_| Turn::text("Mended."));
    let cli = cli().program("codex", &codex);
    let url = format!("{}/v1", model.url());
    let around = [("OPENAI_API_KEY", "sk-of-the-environment"), ("OPENAI_BASE_URL", url.as_str())];
    let ran = with(&cli, &["run", "mend the test"], &around);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Mended.\n"), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("codex does it, with the api-key of this environment\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_somebody_registered_goes_before_what_is_built_in() {
    let cli = cli();
    let said = cli.run(&["explain", "claude"]).success();
    assert!(said.contains("You work alone on a copy"), "{said}");
    let built_in = cli.run(&["explain", "claude", "--json"]).json()["subagent"]["contentHash"].clone();
    script(&cli, "claude", "echo mine");
    let ran = cli.run(&["run", "--agent", "claude", "x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "mine\n"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("`claude` is the subagent that you registered, not the built-in one\n"),
        "{}",
        ran.stderr
    );
    // The one that comes with agora is still there, by its hash.
    let pinned = format!("claude@{}", built_in.as_str().unwrap());
    assert!(cli.run(&["explain", &pinned]).success().contains("You work alone on a copy"));
}

#[test]
fn a_task_comes_from_the_argument_or_from_standard_input() {
    let cli = cli();
    script(&cli, "echo", "cat");
    let ran = cli.run_with_input(&["run", "--agent", "echo", "-"], "from a file\n");
    assert!(ran.stdout.contains("from a file"), "{ran:?}");
    let ran = cli.run_with_input(&["run", "--agent", "echo"], "piped\n");
    assert!(ran.stdout.contains("piped"), "{ran:?}");
    let said = cli.run(&["run", "--agent", "echo"]).failure(2);
    insta::assert_snapshot!(said, @r"
    error: there is nothing to do: the task is missing
    hint: such as `agora run 'fix the flaky test'`
    hint: or from a file: `agora run - < task.md`
    ");
    let long = "x".repeat(1024 * 1024 + 1);
    let said = cli.run_with_input(&["run", "--agent", "echo", "-"], &long).failure(2);
    assert!(said.contains("more than 1048576 bytes"), "{said}");
    assert_eq!(cli.run(&["ls", "--json"]).json().as_array().unwrap().len(), 2, "nothing else was accepted");
}

#[test]
fn what_ran_can_be_saved_under_a_name() {
    let cli = cli();
    script(&cli, "echo", "echo $0 saved");
    let ran = cli.run(&["run", "--agent", "echo", "x", "--save", "mine", "--json"]);
    let told = ran.json();
    assert_eq!(told["resolved"]["subagent"]["name"], "mine");
    let ran = cli.run(&["run", "--agent", "mine", "x", "--save", "mine"]);
    let reference = format!("mine@{}", told["resolved"]["subagent"]["contentHash"].as_str().unwrap());
    assert!(ran.stderr.contains(&format!("saved as {reference}\n")), "{}", ran.stderr);
    // With all that this run said instead.
    for name in ["one", "two"] {
        cli.write(&format!("{name}/file"), name);
        cli.run(&["capability", "register", "--name", name, "--from", name]).success();
    }
    cli.run(&["subagent", "assign", "echo", "--capabilities", "one"]).success();
    let said = ["--add-capability", "two", "--budget", "{\"turns\": 3}", "--model", "fast"];
    let words = ["run", "--agent", "echo", "x", "--save", "other", "--json"];
    let ran = cli.run(&[&words[..], &said].concat()).json();
    let names = |bundles: &Value| -> Vec<String> {
        bundles.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&ran["resolved"]["capabilities"]), ["one", "two"]);
    let saved = cli.run(&["subagent", "get", "other", "--json"]).json();
    assert_eq!(saved["contentHash"], ran["resolved"]["subagent"]["contentHash"]);
    assert_eq!(
        (&saved["capabilities"], &saved["budget"], &saved["model"]),
        (&json!(["one", "two"]), &json!({"onLimit": "ask", "turns": 3}), &json!("fast"))
    );
    let instead = [
        "run",
        "--agent",
        "other",
        "x",
        "--save",
        "third",
        "--capability",
        "two",
        "--budget",
        "{\"usd\": 1}",
    ];
    cli.run(&instead).success();
    let saved = cli.run(&["subagent", "get", "third", "--json"]).json();
    assert_eq!((&saved["capabilities"], &saved["budget"]["usd"]), (&json!(["two"]), &json!(1.0)));
    // What is not accepted is not saved.
    let cli = installed(&["claude"]);
    let _ = cli.run(&["run", "x", "--agent", "claude", "--save", "mine"]).failure(3);
    assert_eq!(cli.run(&["subagent", "list", "--json"]).json(), json!([]));
}

#[test]
fn many_lines_run_each_for_itself() {
    let cli = cli();
    // Reads its own input: a task that says so fails, or asks.
    script(
        &cli,
        "worker",
        "read line; case $line in *fail*) exit 3;; *ask*) mkdir -p .agora; echo '{\"question\": \"Which?\"}' > .agora/needs_input.json;; *) echo \"did $line\";; esac",
    );
    let each = |lines: &str, more: &[&str]| {
        cli.write("tasks.jsonl", lines);
        cli.run(&[&["run", "--agent", "worker", "--each", "tasks.jsonl", "--jobs", "3"], more].concat())
    };
    let good: String = (0..6).map(|number| format!("{{\"task\": \"number {number}\"}}\n\n")).collect();
    let told = each(&good, &["--json"]).json();
    let said: Vec<&str> =
        told.as_array().unwrap().iter().map(|one| one["output"]["text"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..6).map(|number| format!("did number {number}")).collect();
    assert!(said.iter().zip(&expected).all(|(said, expected)| said.trim() == expected), "{said:?}");

    let ran = each("{\"task\": \"a\"}\n{\"task\": \"fail\"}\n{\"task\": \"ask\"}\n{\"task\": \"b\"}\n", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let shown = cli.steady(&ran.stdout);
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["LINE", "DISPATCH", "STATE", "SAYS"]);
    assert_eq!(
        rows[1..].iter().map(|row| (row[0], row[2])).collect::<Vec<_>>(),
        [("1", "finished"), ("2", "failed"), ("3", "needs_input"), ("4", "finished")]
    );
    assert!(ran.stderr.contains("2 finished, 1 failed, 1 paused with a question\n"), "{}", ran.stderr);
    assert_eq!(each("{\"task\": \"ask\"}\n", &[]).code, Some(4));
    assert_eq!(each("{\"task\": \"ask\"}\n", &["--pause-ok"]).code, Some(0));
}

#[test]
fn wrong_lines_are_named_before_anything_is_accepted() {
    let cli = cli();
    script(&cli, "worker", "true");
    cli.write(
        "tasks.jsonl",
        "\u{feff}{\"task\": \"a\"}\nnot json\n{\"task\": 1}\n[1]\n{\"task\": \"a\", \"task\": \"b\"}\n",
    );
    let run = ["run", "--agent", "worker", "--each", "tasks.jsonl"];
    insta::assert_snapshot!(cli.run(&run).failure(2), @r#"
    error: 4 lines cannot be used; nothing was accepted
      because line 2: it is not JSON: column 2
      because line 3: `task` is not a text
      because line 4: it is not a JSON object
      because line 5: an object has a key twice: column 20
    hint: each line is a JSON object, the input: `{"task": "…"}`
    "#);
    cli.write("tasks.jsonl", "\n\n");
    assert!(cli.run(&run).failure(2).contains("no line that says anything"));
    assert!(
        cli.run(&["run", "--each", "no-such-file", "--agent", "worker"])
            .failure(2)
            .contains("cannot be read")
    );
    let said = cli.run(&[&run[..], &["--detach"]].concat()).failure(2);
    assert!(said.contains("`--detach` is for one dispatch"), "{said}");
    // An input that the subagent does not take is a wrong line too.
    let template = ["--system-prompt", "You plan.", "--prompt-template", "Do {{task}}"];
    cli.run(&[&["subagent", "register", "--name", "planner"], &template[..]].concat()).success();
    cli.write("tasks.jsonl", "{\"task\": \"a\"}\n{\"other\": 1}\n");
    let key = [("ANTHROPIC_API_KEY", "sk-0123456789")];
    let said = with(&cli, &["run", "--agent", "planner", "--each", "tasks.jsonl"], &key).failure(2);
    assert!(said.contains("because line 2: "), "{said}");
    assert_eq!(cli.run(&["ls", "--json"]).json(), json!([]));
}

#[test]
fn the_same_file_goes_on_where_it_stopped() {
    let cli = cli();
    let marks = cli.share("marks", "");
    // Fails the first time that it sees a task with `once`.
    let body = format!(
        "read line; echo x >> \"{0}/$line\"; case $line in *once*) [ $(wc -l < \"{0}/$line\") -gt 1 ] || exit 3;; esac; echo ok",
        marks.display()
    );
    script(&cli, "worker", &body);
    cli.write("tasks.jsonl", "{\"task\": \"a\"}\n{\"task\": \"once\"}\n{\"task\": \"c\"}\n");
    let run = ["run", "--agent", "worker", "--each", "tasks.jsonl", "--resume-key", "night", "--json"];
    let states = |ran: &Ran| -> Vec<Value> {
        let told: Value = serde_json::from_str(&ran.stdout).unwrap();
        told.as_array().unwrap().iter().map(|one| one["state"].clone()).collect()
    };
    let first = cli.run(&run);
    assert_eq!(
        (first.code, states(&first)),
        (Some(1), vec!["finished".into(), "failed".into(), "finished".into()])
    );
    cli.write(
        "tasks.jsonl",
        "{\"task\": \"a\"}\n{\"task\": \"once\"}\n{\"task\": \"c\"}\n{\"task\": \"d\"}\n",
    );
    let second = cli.run(&run);
    assert_eq!((second.code, states(&second)), (Some(0), vec![Value::from("finished"); 4]));
    let runs = |task: &str| fs::read_to_string(marks.join(task)).unwrap().lines().count();
    assert_eq!(["a", "once", "c", "d"].map(runs), [1, 2, 1, 1]);
    // Another task in the same place is not the one that ran.
    cli.write("tasks.jsonl", "{\"task\": \"other\"}\n");
    let third = cli.run(&run);
    assert!(third.stdout.contains("idempotency-key-reused"), "{}", third.stdout);
}

#[test]
fn ctrl_c_cancels_all_and_leaves_the_rest_alone() {
    let cli = cli();
    let began = cli.share("began", "max_concurrent = 3\n");
    script(&cli, "worker", &format!("read line; touch \"{}/$line\"; exec sleep 600", began.display()));
    let lines: String = (0..50).map(|number| format!("{{\"task\": \"n{number}\"}}\n")).collect();
    cli.write("tasks.jsonl", lines);
    let mut command = cli.command(&["run", "--agent", "worker", "--each", "tasks.jsonl", "--jobs", "3"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command, 100);
    terminal.read_until("0 of 50: 0 finished, 3 running");
    while fs::read_dir(&began).unwrap().count() < 3 {
        std::thread::yield_now();
    }
    terminal.interrupt();
    let (shown, code) = terminal.finish();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("0 finished, 3 cancelled\r\n47 lines not begun\r\n"), "{shown}");
    let told = cli.run(&["ls", "--json"]).json();
    assert!(told.as_array().unwrap().iter().all(|one| one["state"] == "cancelled"), "{told}");
}
