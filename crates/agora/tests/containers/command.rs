//! The built command with a target that runs containers, as a person uses it.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use agora_testkit::cli::{Cli, Ran};
use agora_testkit::part;
use serde_json::Value;

use super::place::{DOCKER, PODMAN, socket};
use super::proxy::Proxy;

/// A home with a target `box`, and the image that it uses.
fn place(socket: &Path) -> Cli {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    configure(&cli, socket, "");
    cli.run(&["image", "build", "--with", "tools", "--target", "box"]).success();
    cli
}

pub(super) fn configure(cli: &Cli, socket: &Path, more: &str) {
    let dir = cli.work().parent().unwrap().join("home/.config/agora");
    std::fs::create_dir_all(&dir).unwrap();
    let text = format!("[target.box]\ncompute = \"docker\"\nsocket = \"{}\"\n{more}", socket.display());
    std::fs::write(dir.join("agora.toml"), text).unwrap();
}

pub(super) fn agent(cli: &Cli, name: &str, script: &str) {
    let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
    cli.run(&[&register[..], &["/bin/sh", "-c", script]].concat()).success();
}

const RUN: [&str; 5] = ["dispatch", "run", "--target", "box", "--json"];

fn dispatch(cli: &Cli, agent: &str, more: &[&str]) -> Ran {
    cli.run(&[&RUN[..], &["--subagent", agent], more].concat())
}

/// Starts a dispatch whose agent waits for its end, and returns when it has begun.
fn begin(cli: &Cli) -> (Child, String) {
    let id = "d_mine";
    let mut command = cli.command(&[&RUN[..], &["--subagent", "waits", "--dispatch-id", id]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(|| cli.agora_home().join("dispatches/d_mine/work/began").exists());
    (child, id.to_owned())
}

/// Looks until something is so. The test runner ends a test for which it never is.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

fn end(child: Child) -> Ran {
    Ran::from(child.wait_with_output().unwrap())
}

/// Sees that no container of a home is left, by asking the daemon through the command itself.
pub(super) fn nothing_is_left(cli: &Cli) {
    let swept = cli.run(&["gc", "--dry-run", "--json"]).json();
    assert_eq!(swept["leftovers"], serde_json::json!([]), "{swept}");
}

fn a_thread_goes_on_in_its_workspace(socket: &Path) {
    let cli = place(socket);
    cli.write("files/note.txt", "from a capability\n");
    cli.run(&["capability", "register", "--name", "notes", "--from", "files"]).success();
    agent(&cli, "adds", "cat note.txt; echo line >> made.txt; wc -l < made.txt");
    let first = dispatch(&cli, "adds", &["--capability", "notes"]).json();
    assert_eq!(first["output"]["text"].as_str().unwrap().lines().last(), Some("1"), "{first}");
    assert!(first["image"].as_str().unwrap().starts_with("sha256:"), "{first}");
    assert_eq!(first["patch"]["files"], 1);
    let id = first["dispatchId"].as_str().unwrap();
    let second = cli.run(&["continue", id, "--json"]).json();
    assert_eq!(second["output"]["text"].as_str().unwrap().lines().last(), Some("2"), "{second}");
    assert_eq!(second["image"], first["image"], "the same image, whatever its tag means now");
    nothing_is_left(&cli);
}

#[test]
fn docker_a_thread_goes_on_in_its_workspace() {
    let Some(socket) = socket(DOCKER) else { return };
    a_thread_goes_on_in_its_workspace(&socket);
}

#[test]
fn podman_a_thread_goes_on_in_its_workspace() {
    let Some(socket) = socket(PODMAN) else { return };
    a_thread_goes_on_in_its_workspace(&socket);
}

#[test]
fn docker_a_cancel_ends_the_container() {
    let Some(socket) = socket(DOCKER) else { return };
    let cli = place(&socket);
    agent(&cli, "waits", "echo > began; exec sleep 1000");
    let (child, id) = begin(&cli);
    cli.run(&["cancel", &id]).success();
    let ran = end(child);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["state"], "cancelled");
    nothing_is_left(&cli);
}

fn an_engine_that_is_killed_is_replaced(socket: &Path) {
    let cli = place(socket);
    agent(&cli, "waits", "echo > began; until [ -e go ]; do sleep 0.05; done; echo went on");
    let (mut child, id) = begin(&cli);
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = cli.run(&["show", &id, "--json"]).json();
    let live = ["starting", "running"].contains(&shown["state"].as_str().unwrap());
    assert!(live, "the worker outlives its engine: {shown}");
    std::fs::write(cli.agora_home().join("dispatches/d_mine/work/go"), "").unwrap();
    cli.run(&["dispatch", "watch", &id, "--json"]).success();
    let shown = cli.run(&["show", &id, "--json"]).json();
    assert_eq!((&shown["state"], shown["output"]["text"].as_str()), (&"finished".into(), Some("went on\n")));
    nothing_is_left(&cli);
}

#[test]
fn docker_an_engine_that_is_killed_is_replaced() {
    let Some(socket) = socket(DOCKER) else { return };
    an_engine_that_is_killed_is_replaced(&socket);
}

#[test]
fn podman_an_engine_that_is_killed_is_replaced() {
    let Some(socket) = socket(PODMAN) else { return };
    an_engine_that_is_killed_is_replaced(&socket);
}

/// The daemon goes away in the middle of a run and comes back: nobody notices but by the time that it takes.
#[test]
fn docker_a_daemon_that_comes_back_is_waited_for() {
    let Some(socket) = socket(DOCKER) else { return };
    let mut proxy = Proxy::to(&socket);
    let cli = place(&proxy.socket());
    agent(&cli, "waits", "echo > began; until [ -e go ]; do sleep 0.05; done; echo went on");
    let (child, _) = begin(&cli);
    proxy.shut();
    // It ends while nobody can be asked about it: what it left is in files.
    std::fs::write(cli.agora_home().join("dispatches/d_mine/work/go"), "").unwrap();
    until(|| cli.agora_home().join("dispatches/d_mine/out/outcome.json").exists());
    proxy.open();
    let ran = end(child);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["state"], "finished");
    nothing_is_left(&cli);
}

