//! Many bundles at once: all of them, or none.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use agora_testkit::cli::{Cli, files_below, run};
use serde_json::{Value, json};

const DEPLOYMENT: &str = "\
capabilities:
  style: { from: ./style }
subagents:
  base:
    systemPrompt: You are careful.
    verify: { command: cargo test, timeoutSeconds: 60 }
  planner:
    extends: base
    from: agents/planner.md
    capabilities: [style]
envs:
  base-env:
    values: { PORT: 8080, DEBUG: true, REGION: { from_env: MY_REGION } }
  default:
    extends: base-env
    values: { PORT: '9090' }
    secrets: { KEY: { from_env: MY_KEY }, OTHER: 'cmd:op read x' }
";

fn project() -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    cli.write("infra/style/NOTES.md", "small commits");
    cli.write(
        "infra/agents/planner.md",
        "---\nname: planner\ndescription: Use when: planning\ntools: Read\n---\nYou plan.\n",
    );
    cli.write("infra/agora.yaml", DEPLOYMENT);
    cli
}

fn deploy(cli: &Cli, key: &str, more: &[&str]) -> agora_testkit::cli::Ran {
    let mut command = cli.command(&[&["deploy", "--from", "infra/agora.yaml", "--json"], more].concat());
    run(command.env("MY_KEY", key).env("MY_REGION", "eu"))
}

fn changes(document: &Value) -> Vec<String> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let line =
        |entry: &Value| format!("{} {} {}", text(entry, "change"), text(entry, "kind"), text(entry, "name"));
    document.as_array().unwrap().iter().map(line).collect()
}

#[test]
fn a_deployment_says_what_is_new_changed_and_unchanged() {
    let cli = project();
    let everything = ["capability style", "subagent base", "subagent planner", "env base-env", "env default"];
    let all = |word: &str| everything.map(|entry| format!("{word} {entry}"));
    assert_eq!(changes(&deploy(&cli, "first-key", &["--dry-run"]).json()), all("new"));
    assert!(!cli.agora_home().exists(), "a dry run changes nothing");
    assert_eq!(changes(&deploy(&cli, "first-key", &[]).json()), all("new"));
    assert_eq!(changes(&deploy(&cli, "first-key", &[]).json()), all("unchanged"));

    let rotated = deploy(&cli, "second-key", &[]).json();
    assert_eq!(changes(&rotated), all("unchanged"), "a secret's value is in no bundle");
    assert_eq!(rotated[4]["rotated"], json!(["KEY"]));

    cli.write("infra/style/NOTES.md", "smaller commits");
    let changed = deploy(&cli, "second-key", &[]).json();
    assert_eq!(changes(&changed)[..2], ["changed capability style", "unchanged subagent base"]);

    let planner = cli.run(&["subagent", "get", "planner", "--json"]).json();
    let expected = json!({"command": "cargo test", "timeoutSeconds": 60});
    assert_eq!((&planner["verify"], &planner["systemPrompt"]), (&expected, &json!("You plan.")));
    assert_eq!(
        (&planner["claude"], &planner["description"]),
        (&json!({"tools": "Read"}), &json!("Use when: planning"))
    );
    let env = cli.run(&["env", "get", "default", "--json"]).json();
    assert_eq!(env["values"], json!({"PORT": "9090", "DEBUG": "true", "REGION": "eu"}));
    assert_eq!(env["secrets"], json!({"KEY": "local:env/default/default/KEY", "OTHER": "cmd:op read x"}));

    let text = run(cli
        .command(&["deploy", "--from", "infra/agora.yaml"])
        .env("MY_KEY", "second-key")
        .env("MY_REGION", "eu"));
    assert_eq!(text.stderr, "0 new, 0 changed, 5 unchanged\n");
    assert_eq!(text.success().lines().next(), Some("unchanged  capability  style"));
}

#[test]
fn one_bad_entry_stops_before_anything_is_registered() {
    for (from, to, expected) in [
        ("capabilities: [style]", "capabilities: [stile]", "no capability named `stile`"),
        ("from: ./style", "from: ./nowhere", "cannot be read"),
        ("extends: base\n", "extends: bass\n", "extends `bass`, which is neither in the file nor registered"),
        ("systemPrompt: You are careful.", "extends: planner", "extends itself"),
        ("verify: {", "verfy: {", "unknown field `verfy`"),
        ("PORT: 8080", "AGORA_HOME: x", "not a switch"),
        ("from_env: MY_KEY", "from_env: NOT_SET", "`NOT_SET` is not set"),
        ("PORT: 8080", "PORT: [1]", "from_env"),
        ("envs:", "enviroments:", "unknown field `enviroments`"),
        ("style: {", "st yle: {", "not ' '"),
    ] {
        let cli = project();
        assert!(DEPLOYMENT.contains(from), "{from}");
        cli.write("infra/agora.yaml", DEPLOYMENT.replacen(from, to, 1));
        let mut command = cli.command(&["deploy", "--from", "infra/agora.yaml"]);
        let said = run(command.env("MY_KEY", "a-secret-key").env("MY_REGION", "eu")).failure(2);
        assert!(said.contains(expected), "{said}\nshould say {expected}");
        assert!(files_below(&cli.agora_home()).is_empty(), "{from}: nothing was written");
    }
}

#[test]
fn a_deployment_in_toml_means_the_same() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    cli.write("style/NOTES.md", "x");
    cli.write(
        "agora.toml",
        "[capabilities.style]\nfrom = 'style'\n[subagents.planner]\nsystemPrompt = 'x'\ncapabilities = ['style']\n\
         [envs.default.values]\nPORT = 1\n",
    );
    let done = cli.run(&["deploy", "--from", "agora.toml", "--json"]).json();
    assert_eq!(changes(&done), ["new capability style", "new subagent planner", "new env default"]);
    let extended = "[subagents.other]\nextends = 'planner'\nmodel = 'fast'\n";
    cli.write("more.toml", extended);
    cli.run(&["deploy", "--from", "more.toml"]).success();
    let other = cli.run(&["subagent", "get", "other", "--json"]).json();
    assert_eq!(
        (&other["systemPrompt"], &other["model"]),
        (&json!("x"), &json!("fast")),
        "extends what is registered"
    );
}

#[test]
fn sync_takes_agents_and_skills_as_they_are() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let said = cli.run(&["sync"]).failure(2);
    assert!(said.contains("has neither `.claude/agents/*.md` nor `.claude/skills/*/`"), "{said}");
    cli.write(
        ".claude/agents/reviewer.md",
        "---\nname: code-reviewer\ndescription: Reviews.\nmodel: sonnet\n---\nReview.\n",
    );
    cli.write(".claude/agents/README.txt", "not an agent");
    cli.write(".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\n");
    cli.write(".claude/skills/pdf/scripts/run.sh", "#!/bin/sh\n");
    assert_eq!(
        changes(&cli.run(&["sync", "--json"]).json()),
        ["new capability pdf", "new subagent code-reviewer"]
    );
    let skill = cli.run(&["capability", "get", "pdf", "--json"]).json();
    let paths: Vec<&str> =
        skill["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [".claude/skills/pdf/SKILL.md", ".claude/skills/pdf/scripts/run.sh"]);
    assert_eq!(cli.run(&["subagent", "get", "code-reviewer", "--json"]).json()["model"], "sonnet");
    assert_eq!(
        changes(&cli.run(&["sync", "--json"]).json()),
        ["unchanged capability pdf", "unchanged subagent code-reviewer"]
    );
}
