//! Requests about dispatches that cannot be met: each gets a clear error, in text and as one document, and nothing is recorded.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use agora_testkit::cli::{Cli, Ran};
use serde_json::Value;

fn cli() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let command = ["--runtime", "command", "--prompt-template", "Say {{word}}", "--", "cat"];
    cli.run(&[&["subagent", "register", "--name", "echo"], &command[..]].concat()).success();
    cli
}

fn said(cli: &Cli, id: &str, label: &str) -> Ran {
    let dispatch = ["dispatch", "run", "--subagent", "echo", "--input", r#"{"word": "hi"}"#];
    cli.run(&[&dispatch[..], &["--dispatch-id", id, "--label", label]].concat())
}

/// Asserts that a command is refused with this code and these words, in text and as JSON, and records nothing.
#[track_caller]
fn refused(cli: &Cli, code: &str, arguments: &[&str]) -> String {
    let count = || cli.run(&["ls", "--json"]).json().as_array().unwrap().len();
    let before = count();
    let ran = cli.run(&[arguments, &["--json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), ""), "{}", ran.stdout);
    // Exactly one document.
    let error: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(error["error"]["code"], code, "{error}");
    let text = cli.run(arguments).failure(2);
    for hint in error["error"]["hints"].as_array().unwrap() {
        assert!(text.contains(hint.as_str().unwrap()), "{text}");
    }
    assert_eq!(count(), before, "nothing was recorded");
    text
}

#[test]
fn ids_that_mean_nothing_or_too_much() {
    let cli = cli();
    for command in ["show", "logs", "apply"] {
        assert_eq!(
            refused(&cli, "unknown-id", &[command]),
            "error: nothing has run yet\nhint: `agora run 'TASK'` runs an agent; `agora demo` shows one, without an account\n"
        );
    }
    let empty = cli.run(&["ls"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), ""));
    assert_eq!(empty.stderr, "hint: `agora run 'TASK'` runs an agent\n");
    said(&cli, "d_0123456789abcdeg", "nightly").success();
    said(&cli, "d_0123456789abcdeh", "weekly").success();
    insta::assert_snapshot!(refused(&cli, "unknown-id", &["show", "d_9876"]), @r#"
    error: nothing is known as `d_9876`
    hint: `agora ls` shows what there is
    "#);
    insta::assert_snapshot!(refused(&cli, "unknown-id", &["logs", "d_0123456789abcdef"]), @r#"
    error: nothing is known as `d_0123456789abcdef`
    hint: did you mean `d_0123456789abcdeg`, `d_0123456789abcdeh`?
    "#);
    insta::assert_snapshot!(refused(&cli, "unknown-id", &["cancel", "nigthly"]), @r#"
    error: nothing is known as `nigthly`
    hint: did you mean `nightly`?
    "#);
    insta::assert_snapshot!(refused(&cli, "ambiguous-id", &["dispatch", "watch", "d_0123"]), @r#"
    error: `d_0123` begins the ids of several threads
    hint: give more of it: `d_0123456789abcdeh`, `d_0123456789abcdeg`
    "#);
    let threads = refused(&cli, "ambiguous-id", &["thread", "show", "t_"]);
    assert!(threads.contains("give more of it: `t_") && !threads.contains("`d_"), "{threads}");
    insta::assert_snapshot!(refused(&cli, "unknown-id", &["thread", "show", "not a name"]), @r#"
    error: nothing is known as `not a name`
    hint: `agora ls` shows what there is
    "#);
    cli.run(&["show", "d_0123456789abcdeg"]).success();
    cli.run(&["show", "nightly"]).success();
}

#[test]
fn requests_that_cannot_be_met() {
    let cli = cli();
    let run = |code: &str, more: &[&str]| refused(&cli, code, &[&["dispatch", "run"], more].concat());
    let echo = |code: &str, more: &[&str]| {
        run(code, &[&["--subagent", "echo", "--input", r#"{"word": "hi"}"#], more].concat())
    };
    insta::assert_snapshot!(run("unknown-name", &["--subagent", "ecko"]), @r#"
    error: there is no subagent named `ecko`
    hint: did you mean `echo`?
    "#);
    insta::assert_snapshot!(run("request-invalid", &["--subagent", "echo", "--input", r#"{"wort": 1}"#]), @r#"
    error: `input` cannot be used: "word" is a required property
    hint: `agora explain SUBAGENT` shows what its input must have
    "#);
    insta::assert_snapshot!(run("bad-input", &["--subagent", "echo", "--input", "[1]"]), @r#"
    error: the input is not a JSON object
      because invalid type: sequence, expected a map at line 1 column 0
    hint: such as `--input '{"task": "…"}'`
    "#);
    insta::assert_snapshot!(echo("unknown-target", &["--target", "big"]), @r#"
    error: there is no target `big`
    hint: there is `local`; `[target.big]` in `agora.toml` makes another
    "#);
    insta::assert_snapshot!(echo("unknown-name", &["--env", "prod"]), @r#"
    error: there is no env named `prod`
    hint: `agora env list` shows what there is
    "#);
    insta::assert_snapshot!(echo("unknown-name", &["--capability", "style"]), @r#"
    error: there is no capability named `style`
    hint: `agora capability list` shows what there is
    "#);
    insta::assert_snapshot!(echo("usage", &["--timeout", "0"]), @r#"
    error: invalid value '0' for '--timeout <SECONDS>': 0 is not in 1..=86400
    "#);
    insta::assert_snapshot!(echo("request-invalid", &["--dispatch-id", "mine"]), @r#"
    error: `dispatchId` cannot be used: a dispatch id begins with `d_`
    "#);
    insta::assert_snapshot!(echo("bad-budget", &["--budget", r#"{"turn": 1}"#]), @r#"
    error: the budget cannot be used
      because unknown field `turn`, expected one of `turns`, `tokens`, `minutes`, `usd`, `onLimit` at line 1 column 7
    hint: such as `--budget '{"turns": 20, "usd": 2.5}'`
    "#);
    insta::assert_snapshot!(echo("bad-budget", &["--budget", r#"{"minutes": 0.02}"#]), @r#"
    error: the budget cannot be used
      because `minutes` is 0.02, and must be a whole number from 1 to 525600
    hint: such as `--budget '{"turns": 20, "usd": 2.5}'`
    "#);
    for (budget, wrong) in [
        ("-1", "invalid type: integer `-1`, expected an object"),
        ("0", "expected an object"),
        ("[]", "invalid type: sequence, expected an object"),
        ("[20]", "expected an object"),
        ("nonsense", "it is not JSON: "),
        ("{}", "`budget` has no limit in it: `turns`, `tokens`, `minutes` or `usd`"),
        ("{\"onLimit\": \"fail\"}", "`budget` has no limit in it"),
        ("{\"turn\": 1}", "unknown field `turn`, expected one of `turns`, `tokens`"),
        ("{\"turns\": 0}", "`budget.turns` must be from 1 to 100000"),
        ("{\"turns\": -1}", "`turns` is -1, and must be a whole number from 1 to 100000"),
        ("{\"tokens\": 1.5}", "`tokens` is 1.5, and must be a whole number from 1 to"),
        ("{\"minutes\": 0}", "`budget.minutes` must be from 1 to 525600"),
        ("{\"usd\": -1}", "`budget.usd` is -1, and must be more than 0 and at most 1000000"),
        ("{\"usd\": 0}", "`budget.usd` is 0, and must be more than 0"),
    ] {
        let said = echo("bad-budget", &[&format!("--budget={budget}")]);
        assert!(said.contains(wrong) && said.contains("\nhint: such as `--budget '{"), "{budget}: {said}");
    }
    insta::assert_snapshot!(echo("secret-source", &["--secret", "TOKEN=env:NOWHERE"]), @r#"
    error: the secret for `TOKEN` cannot be taken
      because the variable `NOWHERE` is not set
    hint: `export NOWHERE=…` first, or use `TOKEN=file:PATH`
    "#);
    said(&cli, "d_0123456789abcdeg", "nightly").success();
    insta::assert_snapshot!(echo("dispatch-exists", &["--dispatch-id", "d_0123456789abcdeg"]), @r#"
    error: there is a dispatch `d_0123456789abcdeg` already
    hint: `agora show d_0123456789abcdeg` tells what became of it; another dispatch wants another id
    "#);
}

/// A prompt is written with all that a dispatch brings, now and when it goes on, before anything is accepted.
#[test]
fn a_template_that_cannot_be_filled_in() {
    let cli = cli();
    let template = "{{#partial_state}}{{#a}}{{#a}}{{#a}}{{b}}{{/a}}{{/a}}{{/a}}{{/partial_state}}{{#resumed}}{{again}}{{/resumed}}";
    let command = ["--runtime", "command", "--prompt-template", template, "--", "cat"];
    cli.run(&[&["subagent", "register", "--name", "notes"], &command[..]].concat()).success();
    let dispatch = ["dispatch", "run", "--subagent", "notes"];
    insta::assert_snapshot!(refused(&cli, "prompt-incomplete", &dispatch), @r#"
    error: the prompt cannot be written
      because the template asks for `again`, which the input does not have
    hint: give it in the input, or make it optional in the template: `{{#name}}…{{/name}}`
    "#);
    let dispatch = [&dispatch[..], &["--input", r#"{"again": "and again"}"#, "--partial-state"]].concat();
    let deep =
        refused(&cli, "prompt-incomplete", &[&dispatch[..], &[r#"{"a": {"a": {"a": {"b": 1}}}}"#]].concat());
    assert!(deep.contains("lists and objects enclose each other more than 3 deep"), "{deep}");
    cli.run(&[&dispatch[..], &[r#"{"b": 5}"#]].concat()).success();
}

#[test]
fn a_key_that_was_used_for_something_else() {
    let cli = cli();
    let run = |word: &str| {
        let input = format!(r#"{{"word": "{word}"}}"#);
        ["dispatch", "run", "--subagent", "echo", "--idempotency-key", "k", "--input", &input]
            .map(str::to_owned)
    };
    assert_eq!(cli.run(&run("hi")).success(), "Say hi\n");
    assert_eq!(cli.run(&run("hi")).success(), "Say hi\n", "the same request is the same dispatch");
    let other = run("ho");
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    insta::assert_snapshot!(cli.steady(&refused(&cli, "idempotency-key-reused", &other)), @r#"
    error: the idempotency key was used for another request, which made the dispatch `d_[ID]`
    hint: `agora show d_[ID]` tells what became of that one; another request wants another key
    "#);
}

#[test]
fn a_thread_that_is_busy_is_not_continued() {
    let cli = cli();
    let wait = ["--runtime", "command", "--", "sh", "-c", "sleep 1000"];
    cli.run(&[&["subagent", "register", "--name", "slow"], &wait[..]].concat()).success();
    let id = "d_0123456789abcdeg";
    let ran = cli.run(&["dispatch", "run", "--subagent", "slow", "--detach", "--dispatch-id", id]);
    insta::assert_snapshot!(cli.steady(&format!("{}{}", ran.stdout, ran.stderr)), @r#"
    d_[ID]
    hint: `agora logs -f d_[ID]` follows it, `agora show d_[ID]` tells how it went
    "#);
    let busy = refused(&cli, "thread-busy", &["continue", id]);
    insta::assert_snapshot!(cli.steady(&busy), @r#"
    error: the thread `t_[ID]` cannot be continued now
      because the thread has not come to an end
    hint: `agora logs -f t_[ID]` follows what runs, `agora cancel t_[ID]` ends it
    "#);
    insta::assert_snapshot!(refused(&cli, "no-task", &["continue", "@", " "]), @r#"
    error: the message says nothing
    hint: `agora continue @` without one goes on where the agent stopped
    "#);
    cli.run(&["cancel", id]).success();
    insta::assert_snapshot!(cli.run(&["cancel", id]).stderr, @r#"
    it was cancelled before
    "#);
}
