//! The MCP Inspector's command line, and the conformance suite of the protocol's own makers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use agora_testkit::cli::{Ran, command, run};
use agora_testkit::part;
use serde_json::{Value, json};

use crate::support::{ASKS, Place, stand_in};
use crate::web::listen;

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

/// What `server-stateless` asks of tools that only a server made for it has: the suite itself says that it cannot test them without.
const WANTS_FIXTURES: [&str; 4] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
];

fn inspect(place: &Place, node: &Path, inspector: &Path, arguments: &[&str]) -> Ran {
    let set = place.cli.command::<&str>(&[]);
    let mut inspect = command(node.to_str().unwrap());
    inspect.arg(inspector).arg("--cli");
    // It hands only what it is told to the servers that it starts.
    for (name, value) in set.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?))) {
        inspect.args(["-e", &format!("{name}={value}")]);
    }
    inspect.args([env!("CARGO_BIN_EXE_agora"), "mcp"]).args(arguments);
    run(inspect.current_dir(place.cli.work()).stdin(Stdio::null()))
}

#[test]
fn the_inspector_lists_dispatches_and_waits() {
    let (Some(node), Some(inspector)) =
        (part::find("AGORA_TEST_NODE"), part::find("AGORA_TEST_MCP_INSPECTOR"))
    else {
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
        let said: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
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
#[derive(Debug)]
struct Found {
    passed: Vec<String>,
    failed: Vec<String>,
    /// Those of the failed that the suite could not test, by its own word.
    untestable: Vec<String>,
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
        let chosen =
            checks.iter().filter(|check| wanted.contains(&check["status"].as_str().unwrap_or_default()));
        chosen.map(|check| check["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let untestable = checks.iter().filter(|check| check["details"]["untestable"] == true);
    let found = Found {
        passed: with(&["SUCCESS"]),
        failed: with(&["FAILURE", "WARNING"]),
        untestable: untestable.map(|check| check["id"].as_str().unwrap().to_owned()).collect(),
    };
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
    assert_eq!(found.untestable, WANTS_FIXTURES, "and these fail for want of a tool");
    assert_eq!(found.passed.len(), 24, "as docs/conformance.md says");
}

/// Scenarios about questions that want tools made for them.
const QUESTIONS: [&str; 14] = [
    "input-required-result-basic-elicitation",
    "input-required-result-basic-sampling",
    "input-required-result-basic-list-roots",
    "input-required-result-request-state",
    "input-required-result-multiple-input-requests",
    "input-required-result-multi-round",
    "input-required-result-missing-input-response",
    "input-required-result-non-tool-request",
    "input-required-result-result-type",
    "input-required-result-unsupported-methods",
    "input-required-result-tampered-state",
    "input-required-result-capability-check",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
];

/// Scenarios about tasks, and the rest of the one that is about requests without a session.
const TASKS: [&str; 10] = [
    "server-stateless",
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
];

/// The stand-in that has the suite's tools, on a home of its own.
struct StandIn {
    child: Child,
    address: String,
    token: String,
}

impl StandIn {
    /// `None`: it was not built.
    fn start(place: &Place) -> Option<Self> {
        let mut child = stand_in(place)?.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line.trim().split_once(' ').unwrap();
        Some(Self { child, address: address.to_owned(), token: token.to_owned() })
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs scenarios against the stand-in, and expects every check to pass.
fn all_pass(scenarios: &[&str]) {
    let parts = ["AGORA_TEST_NODE", "AGORA_TEST_MCP_CONFORMANCE", "AGORA_TEST_MCP_PYTHON"].map(part::find);
    let [Some(node), Some(suite), Some(python)] = parts else { return };
    let place = Place::new();
    let Some(stand_in) = StandIn::start(&place) else { return };
    let bearer = Bearer::start(&python, &stand_in.address, &stand_in.token);
    let found: Vec<(&str, Found)> =
        scenarios.iter().map(|name| (*name, scenario(&node, &suite, &bearer.url, name))).collect();
    let failed: Vec<_> = found.iter().filter(|(_, found)| !found.failed.is_empty()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(found.iter().all(|(_, found)| !found.passed.is_empty()));
}

#[test]
fn the_suites_questions_are_threads_on_our_own_ledger() {
    all_pass(&QUESTIONS);
}

#[test]
fn the_suites_tasks_are_threads_on_our_own_ledger() {
    all_pass(&TASKS);
}
