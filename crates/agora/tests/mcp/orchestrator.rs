//! The real Claude Code as the orchestrator, with the plugin installed as a user installs it, and a scripted model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use agora_testkit::model::{Model, Request, Turn};
use agora_testkit::part;
use serde_json::{Value, json};

use crate::support::Place;

const TOOLS: &str = "mcp__plugin_agora_agora__";
/// Works on the repository; the one whose task says so asks first.
const WORKER: &str = r#"task=$(cat)
if [ -f .agora/resume.json ]; then grep -o '"answer": "[a-z]*"' .agora/resume.json > choice.txt; echo "did it with the answer"; exit; fi
case $task in *choose*) echo '{"question": "Which database?", "options": ["sqlite", "postgres"]}' > .agora/needs_input.json; exit;; esac
echo "$task" > result.txt; echo "did it""#;

/// Returns the last text that a tool gave back.
fn last_result(request: &Request) -> String {
    let messages = request.body["messages"].as_array().unwrap();
    let mut blocks = messages.iter().rev().filter_map(|message| message["content"].as_array()).flatten();
    let result = blocks.find(|block| block["type"] == "tool_result").cloned().unwrap_or_default();
    result["content"].to_string()
}

fn tool(name: &str, input: Value) -> Turn {
    Turn::tool(format!("{TOOLS}{name}"), input)
}

/// Copies the plugin and its marketplace, as somebody has them who cloned the project.
fn marketplace(place: &Place) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let to = place.cli.work().parent().unwrap().join("marketplace");
    for file in [
        ".claude-plugin/marketplace.json",
        "plugins/agora/.claude-plugin/plugin.json",
        "plugins/agora/.mcp.json",
        "plugins/agora/README.md",
        "plugins/agora/skills/agora/SKILL.md",
    ] {
        fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
        fs::copy(root.join(file), to.join(file)).unwrap();
    }
    to
}

/// Prepares Claude Code in the place's own home, where `agora` is on the path.
fn claude(place: &Place, program: &Path, arguments: &[&str]) -> Command {
    let set = place.cli.command::<&str>(&[]);
    let mut command = agora_testkit::cli::command(program.to_str().unwrap());
    command.args(arguments).env_clear().envs(set.get_envs().filter_map(|(name, value)| Some((name, value?))));
    for switch in [
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_AUTOUPDATER",
        "IS_SANDBOX",
    ] {
        command.env(switch, "1");
    }
    command.current_dir(place.cli.work()).stdin(std::process::Stdio::null());
    command
}

#[test]
fn claude_code_dispatches_five_relays_a_question_and_reports_the_refs() {
    let Some(program) = part::find("AGORA_TEST_CLAUDE") else { return };
    let place = Place {
        cli: agora_testkit::cli::Cli::new(env!("CARGO_BIN_EXE_agora"))
            .program("agora", env!("CARGO_BIN_EXE_agora").as_ref()),
    };
    place.agent("worker", WORKER);
    place.cli.settings("[target.local]\nmax_concurrent = 5\n");
    let git = |arguments: &[&str]| {
        agora_testkit::cli::run(
            agora_testkit::cli::command("git").args(arguments).current_dir(place.cli.work()),
        )
        .success()
    };
    git(&["init", "--quiet"]);
    place.cli.write("README", "first\n");
    git(&["add", "."]);
    git(&["-c", "user.name=ann", "-c", "user.email=ann@example.com", "commit", "--quiet", "-m", "first"]);

    let market = marketplace(&place);
    let setup = |arguments: &[&str]| {
        let ran = agora_testkit::cli::run(&mut claude(&place, &program, arguments));
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    setup(&["plugin", "marketplace", "add", market.to_str().unwrap()]);
    setup(&["plugin", "install", "agora@agora"]);

    let turns = Arc::new(Mutex::new(0));
    let count = Arc::clone(&turns);
    let model = Model::start_with(move |request| {
        let mut turn = count.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *turn += 1;
        let said = last_result(request);
        match *turn {
            1 => {
                assert!(
                    request.holds("agora_dispatch") && request.holds("handed to other coding agents"),
                    "the skill is listed"
                );
                let names =
                    ["agora_dispatch", "agora_wait", "agora_answer"].map(|name| format!("{TOOLS}{name}"));
                Turn::tool("ToolSearch", json!({"query": format!("select:{}", names.join(","))}))
            }
            2 => {
                let inputs: Vec<Value> = (1..=5).map(|part| json!({"task": if part == 3 { "choose and do part 3".into() } else { format!("do part {part}") }})).collect();
                tool("agora_dispatch", json!({"subagent": "worker", "inputs": inputs, "workspace": "."}))
            }
            3 => tool("agora_wait", json!({"until": "all"})),
            4 => {
                assert!(said.contains("needs_input") && said.contains("Which database?"), "{said}");
                Turn::text("An agent asks: Which database? The options are sqlite and postgres.")
            }
            5 => {
                assert!(request.holds("postgres, please"), "the user has answered");
                let question = said_question(request);
                tool("agora_answer", json!({"questionId": question, "answer": "postgres"}))
            }
            6 => {
                assert!(said.contains("passed on by agent:claude-code"), "{said}");
                // The session was resumed, and has a server of its own: the threads are named.
                tool("agora_wait", json!({"until": "all", "threads": said_threads(request)}))
            }
            _ => {
                assert!(said.contains("refs/agora/t_"), "{said}");
                let refs: Vec<&str> = said.split("refs/agora/").skip(1).map(|rest| &rest[..18]).collect();
                Turn::text(format!("All five are done: {}", refs.join(", ")))
            }
        }
    });
    let url = model.url();
    let ask = |arguments: &[&str]| -> Value {
        let mut command = claude(&place, &program, arguments);
        command.env("ANTHROPIC_BASE_URL", &url).env("ANTHROPIC_API_KEY", "dummy");
        let ran = agora_testkit::cli::run(&mut command);
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr))
    };
    let options = ["--print", "--dangerously-skip-permissions", "--output-format", "json"];
    let first = ask(&[&options[..], &["Let five agents do the parts."]].concat());
    assert!(first["result"].as_str().unwrap().contains("Which database?"), "{first}");
    let session = first["session_id"].as_str().unwrap();
    let second = ask(&[&options[..], &["--resume", session, "postgres, please"]].concat());
    let report = second["result"].as_str().unwrap();
    let took = *turns.lock().unwrap();
    assert!(took <= 8, "{took} turns");

    let threads = place.cli.run(&["thread", "list", "--json"]).json();
    let ids: std::collections::BTreeSet<&str> =
        threads.as_array().unwrap().iter().map(|row| row["threadId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 5);
    for id in ids {
        assert!(report.contains(id), "{id} is not in {report}");
        git(&["rev-parse", "--verify", &format!("refs/agora/{id}")]);
    }
}

/// Returns the threads that `agora_dispatch` told of.
fn said_threads(request: &Request) -> std::collections::BTreeSet<String> {
    let text = request.body["messages"].to_string();
    let id = |rest: &str| format!("t_{}", rest.chars().take(16).collect::<String>());
    text.split("threadId\\\":\\\"t_").skip(1).map(id).collect()
}

/// Returns the question that a tool told of, wherever in the conversation that was.
fn said_question(request: &Request) -> String {
    let text = request.body["messages"].to_string();
    let at = text.find("q_").unwrap();
    text[at..].chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect()
}
