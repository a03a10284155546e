//! The real Claude Code and the real Codex through the built command, as a person runs them, against a scripted model.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::path::Path;

use agora_core::time::Clock;
use agora_engine::SystemClock;
use agora_testkit::cli::{Cli, Ran, run, steady_json};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;
use serde_json::{Map, Value, json};

/// What a key looks like that nobody refuses for its form.
const KEY: &str = "sk-test-0123456789";

/// A place with a real program in it, an env bundle `default` that leads it to the model, and the subagent `planner`.
fn place(name: &str, program: &Path, url: (&str, &str), credential: &str, options: &[&str]) -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora")).program(name, program);
    let (endpoint, secret) = (format!("{}={}", url.0, url.1), format!("{credential}=env:KEY"));
    let register = ["env", "register", "--name", "default", "--value", &endpoint, "--secret", &secret];
    assert_eq!(run(cli.command(&register).env("KEY", KEY)).code, Some(0));
    let prompts = ["--system-prompt", "You are the planner.", "--prompt-template", "Task: {{task}}"];
    let register = [&["subagent", "register", "--name", "planner"], &prompts[..], options].concat();
    cli.run(&register).success();
    cli
}

fn with_claude(model: &Model) -> Option<Cli> {
    let claude = part::find("AGORA_TEST_CLAUDE")?;
    Some(place("claude", &claude, ("ANTHROPIC_BASE_URL", &model.url()), "ANTHROPIC_API_KEY", &[]))
}

const DISPATCH: [&str; 6] = ["dispatch", "run", "--subagent", "planner", "--prompt", "choose a database"];

fn dispatch(cli: &Cli, more: &[&str]) -> Ran {
    cli.run(&[&DISPATCH[..], more].concat())
}

/// Takes the event stream out of a result, and makes both the same in every run.
fn stream_and_rest(cli: &Cli, result: &Value) -> (String, String) {
    let mut rest = steady_json(result);
    let text = result["stdout"].as_str().unwrap();
    let lines = text.lines().map(|line| steady_json(&serde_json::from_str(line).unwrap()).to_string() + "\n");
    rest["stdout"] = json!("[STREAM]");
    // Codex does not like a home below `/tmp`, where this test's is.
    let lines = lines.map(|line| {
        match line.split_once("WARNING: proceeding, even though we could not create PATH") {
            Some((before, after)) => format!("{before}{}", &after[after.find("\\n").unwrap() + 2..]),
            None => line,
        }
    });
    (cli.steady(&lines.collect::<String>()), cli.steady(&serde_json::to_string_pretty(&rest).unwrap()))
}

/// Says what a command said, on both of its streams.
fn screen(cli: &Cli, ran: &Ran) -> String {
    let (stdout, stderr) = (cli.steady(&ran.stdout), cli.steady(&ran.stderr));
    format!("{stdout}--- stderr, code {}\n{}", ran.code.unwrap(), stderr)
}

