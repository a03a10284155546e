//! The five ways in which a dispatch disappoints most often, each as a person meets it: what agora says must tell what failed,
//! which half, why, and what to do next.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use agora_testkit::cli::{Cli, Ran, files_below, run};
use agora_testkit::model::{Model, Turn};
use agora_testkit::part;

fn cli() -> Cli {
    Cli::new(env!("CARGO_BIN_EXE_agora"))
}

/// A place with the real Claude Code, led to a model, and with what else its env bundle holds.
fn with_claude(model: &Model, values: &[&str]) -> Option<Cli> {
    let cli = cli().program("claude", &part::find("AGORA_TEST_CLAUDE")?);
    let endpoint = format!("ANTHROPIC_BASE_URL={}", model.url());
    let mut register = vec!["env", "register", "--name", "default", "--value", endpoint.as_str()];
    register.extend(values);
    assert_eq!(run(cli.command(&register).env("KEY", "sk-test-0123456789")).code, Some(0));
    subagent(&cli);
    Some(cli)
}

fn subagent(cli: &Cli) {
    let prompt = ["--system-prompt", "You fix bugs.", "--prompt-template", "Fix: {{task}}"];
    cli.run(&[&["subagent", "register", "--name", "fixer"], &prompt[..]].concat()).success();
}

/// A subagent that is a shell script.
fn script(cli: &Cli, text: &str) {
    let register =
        ["subagent", "register", "--name", "fixer", "--runtime", "command", "--", "sh", "-c", text];
    cli.run(&register).success();
}

fn dispatch(cli: &Cli, more: &[&str]) -> Ran {
    cli.run(&[&["dispatch", "run", "--subagent", "fixer", "--prompt", "the parser"], more].concat())
}

/// Says what a command said, on both of its streams, to the letter.
fn screen(cli: &Cli, ran: &Ran) -> String {
    let code = ran.code.unwrap();
    let text = format!("{}--- stderr, code {code}\n{}", ran.stdout, ran.stderr);
    cli.steady(&text)
}

const KEY: [&str; 2] = ["--secret", "ANTHROPIC_API_KEY=env:KEY"];