/// It stays away for longer than anybody waits: whoever waited is told, and the dispatch is not lost.
#[test]
fn docker_a_daemon_that_stays_away_is_said_and_nothing_is_lost() {
    let Some(socket) = socket(DOCKER) else { return };
    let mut proxy = Proxy::to(&socket);
    let cli = place(&proxy.socket());
    agent(&cli, "waits", "echo > began; until [ -e go ]; do sleep 0.05; done; echo went on");
    let (child, id) = begin(&cli);
    // The agent may begin long before its engine comes to follow it: that it is followed is recorded.
    until(|| cli.run(&["show", &id, "--json"]).json()["state"] == "running");
    proxy.shut();
    let ran = end(child);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("compute-unreachable"), "{}", ran.stdout);
    let out = cli.agora_home().join("dispatches/d_mine/out");
    let ended = std::fs::read_to_string(out.join("outcome.json"));
    assert!(ended.is_err(), "whoever gave up waiting ended nothing: {ended:?}");
    std::fs::write(cli.agora_home().join("dispatches/d_mine/work/go"), "").unwrap();
    proxy.open();
    let told = cli.run(&["dispatch", "watch", &id, "--json"]).success();
    let shown = cli.run(&["show", &id, "--json"]).json();
    assert_eq!(shown["state"], "finished", "{told}{shown}");
    nothing_is_left(&cli);
}

/// Without a daemon, or without an image, nothing is accepted, and what is said tells what to do.
#[test]
fn docker_what_is_missing_is_said_before_anything_is_accepted() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    configure(&cli, &PathBuf::from("/nowhere/docker.sock"), "");
    agent(&cli, "any", "true");
    let run = ["dispatch", "run", "--target", "box", "--subagent", "any"];
    let told = cli.run(&run).failure(3);
    assert!(told.contains("no daemon listens") && told.contains("hint: `agora doctor`"), "{told}");
    if let Some(socket) = socket(DOCKER) {
        configure(&cli, &socket, "image = \"agora/none:1\"\n");
        let told = cli.run(&run).failure(3);
        assert!(told.contains("there is no image `agora/none:1`"), "{told}");
        assert!(told.contains("hint: `agora image build --name agora/none:1"), "{told}");
    } else {
        part::skipped("an image that is missing");
    }
    assert_eq!(cli.run(&["ls", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn docker_an_image_of_another_agora_is_noticed() {
    let Some(socket) = socket(DOCKER) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let recipe = agora_providers::compute::image::Recipe {
        name: "agora/old:1".into(),
        worker: env!("CARGO_BIN_EXE_agora").into(),
        version: "0.0.1".into(),
        with: Vec::new(),
        path: "/bin".into(),
    };
    let daemon = agora_providers::compute::Daemon::at(vec![socket.clone()]);
    runtime.block_on(agora_providers::compute::image::build(&daemon, recipe)).unwrap();
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    configure(&cli, &socket, "image = \"agora/old:1\"\n");
    agent(&cli, "any", "true");
    let told = cli.run(&["dispatch", "run", "--target", "box", "--subagent", "any"]).failure(3);
    assert!(told.contains("its worker is of agora 0.0.1"), "{told}");
}
