//! The server with the tools that the conformance suite wants to see: for tests, never shipped. Each of them is a subagent that asks, on a
//! ledger of our own, so that what the suite looks at is our pause, our sealed state and our tasks.
//!
//! Usage: `mcp_fixtures AGORA`, with `AGORA_HOME` set. Registers the subagents, listens, and prints `ADDRESS TOKEN`.
#![expect(clippy::print_stdout, reason = "it says where it listens")]
#![expect(clippy::unwrap_used, reason = "a fixture fails loudly")]

#[path = "../../src/answer_line.rs"]
mod answer_line;
mod handler;
#[path = "../../src/mcp/mod.rs"]
#[expect(dead_code, reason = "the command line uses the rest")]
mod mcp;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agora_core::ThreadId;
use agora_core::time::Clock;
use agora_engine::{Agora, Error, Settings, SystemClock};
use handler::{Fixtures, Partial};
use mcp::{Around, Desk, Tokens, Trouble, bind};

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

/// The example itself, around the server.
#[derive(Debug)]
struct Here {
    home: PathBuf,
    agora: PathBuf,
}

impl Around for Here {
    fn open(&self) -> Result<Agora, Trouble> {
        let mut settings = Settings::with_worker(&self.agora);
        settings.targets.values_mut().for_each(|target| target.max_concurrent = 8);
        Ok(Agora::open(&self.home).with_settings(settings))
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
    for (name, script) in SUBAGENTS {
        let program: &[&str] =
            if script.is_empty() { &["/no/such/program"] } else { &["/bin/sh", "-c", script] };
        let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
        let ran = Command::new(&agora).args(register).args(program).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    let around = Here { home, agora };
    let key = around.open().unwrap().engine().unwrap().world().keys.token_key();
    let token = Tokens::new(key).unwrap().issue(
        "suite".parse().unwrap(),
        0,
        Duration::from_secs(3600),
        SystemClock.now(),
    );
    let door = bind("127.0.0.1:0".parse().unwrap(), Tokens::new(key).unwrap()).await.unwrap();
    println!("{} {token}", door.address().unwrap());
    let desk = Arc::new(Desk::new(Box::new(around)));
    let partial = Partial::default();
    door.serve_as(move || Fixtures::new(Arc::clone(&desk), partial.clone())).await.unwrap();
}
