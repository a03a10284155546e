//! A home with agents that are shell scripts, and two clients: one that others wrote, and one that says whatever a test wants.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use agora_engine::{Agora, Settings};
use agora_testkit::cli::Cli;
use agora_testkit::ledger::fill;
use agora_testkit::part;
use serde_json::{Value, json};

/// Asks twice, and ends with both answers.
pub(crate) const ASKS_TWICE: &str = r#"case $(cat asked 2>/dev/null) in
  "") echo 1 > asked; echo '{"question": "Which database?", "options": ["sqlite", "postgres"], "context": "Both are there."}' > .agora/needs_input.json;;
  1) echo 2 > asked; cp .agora/resume.json first.json; echo '{"question": "Which name?"}' > .agora/needs_input.json;;
  2) echo "first $(cat first.json)"; echo "then $(cat .agora/resume.json)";;
esac"#;

/// Asks once, with options.
pub(crate) const ASKS: &str = r#"if [ -f .agora/resume.json ]; then cat .agora/resume.json; exit; fi
echo '{"question": "Which?", "options": ["a", "b"]}' > .agora/needs_input.json"#;

/// A home of its own.
pub(crate) struct Place {
    pub(crate) cli: Cli,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { cli: Cli::new(env!("CARGO_BIN_EXE_agora")) }
    }

    pub(crate) fn agent(&self, name: &str, script: &str) {
        let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
        self.cli.run(&[&register[..], &["/bin/sh", "-c", script]].concat()).success();
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        self.cli.run(&["show", id, "--json"]).json()
    }

    pub(crate) fn thread(&self, id: &str) -> Value {
        self.cli.run(&["thread", "show", id, "--json"]).json()
    }

    /// Records as many threads that began like that of a dispatch, and wait for an answer.
    pub(crate) fn fill(&self, like: &str, numbers: std::ops::Range<u64>) {
        let settings = Settings::with_worker(env!("CARGO_BIN_EXE_agora"));
        let agora = Agora::open(self.cli.agora_home()).with_settings(settings);
        let ledger = agora.engine().unwrap().world().ledger.clone();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let like = ledger.dispatch(&like.parse().unwrap()).await.unwrap().unwrap().job;
            fill::paused(&ledger, &like, numbers).await;
        });
    }

    /// Returns what a dispatch's worker was told.
    pub(crate) fn manifest(&self, dispatch: &str) -> Value {
        let file = self.cli.agora_home().join("dispatches").join(dispatch).join("in/manifest.json");
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }

    /// Returns the record that answered or declined the last question of a thread.
    pub(crate) fn closing(&self, thread: &str) -> Value {
        let story = self.cli.run(&["dispatch", "watch", thread, "--json"]).success();
        let mut entries = story.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let closing = ["question.answered", "question.declined"];
        entries.rfind(|entry| closing.iter().any(|kind| entry.to_string().contains(kind))).unwrap()
    }

    /// What a client starts, with the environment that it needs.
    fn environment(&self) -> Value {
        let command = self.cli.command(&["mcp"]);
        let set = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), json!(value?.to_str()?))));
        Value::Object(set.collect())
    }
}

/// The client of the PyPI package `mcp`.
pub(crate) struct Python {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) version: String,
}

/// How the client speaks, and what a person does with the forms that it shows.
pub(crate) struct Manner<'a> {
    pub(crate) mode: &'a str,
    /// `None`: it shows no forms.
    pub(crate) forms: Option<Vec<Value>>,
}

impl Python {
    /// Starts it with a server of its own. `None`: the real part is not here.
    pub(crate) fn start(place: &Place, manner: Manner<'_>) -> Option<Self> {
        let plan = json!({
            "command": env!("CARGO_BIN_EXE_agora"), "args": ["mcp"], "env": place.environment(), "cwd": place.cli.work(),
            "mode": manner.mode, "forms": manner.forms,
        });
        Self::with(&plan)
    }

    /// Starts it with a server that listens.
    pub(crate) fn connect(url: &str, token: &str, manner: Manner<'_>) -> Option<Self> {
        Self::with(&json!({"url": url, "token": token, "mode": manner.mode, "forms": manner.forms}))
    }

    fn with(plan: &Value) -> Option<Self> {
        let python = part::find("AGORA_TEST_MCP_PYTHON")?;
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/drive.py");
        let mut child = agora_testkit::cli::command(python.to_str().unwrap())
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut python = Self { child, stdin, stdout, version: String::new() };
        python.say(plan);
        python.version = python.hear()["version"].as_str().unwrap().to_owned();
        Some(python)
    }

