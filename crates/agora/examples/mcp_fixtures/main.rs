//! The server with the tools that the conformance suite wants to see: for tests, never shipped. Each of them is a subagent that asks, on a
//! ledger of our own, so that what the suite looks at is our pause, our sealed state and our tasks.
//!
//! Usage: `mcp_fixtures AGORA`, with `AGORA_HOME` set. Registers the subagents, listens, and prints `ADDRESS TOKEN`.
//!
//! `mcp_fixtures AGORA CLOCK stdio|http` is the server with its own nine tools, as it ships but for its clock: that is the system's, and as
//! many milliseconds later as the file `CLOCK` says. What takes a day can be tested so.
#![expect(clippy::print_stdout, reason = "it says where it listens")]
#![expect(clippy::unwrap_used, reason = "a fixture fails loudly")]

#[path = "../../src/answer_line.rs"]
mod answer_line;
mod handler;
#[path = "../../src/mcp/mod.rs"]
mod mcp;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agora_core::time::{Clock, Timestamp};
use agora_core::{Namespace, ThreadId};
use agora_engine::{Agora, Error, Settings, SystemClock};
use agora_providers::home::Home;
use handler::{Fixtures, Partial};
use mcp::{Around, Desk, Entrance, Lines, Loopback, Server, Tokens, Trouble, bind};
use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

/// Subagents, each with its script. A question's item ids are what the suite calls its requests.
const SUBAGENTS: [(&str, &str); 10] = [
    (
        "name",
        r#"[ -f .agora/resume.json ] && { tr -d '\n' < .agora/resume.json; exit; }; echo '{"questions": [{"id": "user_name", "question": "What is your name?"}]}' > .agora/needs_input.json"#,
    ),
    (
        "sampling",
        r#"[ -f .agora/resume.json ] && { tr -d '\n' < .agora/resume.json; exit; }; echo '{"questions": [{"id": "capital_question", "question": "What is the capital of France?"}]}' > .agora/needs_input.json"#,
    ),
    (
        "roots",
        r#"[ -f .agora/resume.json ] && { tr -d '\n' < .agora/resume.json; exit; }; echo '{"questions": [{"id": "client_roots", "question": "Where?"}]}' > .agora/needs_input.json"#,
    ),
    (
        "confirm",
        r#"[ -f .agora/resume.json ] && { echo state-ok; exit; }; echo '{"questions": [{"id": "confirm", "question": "Please confirm"}]}' > .agora/needs_input.json"#,
    ),
    (
        "many",
        r#"[ -f .agora/resume.json ] && { echo done; exit; }; echo '{"questions": [{"id": "user_name", "question": "What is your name?"}, {"id": "capital_question", "question": "Greeting?"}, {"id": "client_roots", "question": "Where?"}]}' > .agora/needs_input.json"#,
    ),
    (
        "two",
        r#"[ -f .agora/resume.json ] && { echo done; exit; }; echo '{"questions": [{"id": "first", "question": "First?"}, {"id": "second", "question": "Second?"}]}' > .agora/needs_input.json"#,
    ),
    (
        "rounds",
        r#"case $(cat asked 2>/dev/null) in "") echo 1 > asked; echo '{"questions": [{"id": "step1", "question": "Step 1: What is your name?"}]}' > .agora/needs_input.json;; 1) echo 2 > asked; echo '{"questions": [{"id": "step2", "question": "Step 2: What is your favorite color?"}]}' > .agora/needs_input.json;; *) echo done;; esac"#,
    ),
    ("slow", r#"sleep $(grep -o '[0-9]*' .agora/input.json | head -n 1); echo computed"#),
    ("failing", "echo trying; exit 3"),
    ("broken", ""),
];

/// The system's clock, and as many milliseconds more as a file says.
#[derive(Clone, Debug)]
struct Ahead(Option<PathBuf>);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let more = self.0.as_ref().and_then(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok());
        SystemClock.now().plus(Duration::from_millis(more.unwrap_or_default()))
    }
}

/// The example itself, around the server.
#[derive(Debug)]
struct Here {
    home: PathBuf,
    agora: PathBuf,
    clock: Ahead,
}

impl Around for Here {
    fn open(&self) -> Result<Agora, Trouble> {
        let mut settings = Settings::with_worker(&self.agora);
        settings.targets.values_mut().for_each(|target| target.max_concurrent = 8);
        let (home, clock) = (Home::new(&self.home), Arc::new(self.clock.clone()));
        Ok(Agora::with(home, Namespace::default(), clock).with_settings(settings))
    }

    #[expect(clippy::disallowed_methods, reason = "the carrier is the real command")]
    fn carry(&self, threads: &[ThreadId]) -> Result<(), Trouble> {
        let mut carrier = Command::new(&self.agora);
        carrier.args(["carry", "--namespace", "default"]).args(threads.iter().map(ThreadId::as_str));
        carrier
            .env("AGORA_HOME", &self.home)
            .spawn()
            .map(drop)
            .map_err(|error| Trouble::new("no-carrier", error.to_string()))
    }

    fn explain(&self, error: Error) -> Trouble {
        Trouble::new(error.code(), error.to_string())
    }

    fn person(&self) -> String {
        "user:suite".to_owned()
    }

    fn workspaces(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

#[tokio::main(flavor = "current_thread")]
#[expect(
    clippy::disallowed_methods,
    reason = "subagents are registered by the real command, as a person does it"
)]
async fn main() {
    let agora = PathBuf::from(std::env::args_os().nth(1).unwrap());
    let home = PathBuf::from(std::env::var_os("AGORA_HOME").unwrap());
    let clock = Ahead(std::env::args_os().nth(2).map(PathBuf::from));
    if let Some(door) = std::env::args().nth(3) {
        return serve_ahead(Here { home, agora, clock }, &door).await;
    }
    for (name, script) in SUBAGENTS {
        let program: &[&str] =
            if script.is_empty() { &["/no/such/program"] } else { &["/bin/sh", "-c", script] };
        let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
        let ran = Command::new(&agora).args(register).args(program).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    let around = Here { home, agora, clock };
    let key = around.open().unwrap().engine().unwrap().world().keys.token_key();
    let token = Tokens::new(key).unwrap().issue(
        "suite".parse().unwrap(),
        0,
        Duration::from_secs(3600),
        SystemClock.now(),
    );
    let door = bind(here(), Tokens::new(key).unwrap()).await.unwrap();
    println!("{} {token}", door.address());
    let desk = Arc::new(Desk::new(Box::new(around)));
    let partial = Partial::default();
    door.serve_as(move || Fixtures::new(Arc::clone(&desk), partial.clone())).await.unwrap();
}

/// Any free port of this machine alone.
fn here() -> Loopback {
    "127.0.0.1:0".parse().unwrap()
}

/// Serves what ships, with a clock that a test sets.
async fn serve_ahead(around: Here, door: &str) {
    let key = around.open().unwrap().engine().unwrap().world().keys.token_key();
    let desk = Arc::new(Desk::new(Box::new(around)));
    if door == "stdio" {
        let (read, write) = stdio_pipes();
        let transport = Entrance::new(Lines::new(read, write));
        let server = Server::alone(desk, "ahead").serve(transport).await;
        server.unwrap().waiting().await.unwrap();
        return;
    }
    let door = bind(here(), Tokens::new(key).unwrap()).await.unwrap();
    println!("{}", door.address());
    door.serve(desk).await.unwrap();
}