#[test]
fn claude_tells_its_events_and_its_result() {
    let model = Model::start(vec![Turn::shell("echo hello > made.txt"), Turn::text("All done.")]);
    let Some(cli) = with_claude(&model) else { return };
    let ran = dispatch(&cli, &["--label", "db", "--json"]);
    assert_eq!(ran.stderr, "");
    let result = ran.json();
    let (stream, rest) = stream_and_rest(&cli, &result);
    insta::assert_snapshot!(stream, @r#"
    {"at":"[TIME]","dispatchId":"d_[ID]","kind":"worker.boot","seq":1}
    {"at":"[TIME]","dispatchId":"d_[ID]","hmac":"[HMAC]","kind":"dispatch.started","seq":2}
    {"at":"[TIME]","durationMs":"[SPAN]","exitCode":0,"kind":"runtime.adapter.ran","seq":3,"stderr":"","stdout":"All done."}
    {"at":"[TIME]","dispatchId":"d_[ID]","durationMs":"[SPAN]","hmac":"[HMAC]","kind":"dispatch.finished","seq":4}
    "#);
    insta::assert_snapshot!(rest, @r#"
    {
      "acceptedAt": "[TIME]",
      "auth": "api-key",
      "authFrom": "env",
      "dispatchId": "d_[ID]",
      "durationMs": "[SPAN]",
      "endedAt": "[TIME]",
      "exitCode": 0,
      "isolation": "[WALL]",
      "labels": [
        "db"
      ],
      "output": {
        "structured": null,
        "text": "All done."
      },
      "outputs": [],
      "patch": {
        "deletions": 0,
        "files": 1,
        "insertions": 1,
        "ref": "d_[ID]/patch.diff"
      },
      "resolved": {
        "capabilities": [],
        "env": [
          {
            "contentHash": "sha256:[HASH]",
            "name": "default",
            "registeredAt": "[TIME]"
          }
        ],
        "subagent": {
          "contentHash": "sha256:[HASH]",
          "name": "planner",
          "registeredAt": "[TIME]"
        }
      },
      "startedAt": "[TIME]",
      "state": "finished",
      "stderr": "",
      "stdout": "[STREAM]",
      "subagent": "planner",
      "target": "local",
      "threadId": "t_[ID]",
      "usage": {
        "costUsd": 0.0016,
        "durationMs": "[SPAN]",
        "models": [
          {
            "cacheReadTokens": 0,
            "cacheWriteTokens": 0,
            "costUsd": 0.0016,
            "inputTokens": 200,
            "model": "claude-opus-5-5",
            "outputTokens": 40
          }
        ],
        "turns": 2
      },
      "versions": {
        "adapter": "claude-code",
        "agora": "0.1.0",
        "manifest": 1,
        "runtime": "2.1.325"
      },
      "warnings": [],
      "workspaceSaved": true
    }
    "#);
    assert_eq!(cli.run(&["dispatch", "describe", "db", "--json"]).json(), result);
    assert!(model.requests()[0].holds("Task: choose a database"));
    let kept = agora_testkit::cli::files_below(&cli.agora_home());
    let leaked = kept.iter().find(|(_, bytes)| bytes.windows(KEY.len()).any(|seen| seen == KEY.as_bytes()));
    assert_eq!(leaked.map(|(path, _)| path), None, "the key is nowhere");
}

#[test]
fn codex_tells_its_events_and_its_result() {
    let model = Model::start(vec![Turn::shell("echo hello > made.txt"), Turn::text("All done.")]);
    let Some(codex) = part::find("AGORA_TEST_CODEX") else { return };
    let url = format!("{}/v1", model.url());
    let options = ["--runtime", "codex", "--model", "gpt-5-codex"];
    let cli = place("codex", &codex, ("OPENAI_BASE_URL", &url), "OPENAI_API_KEY", &options);
    let ran = dispatch(&cli, &["--json"]);
    assert_eq!(ran.stderr, "");
    let (stream, rest) = stream_and_rest(&cli, &ran.json());
    insta::assert_snapshot!(stream, @r#"
    {"at":"[TIME]","dispatchId":"d_[ID]","kind":"worker.boot","seq":1}
    {"at":"[TIME]","dispatchId":"d_[ID]","hmac":"[HMAC]","kind":"dispatch.started","seq":2}
    {"at":"[TIME]","durationMs":"[SPAN]","exitCode":0,"kind":"runtime.adapter.ran","seq":3,"stderr":"","stdout":"All done."}
    {"at":"[TIME]","dispatchId":"d_[ID]","durationMs":"[SPAN]","hmac":"[HMAC]","kind":"dispatch.finished","seq":4}
    "#);
    insta::assert_snapshot!(rest, @r#"
    {
      "acceptedAt": "[TIME]",
      "auth": "api-key",
      "authFrom": "env",
      "dispatchId": "d_[ID]",
      "durationMs": "[SPAN]",
      "endedAt": "[TIME]",
      "exitCode": 0,
      "isolation": "[WALL]",
      "labels": [],
      "output": {
        "structured": null,
        "text": "All done."
      },
      "outputs": [],
      "patch": {
        "deletions": 0,
        "files": 1,
        "insertions": 1,
        "ref": "d_[ID]/patch.diff"
      },
      "resolved": {
        "capabilities": [],
        "env": [
          {
            "contentHash": "sha256:[HASH]",
            "name": "default",
            "registeredAt": "[TIME]"
          }
        ],
        "subagent": {
          "contentHash": "sha256:[HASH]",
          "name": "planner",
          "registeredAt": "[TIME]"
        }
      },
      "startedAt": "[TIME]",
      "state": "finished",
      "stderr": "",
      "stdout": "[STREAM]",
      "subagent": "planner",
      "target": "local",
      "threadId": "t_[ID]",
      "usage": {
        "costUsd": null,
        "durationMs": "[SPAN]",
        "models": [
          {
            "cacheReadTokens": 0,
            "cacheWriteTokens": 0,
            "costUsd": null,
            "inputTokens": 200,
            "model": "gpt-5-codex",
            "outputTokens": 40
          }
        ],
        "turns": 1
      },
      "versions": {
        "adapter": "codex",
        "agora": "0.1.0",
        "manifest": 1,
        "runtime": "0.166.0"
      },
      "warnings": [],
      "workspaceSaved": true
    }
    "#);
}

/// Writes a question to the path that the system prompt teaches.
fn asks() -> Model {
    Model::start_with(|request| {
        let taught = request.system_text();
        let path = taught.lines().find_map(|line| line.strip_prefix('`')?.strip_suffix("needs_input.json`"));
        let question = json!({"question": "sqlite or postgres?", "options": ["sqlite", "postgres"],
            "context": "both work", "partial_state": {"ruled_out": ["mysql"]}});
        Turn::write_file(format!("{}needs_input.json", path.unwrap()), question.to_string())
    })
}

#[test]
fn the_answer_from_another_process_goes_on_in_the_same_conversation() {
    let mut asked = false;
    let model = Model::start_with(move |request| {
        if std::mem::replace(&mut asked, true) {
            return Turn::text("It is postgres then.");
        }
        let taught = request.system_text();
        let path = taught.lines().find_map(|line| line.strip_prefix('`')?.strip_suffix("needs_input.json`"));
        let question = json!({"question": "sqlite or postgres?", "options": ["sqlite", "postgres"]});
        Turn::write_file(format!("{}needs_input.json", path.unwrap()), question.to_string())
    });
    let Some(cli) = with_claude(&model) else { return };
    let paused = dispatch(&cli, &["--pause-ok", "--json"]).json();
    assert_eq!(paused["state"], "needs_input");
    let before = model.requests().len();
    let answered = cli.run(&["answer", "2", "--follow", "--json"]).json();
    let result = &answered["result"];
    assert_eq!(
        (&result["state"], &result["output"]["text"]),
        (&json!("finished"), &json!("It is postgres then."))
    );
    assert_eq!(answered["threadId"], paused["threadId"]);
    assert_eq!(result["resumedWith"]["session"], true, "{result}");
    let requests = model.requests();
    assert_eq!(requests.len(), before + 1, "nothing is asked twice");
    let last = requests.last().unwrap();
    assert!(
        last.holds("needs_input.json") && last.holds("postgres"),
        "the conversation, and the answer: {last:?}"
    );
}

#[test]
fn a_question_pauses_and_every_command_shows_it() {
    let model = asks();
    let Some(cli) = with_claude(&model) else { return };
    let asked = dispatch(&cli, &["--label", "db"]);
    insta::assert_snapshot!(screen(&cli, &asked), @r#"
    --- stderr, code 4
    planner asks, and has stopped; nothing runs until somebody answers
    sqlite or postgres?
      1. sqlite
      2. postgres

      both work
    q_[ID]
    hint: `agora answer q_[ID] VALUE` answers it, and the work goes on where it stopped
    "#);
    insta::assert_snapshot!(cli.steady(&cli.run(&["show", "db"]).success()), @r#"
    dispatch:    d_[ID]
    thread:      t_[ID]
    state:       needs_input
    subagent:    planner@sha256:[HASH]
    target:      local (isolation: [WALL])
    accepted:    [TIME]
    ended:       [TIME], after [SPAN]
    env:         default@sha256:[HASH]
    credential:  api-key, of its env bundle
    used:        2 turns, 120 tokens, $0.0008
    asks:        q_[ID]
      sqlite or postgres?
        1. sqlite
        2. postgres

        both work
    "#);
    let listed = cli.run(&["ls"]).success();
    assert!(listed.contains("  needs_input  planner "), "{listed}");
    let told = cli.steady(&cli.run(&["thread", "show"]).success());
    assert!(told.contains("asked, and stopped (q_[ID])"), "{told}");
    assert!(told.contains("worked [SPAN], 2 turns, $0.0008, no file changed"), "{told}");
    assert!(told.contains("because: both work"), "{told}");
    let thread = steady_json(&cli.run(&["thread", "show", "--json"]).json());
    let asked = &thread["questions"][0];
    let fields = ["question", "options", "context", "partialState", "questionId", "state"];
    let question: Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), asked[field].clone())).collect();
    let questions = json!({"state": thread["state"], "failure": thread["failure"], "questions": [question]});
    insta::assert_snapshot!(questions.to_string(), @r#"
    {"failure":null,"questions":[{"context":"both work","options":["sqlite","postgres"],"partialState":{"ruled_out":["mysql"]},"question":"sqlite or postgres?","questionId":"q_[ID]","state":"open"}],"state":"waiting"}
    "#);
    insta::assert_snapshot!(cli.steady(&cli.run(&["dispatch", "watch"]).success()), @r#"
    [TIME] 1 dispatch.accepted d_[ID]
    [TIME] 2 dispatch.started d_[ID]
    [TIME] 3 dispatch.needs_input "sqlite or postgres?"
    [TIME] 4 question.opened q_[ID]
    "#);
    let watched = cli.run(&["dispatch", "watch", "--after", "2", "--json"]).success();
    let watched = watched.lines().map(|line| {
        let mut entry = steady_json(&serde_json::from_str(line).unwrap());
        // Who dispatched it is this machine's.
        entry["data"].as_object_mut().unwrap().remove("terms");
        entry.to_string() + "\n"
    });
    insta::assert_snapshot!(watched.collect::<String>(), @r#"
    {"at":"[TIME]","data":{"dispatchId":"d_[ID]","durationMs":"[SPAN]","question":{"context":"both work","partialState":{"ruled_out":["mysql"]},"questions":[{"allowOther":false,"human":false,"id":"q1","multiSelect":false,"options":[{"label":"sqlite"},{"label":"postgres"}],"question":"sqlite or postgres?"}]},"questionId":"q_[ID]"},"kind":"dispatch.needs_input","namespace":"default","seq":3,"threadId":"t_[ID]","version":1}
    {"at":"[TIME]","data":{"questionHash":"sha256:[HASH]","questionId":"q_[ID]"},"kind":"question.opened","namespace":"default","seq":4,"threadId":"t_[ID]","version":1}
    "#);
    let logs = cli.run(&["logs"]).success();
    assert!(logs.contains("\"subtype\":\"init\"") && logs == cli.run(&["logs", "-f"]).success());
    let line: Value =
        serde_json::from_str(cli.run(&["logs", "--json"]).success().lines().next().unwrap()).unwrap();
    assert_eq!(line["stream"], "stdout");

    let goes_on = cli.run(&["continue", "@"]);
    insta::assert_snapshot!(screen(&cli, &goes_on), @r#"
    --- stderr, code 2
    error: the thread `t_[ID]` cannot be continued now
      because a question of the thread is open; it goes on by an answer
    hint: `agora show t_[ID]` shows it, and how to answer it; `agora cancel t_[ID]` gives it up
    "#);
    let refused = cli.run(&["continue", "@", "--json"]);
    assert_eq!(
        (refused.code, serde_json::from_str::<Value>(&refused.stdout).unwrap()["error"]["code"].as_str()),
        (Some(2), Some("question-open"))
    );
    assert_eq!(cli.run(&["ls", "--json"]).json().as_array().unwrap().len(), 1);

    let paused = dispatch(&cli, &["--pause-ok", "--json"]).json();
    assert_eq!((&paused["state"], &paused["exitCode"]), (&json!("needs_input"), &json!(0)));
    insta::assert_snapshot!(steady_json(&paused["needsInput"]).to_string(), @r#"
    {"context":"both work","options":["sqlite","postgres"],"partialState":{"ruled_out":["mysql"]},"question":"sqlite or postgres?","questionId":"q_[ID]","questions":[{"allowOther":false,"human":false,"id":"q1","multiSelect":false,"options":[{"label":"sqlite"},{"label":"postgres"}],"question":"sqlite or postgres?"}]}
    "#);
    insta::assert_snapshot!(screen(&cli, &cli.run(&["cancel", "db"])), @r#"
    t_[ID]
    --- stderr, code 0
    cancelled; nothing of it is left running
    "#);
}

/// The conversation is the same one, and so is the workspace: the agent finds what it wrote before.
#[test]
fn continuing_after_a_finish_and_after_a_failure_goes_on_in_the_same_conversation() {
    let model = Model::start_with(|request| {
        let after = |said: &str| request.holds(said);
        match (after("also add more"), after("try again")) {
            (false, _) if !after("echo before") => Turn::shell("echo before > work.txt"),
            (false, _) => Turn::text("First part done."),
            (true, false) if !after("echo more") => Turn::shell("cat work.txt; echo more >> work.txt"),
            (true, false) => Turn::error(401, "authentication_error", "no"),
            (true, true) if !after("nl work.txt") => Turn::shell("nl work.txt"),
            (true, true) => Turn::text("All done."),
        }
    });
    let Some(cli) = with_claude(&model) else { return };
    let first = dispatch(&cli, &["--json"]).json();
    let failed = cli.run(&["continue", "@", "also add more"]);
    insta::assert_snapshot!(screen(&cli, &failed), @r#"
    --- stderr, code 1
    error: the agent failed (provider-failed, auth)
      because Failed to authenticate. API Error: 401 no
    hint: the api-key is refused (env: `default`); `agora env register` with another value rotates it
    hint: `agora logs d_[ID]` shows what the agent printed
    "#);
    let last = cli.run(&["continue", "@", "try again", "--json"]).json();
    assert_eq!(last["output"]["text"], "All done.");
    assert_eq!(last["threadId"], first["threadId"]);
    let resumed = json!({"partialState": false, "session": true, "workspace": true});
    assert_eq!(last["resumedWith"], resumed);
    let last = model.requests().pop().unwrap();
    for said in ["Task: choose a database", "First part done.", "also add more", "1\tbefore", "2\tmore"] {
        assert!(last.holds(said), "the conversation holds {said}");
    }
    let told = cli.steady(&cli.run(&["thread", "show"]).success());
    let user = told.split_whitespace().find(|word| word.starts_with("user:")).unwrap().to_owned();
    insta::assert_snapshot!(told.replace(&user, "user:ann"), @r"
    thread t_[ID] · finished · planner
      choose a database

    [DATE] [CLOCK]  dispatched by user:ann to local (d_[ID])
    [DATE] [CLOCK]  finished
                          worked [SPAN], 2 turns, $0.0016, 1 file changed (+1 -0)
                            First part done.
    [DATE] [CLOCK]  continued by user:ann through cli
                          it went on as d_[ID]
                            also add more
    [DATE] [CLOCK]  failed (provider-failed, auth)
                          worked [SPAN], 2 turns, $0.0008, 1 file changed (+1 -0)
                            Failed to authenticate. API Error: 401 no
    [DATE] [CLOCK]  continued by user:ann through cli
                          it went on as d_[ID]
                            try again
    [DATE] [CLOCK]  finished
                          worked [SPAN], 2 turns, $0.0016, no file changed
                            All done.

    agents worked [SPAN] in 3 dispatches, 6 turns, 600 tokens, $0.0040
    ");
}

/// Claude Code says when the limit of a subscription ends, in the headers of the service's answer.
#[test]
fn a_limit_that_ends_soon_is_told_and_a_detached_thread_goes_on_by_itself() {
    let (seconds, mut limited) = (4, 0);
    let model = Model::start_with(move |_| {
        limited += 1;
        if limited > 1 {
            return Turn::text("All done.");
        }
        let now = SystemClock.now().as_millis() / 1000;
        Turn::error(429, "rate_limit_error", "You have reached your limit")
            .with_header("anthropic-ratelimit-unified-status", "rejected")
            .with_header("anthropic-ratelimit-unified-reset", (now + seconds).to_string())
            .with_header("anthropic-ratelimit-unified-representative-claim", "five_hour")
            .with_header("x-should-retry", "false")
    });
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    let cli = place("claude", &claude, ("ANTHROPIC_BASE_URL", &model.url()), "CLAUDE_CODE_OAUTH_TOKEN", &[]);
    let detached = dispatch(&cli, &["--detach", "--json"]).json();
    let first = detached["dispatchId"].as_str().unwrap();
    // It says the time of day in its own words too.
    let steady = |text: &str| {
        let said = text.lines().map(|line| line.split(" · resets ").next().unwrap().to_owned() + "\n");
        cli.steady(&said.collect::<String>())
    };
    let events = cli.run(&["dispatch", "watch", first]).success();
    insta::assert_snapshot!(steady(&events), @r#"
    [TIME] 1 dispatch.accepted d_[ID]
    [TIME] 2 dispatch.started d_[ID]
    [TIME] 3 dispatch.failed provider-failed rate-limited: You've hit your 5-hour limit
    [TIME] 4 thread.continued
    [TIME] 5 dispatch.accepted d_[ID]
    [TIME] 6 dispatch.started d_[ID]
    [TIME] 7 dispatch.finished d_[ID]
    [TIME] 8 thread.ended
    "#);
    insta::assert_snapshot!(steady(&cli.run(&["show", first]).success()), @r#"
    dispatch:    d_[ID]
    thread:      t_[ID]
    state:       failed
    subagent:    planner@sha256:[HASH]
    target:      local (isolation: [WALL])
    accepted:    [TIME]
    ended:       [TIME], after [SPAN]
    env:         default@sha256:[HASH]
    credential:  subscription, of its env bundle
    used:        1 turn, 0 tokens, $0.0000
    failed:      the agent failed (provider-failed, rate-limited)
    because:     You've hit your 5-hour limit
    hint:        the limit ends at [TIME]; then `agora continue d_[ID]` goes on, and what is detached goes on by itself
    hint:        `agora logs d_[ID]` shows what the agent printed
    "#);
}
