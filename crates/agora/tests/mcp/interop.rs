//! The MCP Inspector's command line, and the conformance suite of the protocol's own makers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use agora_testkit::cli::{Ran, command, run};
use agora_testkit::part;
use serde_json::{Value, json};

use crate::hostile::listen;
use crate::support::{ASKS, Place};

/// Scenarios that need nothing of a server but what every server has.
const PLAIN: [&str; 7] = [
    "server-initialize",
    "ping",
    "tools-list",
    "caching",
    "http-header-validation",
    "dns-rebinding-protection",
    "input-required-result-unsupported-methods",
];

/// What `server-stateless` asks of tools that only a server made for it has.
const WANTS_FIXTURES: [&str; 4] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
];

fn inspect(place: &Place, node: &Path, inspector: &Path, arguments: &[&str]) -> Ran {
    let set = place.cli.command::<&str>(&[]);
    let mut inspect = command(node.to_str().unwrap());
    inspect.arg(inspector).args(["--cli", env!("CARGO_BIN_EXE_agora"), "mcp"]).args(arguments);
    inspect.env_clear().envs(set.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run(inspect.current_dir(place.cli.work()).stdin(Stdio::null()))
}

#[test]
fn the_inspector_lists_dispatches_and_waits() {
    let (Some(node), Some(inspector)) = (part::find("AGORA_TEST_NODE"), part::find("AGORA_TEST_MCP_INSPECTOR")) else {
        return;
    };
    let place = Place::new();
    place.agent("asker", ASKS);
    place.agent("quick", "echo quickly done");
    let listed = inspect(&place, &node, &inspector, &["--method", "tools/list"]).json();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 9);
    let call = |tool: &str, arguments: &[&str]| {
        let mut all = vec!["--method", "tools/call", "--tool-name", tool];
        for argument in arguments {
            all.extend(["--tool-arg", argument]);
        }
        let ran = inspect(&place, &node, &inspector, &all);
        let said: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        said["structuredContent"].clone()
    };
    let started = call("agora_dispatch", &["subagent=quick"]);
    let thread = started["dispatches"][0]["threadId"].as_str().unwrap().to_owned();
    let waited = call("agora_wait", &[&format!("threads={}", json!([thread]))]);
    assert_eq!(waited["threads"][0]["text"], "quickly done\n", "{waited}");
    let described = call("agora_dispatch_describe", &[&format!("id={thread}")]);
    assert_eq!(described["state"], "finished");
}

/// What a scenario found: the ids of checks that passed, and of those that did not.
struct Found {
    passed: Vec<String>,
    failed: Vec<String>,
}

/// Runs one scenario of the suite against an address.
fn scenario(node: &Path, suite: &Path, url: &str, name: &str) -> Found {
    let dir = tempfile::tempdir().unwrap();
    let mut conformance = command(node.to_str().unwrap());
    conformance.arg(suite).args(["server", "--url", url, "--scenario", name, "--output-dir"]).arg(dir.path());
    let ran = run(conformance.stdin(Stdio::null()));
    let files = agora_testkit::cli::files_below(dir.path());
    let checks = files.iter().find(|(path, _)| path.ends_with("checks.json"));
    let (_, text) = checks.unwrap_or_else(|| panic!("{name}: {}{}", ran.stdout, ran.stderr));
    let checks: Vec<Value> = serde_json::from_slice(text).unwrap();
    let with = |wanted: &[&str]| {
        let chosen = checks.iter().filter(|check| wanted.contains(&check["status"].as_str().unwrap_or_default()));
        chosen.map(|check| check["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let found = Found { passed: with(&["SUCCESS"]), failed: with(&["FAILURE", "WARNING"]) };
    eprintln!("{name}: {} passed, failed: {:?}", found.passed.len(), found.failed);
    found
}

/// Adds a token to what a client sends that cannot be told one.
struct Bearer {
    child: Child,
    url: String,
}

impl Bearer {
    fn start(python: &Path, address: &str, token: &str) -> Self {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/bearer.py");
        let mut child = command(python.to_str().unwrap())
            .arg(script)
            .args([address, token])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, url: format!("http://{}/mcp", line.trim()) }
    }
}

impl Drop for Bearer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_conformance_suite_finds_nothing_wrong_with_the_server() {
    let parts = ["AGORA_TEST_NODE", "AGORA_TEST_MCP_CONFORMANCE", "AGORA_TEST_MCP_PYTHON"].map(part::find);
    let [Some(node), Some(suite), Some(python)] = parts else { return };
    let place = Place::new();
    let (address, _server) = listen(&place);
    let token = place.cli.run(&["mcp", "token"]).success().trim().to_owned();
    let bearer = Bearer::start(&python, &address, &token);
    for name in PLAIN {
        let found = scenario(&node, &suite, &bearer.url, name);
        assert!(found.failed.is_empty() && !found.passed.is_empty(), "{name}: {:?}", found.failed);
    }
    let found = scenario(&node, &suite, &bearer.url, "server-stateless");
    assert_eq!(found.failed, WANTS_FIXTURES, "all else passes");
    assert!(found.passed.len() >= 20);
}