    fn say(&mut self, document: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{document}").unwrap();
        stdin.flush().unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        self.say(request);
        self.hear()
    }

    /// Calls a tool; what comes back is the whole answer with the forms that were shown until then.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask(&json!({"do": "call", "tool": tool, "arguments": arguments}))
    }

    /// Calls a tool that must succeed, and returns its structured content.
    #[track_caller]
    pub(crate) fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["answer"]["isError"], false, "{answer}");
        answer["answer"]["structuredContent"].clone()
    }

    /// Dispatches one, and returns its thread.
    pub(crate) fn dispatch(&mut self, subagent: &str) -> String {
        let started = self.done("agora_dispatch", json!({"subagent": subagent, "input": {}}));
        started["dispatches"][0]["threadId"].as_str().unwrap().to_owned()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Returns what every request of the newest version says of its client.
fn newest(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Makes the command that starts `examples/mcp_fixtures` on a home. `None`: it was not built, because only some targets were.
pub(crate) fn stand_in(place: &Place) -> Option<Command> {
    let agora = Path::new(env!("CARGO_BIN_EXE_agora"));
    let program = agora.parent().unwrap().join("examples/mcp_fixtures");
    if !program.is_file() {
        part::skipped("examples/mcp_fixtures is not built; `cargo test -p agora` builds it");
        return None;
    }
    let set = place.cli.command::<&str>(&[]);
    let mut stand_in = agora_testkit::cli::command(program.to_str().unwrap());
    stand_in.arg(agora).env_clear().envs(set.get_envs().filter_map(|(name, value)| Some((name, value?))));
    stand_in.current_dir(place.cli.work());
    Some(stand_in)
}

/// A client of our own, line by line.
pub(crate) struct Wire {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    meta: Value,
}

impl Wire {
    /// Starts a server, and speaks the newest version without a handshake.
    pub(crate) fn start(place: &Place, capabilities: Value) -> Self {
        Self::with_newest(place.cli.command(&["mcp"]), capabilities)
    }

    /// Starts a server, and shakes hands as the older versions do.
    pub(crate) fn start_old(place: &Place, version: &str, capabilities: Value) -> Self {
        let mut wire = Self::open(place, &["mcp"]);
        let hello = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "wire", "version": "1"}});
        let said = wire.request("initialize", hello);
        assert_eq!(said["result"]["protocolVersion"], version, "{said}");
        wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        wire
    }

    pub(crate) fn open(place: &Place, arguments: &[&str]) -> Self {
        Self::with(place.cli.command(arguments))
    }

    /// Speaks with a server that is started so, in the newest version.
    pub(crate) fn with_newest(server: Command, capabilities: Value) -> Self {
        let mut wire = Self::with(server);
        wire.meta = newest(capabilities);
        wire
    }

    fn with(mut server: Command) -> Self {
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, next: 0, meta: Value::Null }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.send_bytes(format!("{text}\n").as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Reads the next message. Whatever is on standard output is one.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// Sends a request, and returns its id.
    pub(crate) fn post(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if !self.meta.is_null() {
            let given = params.get("_meta").cloned();
            params["_meta"] = self.meta.clone();
            for (key, value) in given.iter().filter_map(Value::as_object).flatten() {
                params["_meta"][key] = value.clone();
            }
        }
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request, and returns the answer to it. What else comes before is left aside.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params);
        self.answer(id)
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Waits for a thread, and returns when the server says that it does, with the call's id.
    pub(crate) fn begin_to_wait(&mut self, thread: &str) -> u64 {
        let arguments = json!({"threads": [thread]});
        let meta = json!({"progressToken": thread});
        let call =
            self.post("tools/call", json!({"name": "agora_wait", "arguments": arguments, "_meta": meta}));
        while self.receive()["method"] != "notifications/progress" {}
        call
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    #[track_caller]
    pub(crate) fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    pub(crate) fn dispatch(&mut self, subagent: &str) -> String {
        let started = self.done("agora_dispatch", json!({"subagent": subagent, "input": {}}));
        started["dispatches"][0]["threadId"].as_str().unwrap().to_owned()
    }

    /// Closes this end, and waits for the server to end.
    pub(crate) fn close(&mut self) -> std::process::ExitStatus {
        drop(self.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the error that a tool's refusal has.
#[track_caller]
pub(crate) fn refusal(answer: &Value) -> Value {
    let result = answer.get("answer").or(answer.get("result")).unwrap_or(answer);
    assert_eq!(result["isError"], true, "{answer}");
    let text = result["content"][0]["text"].as_str().unwrap();
    serde_json::from_str::<Value>(text).unwrap()["error"].clone()
}