#[test]
fn it_ended_well_and_no_work_is_to_be_seen() {
    let model = Model::start(vec![Turn::text("I have fixed the parser.").with_usage(100, 20)]);
    let Some(cli) = with_claude(&model, &KEY) else { return };
    insta::assert_snapshot!(screen(&cli, &dispatch(&cli, &[])), @r#"
    I have fixed the parser.
    --- stderr, code 0
    finished in [SPAN], no file changed, 120 tokens, $0.0008
    d_[ID]
    hint: `agora logs d_[ID]` shows every step it took
    "#);
    script(&cli, "true");
    insta::assert_snapshot!(screen(&cli, &dispatch(&cli, &[])), @r#"
    --- stderr, code 0
    finished in [SPAN], no file changed
    d_[ID]
    hint: it said nothing either; `agora logs d_[ID]` shows every step it took
    "#);
}

#[test]
fn a_target_without_a_wall_is_told() {
    let cli = cli();
    assert!(!cli.run(&["doctor"]).stdout.contains("isolation"));
    cli.settings("[target.local]\nisolation = \"none\"\n");
    let told = cli.run(&["doctor"]).stdout;
    assert!(told.contains("note     isolation  `target.local` has `isolation = \"none\"`"), "{told}");
}

#[test]
fn settings_that_cannot_be_used_are_found() {
    let cli = cli();
    script(&cli, "true");
    let _ = dispatch(&cli, &[]).success();
    assert_eq!(cli.run(&["logs", "--part", "patch"]).stderr, "there is no patch\n");
    assert_eq!(cli.run(&["logs"]).stderr, "nothing was printed\n");
    let told = |code: i32| {
        let ran = cli.run(&["doctor", "--json"]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        let all: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
        let find = |topic: &str| all.iter().find(|one| one["topic"] == topic).cloned();
        assert_eq!(find("ledger").unwrap()["status"], "ok", "what is recorded is looked at all the same");
        find("settings").map(|one| cli.steady(&one["detail"].to_string()))
    };
    assert_eq!(told(0), None);
    for (text, wrong) in [
        ("[target.local]\nmax_concurent = 1\n", "line 2: unknown field `max_concurent`"),
        ("[target.local]\nmax_concurrent = -1\n", "line 2: "),
        ("[", "line 1"),
    ] {
        cli.settings(text);
        let said = told(3).unwrap();
        assert!(
            said.contains("[HOME]/.config/agora/agora.toml` cannot be used: ") && said.contains(wrong),
            "{said}"
        );
    }
    cli.settings("");
    cli.write("agora.toml", "[");
    let said = told(3).unwrap();
    assert!(said.contains("[ROOT]/work/agora.toml` is not used: line 1"), "{said}");
}

#[test]
fn the_agent_has_no_credential() {
    let model = Model::start(vec![]);
    let Some(cli) = with_claude(&model, &[]) else { return };
    insta::assert_snapshot!(screen(&cli, &dispatch(&cli, &[])), @r#"
    --- stderr, code 3
    error: there is nothing that `claude` could log in with
    hint: `agora auth claude` stores one for every dispatch
    hint: or for this one alone: `--secret CLAUDE_CODE_OAUTH_TOKEN=env:CLAUDE_CODE_OAUTH_TOKEN`
    "#);
    assert_eq!(model.requests().len(), 0);
    let refuses = Model::start(vec![Turn::error_times(9, 401, "authentication_error", "invalid x-api-key")]);
    let Some(cli) = with_claude(&refuses, &KEY) else { return };
    insta::assert_snapshot!(screen(&cli, &dispatch(&cli, &[])), @r#"
    --- stderr, code 1
    error: the agent failed (provider-failed, auth)
      because Invalid API key · Fix external API key
    hint: the api-key is refused (env: `default`); `agora env register` with another value rotates it
    hint: `agora logs d_[ID]` shows what the agent printed
    "#);
}

#[test]
fn only_one_of_two_setup_scripts_runs() {
    let cli = cli();
    for name in ["skills", "tools"] {
        cli.write(
            &format!("{name}/agora-setup.sh"),
            format!("echo installing {name}; touch {name}-installed\n"),
        );
        cli.run(&["capability", "register", "--name", name, "--from", name]).success();
    }
    script(&cli, "ls *-installed");
    let ran = dispatch(&cli, &["--capability", "skills", "--capability", "tools"]);
    insta::assert_snapshot!(screen(&cli, &ran), @r#"
    tools-installed
    --- stderr, code 0
    warning: the `agora-setup.sh` of `skills` did not run: that of `tools` took its place; only one runs, so put both into one capability
    finished in [SPAN], no file changed
    d_[ID]
    hint: `agora logs d_[ID]` shows every step it took
    "#);
    insta::assert_snapshot!(cli.run(&["logs", "--part", "setup"]).success(), @r#"
    installing tools
    "#);
}

#[test]
fn tool_calls_are_denied() {
    let model = Model::start(vec![
        Turn::shell("git commit -am fixed"),
        Turn::text("Git commands are being denied, so nothing was committed."),
    ]);
    let strict = ["--value", "AGORA_CLAUDE_PERMISSION_MODE=strict"];
    let Some(cli) = with_claude(&model, &[&KEY[..], &strict].concat()) else { return };
    insta::assert_snapshot!(screen(&cli, &dispatch(&cli, &[])), @r#"
    Git commands are being denied, so nothing was committed.
    --- stderr, code 0
    warning: 1 tool call was denied (Bash): `AGORA_CLAUDE_PERMISSION_MODE` is `strict`, and nobody is there to say yes; take it out of the env bundle, or set it to `scoped`
    finished in [SPAN], no file changed, 240 tokens, $0.0016
    d_[ID]
    hint: `agora logs d_[ID]` shows every step it took
    "#);
}

#[test]
fn what_is_stored_was_altered() {
    let cli = cli();
    cli.write("rules/RULES.md", "Prefer small commits.\n");
    cli.run(&["capability", "register", "--name", "rules", "--from", "rules"]).success();
    script(&cli, "cat RULES.md");
    let pack = files_below(&cli.agora_home().join("packs")).remove(0).0;
    fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&pack, "Prefer large commits.\n").unwrap();
    insta::assert_snapshot!(screen(&cli, &dispatch(&cli, &["--capability", "rules"])), @r#"
    --- stderr, code 1
    error: the agent was not started: what was to run is not what was registered (integrity-failed, hash-mismatch)
      because the hash of the files of the capability `rules` is not the one that was registered
    hint: the store was written to or is damaged: look at the disk and at who may write to `$AGORA_HOME`
    hint: `agora doctor` finds what else is altered; registering the same content again mends it
    "#);
    cli.run(&["capability", "register", "--name", "rules", "--from", "rules"]).success();
    assert_eq!(
        dispatch(&cli, &["--capability", "rules"]).success(),
        "Prefer small commits.\n",
        "the hint holds"
    );
    fs::File::options().append(true).open(&pack).unwrap().write_all(b"more").unwrap();
    insta::assert_snapshot!(screen(&cli, &dispatch(&cli, &["--capability", "rules"])), @r#"
    --- stderr, code 1
    error: the agent was not started: what was to run is not what was registered (integrity-failed, hash-mismatch)
      because the hash of the files of the capability `rules` is not the one that was registered
    hint: the store was written to or is damaged: look at the disk and at who may write to `$AGORA_HOME`
    hint: `agora doctor` finds what else is altered; registering the same content again mends it
    "#);
}
