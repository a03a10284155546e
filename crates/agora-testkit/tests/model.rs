//! The scripted model: its wire with a plain socket, and the real agents against it.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts the agents"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use agora_testkit::model::{Cut, Model, Turn};
use agora_testkit::part;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A plain client that keeps its connection.
struct Client(BufReader<TcpStream>);

/// An answer as the client saw it. The body of a stream that was cut ends where it was cut.
#[derive(Debug)]
struct Seen {
    status: u16,
    head: String,
    body: String,
    whole: bool,
}

impl Client {
    fn new(model: &Model) -> Self {
        Self(BufReader::new(TcpStream::connect(model.url().strip_prefix("http://").unwrap()).unwrap()))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn post(&mut self, path: &str, body: &Value) -> Seen {
        let body = body.to_string();
        self.send(&format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        self.receive().unwrap()
    }

    /// Reads an answer, or `None` when the connection closes without one.
    fn receive(&mut self) -> Option<Seen> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).unwrap() == 0 {
                return None;
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let (body, whole) = match length {
            None => self.receive_chunks(),
            Some(length) => {
                let length = length.parse().unwrap();
                let mut body = Vec::new();
                (&mut self.0).take(length).read_to_end(&mut body).unwrap();
                let whole = body.len() as u64 == length;
                (body, whole)
            }
        };
        Some(Seen { status, head, body: String::from_utf8(body).unwrap(), whole })
    }

    fn receive_chunks(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return (body, false);
            }
            let size = u64::from_str_radix(line.trim_end(), 16).unwrap();
            (&mut self.0).take(size).read_to_end(&mut body).unwrap();
            let mut end = [0; 2];
            self.0.read_exact(&mut end).unwrap();
            if size == 0 {
                return (body, true);
            }
        }
    }
}

impl Seen {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns the data of the events of a stream.
    fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    fn event_types(&self) -> Vec<String> {
        self.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }
}

fn streamed() -> Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]})
}

#[test]
fn one_connection_plays_a_script_to_its_end() {
    let calls = vec![("Read".to_owned(), json!({"file_path": "a"})), ("Glob".to_owned(), json!({}))];
    let script = vec![Turn::tools(calls).with_usage(7, 8), Turn::text("bye").with_header("x-a", "b")];
    let model = Model::start(script);
    let mut client = Client::new(&model);

    let first = client.post("/v1/messages?beta=true", &streamed());
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let expected = [&["message_start"][..], &block, &block, &["message_delta", "message_stop"]].concat();
    assert_eq!(first.event_types(), expected);
    assert!(first.status == 200 && first.whole);
    let events = first.events();
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 7);
    assert_eq!(
        events[2]["delta"],
        json!({"type": "input_json_delta", "partial_json": r#"{"file_path":"a"}"#})
    );
    assert_eq!(events[7]["delta"], json!({"stop_reason": "tool_use", "stop_sequence": null}));
    assert_eq!(events[7]["usage"], json!({"output_tokens": 8}));

    let second = client.post("/v1/messages", &json!({"model": "m", "system": "be good"}));
    assert!(second.head.contains("x-a: b\r\n"));
    let second = second.json();
    assert_eq!(second["content"], json!([{"type": "text", "text": "bye"}]));
    assert_eq!(second["stop_reason"], "end_turn");
    assert!(!model.overrun());
    assert!(client.post("/v1/messages", &streamed()).body.contains("(script over)"));
    assert!(model.overrun());

    let requests = model.requests();
    let paths: Vec<_> = requests.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/v1/messages?beta=true", "/v1/messages", "/v1/messages"]);
    assert!(requests[0].holds("ell") && !requests[1].holds("ell"));
    assert_eq!(requests[1].system_text(), "be good");
}

#[test]
fn the_shell_is_what_the_request_offers() {
    let shell = |tool: &str| json!({"stream": true, "tools": [{"type": "function", "name": tool}]});
    let model = Model::start_with(|_| Turn::shell("ls"));
    let mut client = Client::new(&model);
    let mut call = |path: &str, tool: &str| client.post(path, &shell(tool)).events().swap_remove(2);
    assert_eq!(
        call("/v1/messages", "Bash")["delta"]["partial_json"],
        r#"{"command":"ls","description":"Runs a command"}"#
    );
    for (tool, arguments) in [
        ("exec_command", r#"{"cmd":"ls","yield_time_ms":30000}"#),
        ("shell_command", r#"{"command":"ls"}"#),
        ("shell", r#"{"command":["bash","-c","ls"]}"#),
    ] {
        let item = &call("/v1/responses", tool)["item"];
        assert_eq!((item["name"].as_str(), item["arguments"].as_str()), (Some(tool), Some(arguments)));
    }
}

#[test]
fn a_call_takes_the_form_of_the_offered_tool() {
    let tools = json!([
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "ask"}]},
        {"type": "web_search"},
    ]);
    let model =
        Model::start(vec![Turn::tool("apply_patch", json!("*** Begin")), Turn::tool("mcp.ask", json!({}))]);
    let mut client = Client::new(&model);
    let mut item = || client.post("/v1/responses", &json!({"tools": tools})).json()["output"][0].take();
    let (patch, ask) = (item(), item());
    assert_eq!((&patch["type"], &patch["input"]), (&json!("custom_tool_call"), &json!("*** Begin")));
    assert_eq!((&ask["type"], &ask["name"]), (&json!("function_call"), &json!("ask")));
    assert_eq!(ask["namespace"], "mcp");
    assert_eq!(model.requests()[0].tools(), ["apply_patch", "mcp.ask", "web_search"]);
}

#[test]
fn errors_come_as_often_as_they_should() {
    let busy = Turn::error_times(2, 529, "overloaded_error", "busy").with_header("retry-after", "3");
    let model = Model::start(vec![busy, Turn::error(400, "bad", "no"), Turn::text("ok")]);
    let mut client = Client::new(&model);
    for _ in 0..2 {
        let refused = client.post("/v1/messages", &streamed());
        assert!(refused.status == 529 && refused.head.contains("retry-after: 3\r\n"));
        assert_eq!(refused.json()["error"], json!({"type": "overloaded_error", "message": "busy"}));
    }
    let refused = client.post("/v1/responses", &streamed());
    assert_eq!((refused.status, &refused.json()["error"]["message"]), (400, &json!("no")));
    assert_eq!(client.post("/v1/messages", &streamed()).status, 200);
    assert_eq!(model.requests().len(), 4);
}

#[test]
fn a_cut_stream_ends_where_it_was_cut() {
    let text = || Turn::text("a long text");
    let cuts =
        [Cut::Events(3), Cut::Events(0), Cut::Bytes(10), Cut::Bytes(usize::MAX), Cut::Events(usize::MAX)];
    let model = Model::start(cuts.iter().map(|cut| Turn::cut_after(*cut, text())).chain([text()]).collect());
    let seen: Vec<_> = cuts.iter().map(|_| Client::new(&model).post("/v1/messages", &streamed())).collect();
    let whole = Client::new(&model).post("/v1/messages", &streamed());
    assert!(whole.whole && seen.iter().all(|seen| seen.status == 200 && !seen.whole));
    assert_eq!(seen[0].event_types(), ["message_start", "content_block_start", "content_block_delta"]);
    assert_eq!((seen[1].body.as_str(), seen[2].body.as_str()), ("", "event: mes"));
    assert_eq!(seen[3].body.len() + 1, whole.body.len());
    assert_eq!(seen[4].events().len() + 1, whole.events().len());
}

#[test]
fn the_end_reaches_whoever_waits() {
    let late = Turn::delay(Duration::from_secs(3600), Turn::text("late"));
    let model = Model::start(vec![Turn::hang(), late, Turn::hang()]);
    let mut idle = Client::new(&model);
    let mut half = Client::new(&model);
    half.send("POST /v1/messages HTTP/1.1\r\ncontent-length: 5\r\n\r\nab");
    let body = streamed().to_string();
    let mut waiting: Vec<_> = (0..3).map(|_| Client::new(&model)).collect();
    for client in &mut waiting {
        client.send(&format!("POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    }
    assert_eq!(model.wait_for_requests(3).len(), 3);
    let address = model.url();
    drop(model);
    for client in &mut waiting {
        assert!(client.receive().is_none());
    }
    assert!(idle.receive().is_none());
    assert!(TcpStream::connect(address.strip_prefix("http://").unwrap()).is_err());
}

#[test]
fn a_delay_is_over_at_some_time() {
    let turn = Turn::delay(Duration::from_millis(1), Turn::text("a")).with_usage(1, 2);
    let model = Model::start(vec![turn]);
    assert_eq!(Client::new(&model).post("/v1/messages", &streamed()).status, 200);
}

#[test]
fn a_function_sees_the_request() {
    let mut count = 0;
    let model = Model::start_with(move |request| {
        count += 1;
        Turn::text(format!("{count} {}", request.body["model"]))
    });
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Client::new(&model);
            thread::spawn(move || client.post("/v1/messages", &json!({"model": "m"})).json())
        })
        .collect();
    let mut texts: Vec<_> = clients
        .into_iter()
        .map(|client| client.join().unwrap()["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    texts.sort();
    assert_eq!(texts, ["1 \"m\"", "2 \"m\"", "3 \"m\"", "4 \"m\""]);
}

#[test]
#[should_panic(expected = "the model's script panicked")]
fn a_function_that_fails_fails_the_test() {
    let model = Model::start_with(|_| panic!("not what the test expected"));
    let mut client = Client::new(&model);
    client.send("POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}");
    assert!(client.receive().is_none());
}

#[test]
fn what_is_not_for_the_model_is_harmless() {
    let model = Model::start(vec![]);
    let mut client = Client::new(&model);
    client.send("HEAD / HTTP/1.1\r\n\r\n");
    // A head announces the length of what it does not send.
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        client.0.read_line(&mut head).unwrap();
    }
    client.send("GET /v1/models HTTP/1.1\r\n\r\n");
    assert_eq!(client.receive().unwrap().json()["data"], json!([]));
    assert_eq!(client.post("/v1/messages/count_tokens", &json!({})).json(), json!({"input_tokens": 100}));
    assert_eq!(model.others(), ["HEAD /", "GET /v1/models", "POST /v1/messages/count_tokens"]);

    for broken in ["hello\r\n\r\n", "POST /v1/messages HTTP/1.1\r\ncontent-length: 1\r\n\r\n{"] {
        let mut client = Client::new(&model);
        client.send(broken);
        assert_eq!(client.receive().unwrap().status, 400);
        assert!(client.receive().is_none());
    }
    assert_eq!((model.requests(), model.overrun()), (vec![], false));
}

/// A real agent in a place of its own.
struct Agent {
    program: PathBuf,
    place: TempDir,
}

impl Agent {
    fn find(variable: &str) -> Option<Self> {
        let program = part::find(variable)?;
        let place = tempfile::tempdir().unwrap();
        for dir in ["home", "work", "tmp"] {
            fs::create_dir(place.path().join(dir)).unwrap();
        }
        Some(Self { program, place })
    }

    fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.place.path().join("home"))
            // Claude leaves files behind in there.
            .env("TMPDIR", self.place.path().join("tmp"))
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    fn claude(&self, model: &Model) -> Command {
        let mut command = self.command();
        command
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("ANTHROPIC_API_KEY", "dummy")
            // Claude wants to hear this before root may skip permissions.
            .env("IS_SANDBOX", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .args(["--print", "Do the task", "--dangerously-skip-permissions", "--output-format", "json"]);
        command
    }

    fn codex(&self, model: &Model) -> Command {
        let retries = "request_max_retries=1,stream_max_retries=1";
        let provider = format!(
            r#"model_providers.x={{name="x",base_url="{}/v1",env_key="MODEL_KEY",wire_api="responses",{retries}}}"#,
            model.url()
        );
        let mut command = self.command();
        command
            .env("CODEX_HOME", self.place.path().join("home"))
            .env("MODEL_KEY", "dummy")
            .args(["exec", "-c", "model_provider=x", "-c", &provider, "-c", r#"model="gpt-5-codex""#])
            .args([
                "--json",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "Do the task",
            ]);
        command
    }
}

/// Returns the exit code and what an agent printed, line by line.
#[expect(clippy::print_stdout, reason = "the test runner shows it when the test fails")]
fn run(command: &mut Command) -> (Option<i32>, Vec<Value>) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stdout = String::from_utf8(stdout).unwrap();
    let lines = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    print!("{stdout}{}", String::from_utf8_lossy(&stderr));
    (status.code(), lines)
}

/// Returns the exit code and what stands under these names in claude's envelope.
fn envelope<const N: usize>(command: &mut Command, names: [&str; N]) -> (Option<i32>, [Value; N]) {
    let (code, mut lines) = run(command);
    assert_eq!(lines.len(), 1);
    (code, names.map(|name| lines[0][name].take()))
}

#[test]
fn claude_plays_a_script() {
    let Some(agent) = Agent::find("AGORA_TEST_CLAUDE") else { return };
    let file = agent.work().join("sub/file");
    let model = Model::start(vec![
        Turn::shell("echo from the shell | tee out"),
        Turn::write_file(file.to_str().unwrap(), "written"),
        Turn::text("all done").with_usage(1, 2),
    ]);
    let (code, found) = envelope(&mut agent.claude(&model), ["type", "is_error", "result", "num_turns"]);
    assert_eq!((code, found), (Some(0), [json!("result"), json!(false), json!("all done"), json!(3)]));
    assert_eq!(fs::read_to_string(agent.work().join("out")).unwrap(), "from the shell\n");
    assert_eq!(fs::read_to_string(file).unwrap(), "written");

    let requests = model.requests();
    assert_eq!((requests.len(), model.overrun(), model.others()), (3, false, vec![]));
    assert!(requests[0].holds("Do the task") && !requests[0].holds("from the shell"));
    assert!(requests[1].holds("from the shell"), "the tool's result comes back");
    assert!(["Bash", "Write"].iter().all(|tool| requests[0].tools().contains(&(*tool).to_owned())));
    assert!(requests[0].system_text().contains("Claude"));
    assert_eq!(requests[0].headers["x-api-key"], "dummy");
}

#[test]
fn claude_asks_an_overloaded_model_again() {
    let Some(agent) = Agent::find("AGORA_TEST_CLAUDE") else { return };
    let model = Model::start(vec![Turn::error_times(2, 529, "overloaded_error", "busy"), Turn::text("done")]);
    let (code, found) = envelope(&mut agent.claude(&model), ["is_error", "result"]);
    assert_eq!((code, found), (Some(0), [json!(false), json!("done")]));
    assert_eq!((model.requests().len(), model.overrun()), (3, false));
}

#[test]
fn claude_does_not_run_a_call_that_was_cut() {
    let Some(agent) = Agent::find("AGORA_TEST_CLAUDE") else { return };
    // Start, opening, input, and no closing. A call that was closed before the cut it may run or not, as its timing has it.
    let model =
        Model::start(vec![Turn::cut_after(Cut::Events(3), Turn::shell("touch ran")), Turn::text("done")]);
    let (code, found) = envelope(&mut agent.claude(&model), ["is_error", "result"]);
    assert_eq!((code, found), (Some(0), [json!(false), json!("done")]));
    assert_eq!((model.requests().len(), agent.work().join("ran").exists()), (2, false));
}

#[test]
fn claude_tries_without_a_stream_when_streams_break() {
    let Some(agent) = Agent::find("AGORA_TEST_CLAUDE") else { return };
    let model = Model::start(vec![Turn::cut_after(Cut::Bytes(99), Turn::text("half")), Turn::text("done")]);
    let mut command = agent.claude(&model);
    let (code, found) = envelope(command.env("CLAUDE_CODE_MAX_RETRIES", "0"), ["is_error", "result"]);
    assert_eq!((code, found), (Some(0), [json!(false), json!("done")]));
    let streams: Vec<_> = model.requests().iter().map(|request| request.body["stream"] == true).collect();
    assert_eq!(streams, [true, false]);
}

#[test]
fn claude_says_that_its_key_is_wrong() {
    let Some(agent) = Agent::find("AGORA_TEST_CLAUDE") else { return };
    let model = Model::start(vec![Turn::error(401, "authentication_error", "invalid x-api-key")]);
    let mut command = agent.claude(&model);
    let names = ["is_error", "api_error_status", "api_error_type", "terminal_reason"];
    let (code, found) = envelope(command.env("CLAUDE_CODE_MAX_RETRIES", "0"), names);
    let expected = [json!(true), json!(401), json!("authentication_error"), json!("api_error")];
    assert_eq!((code, found), (Some(1), expected));
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn codex_plays_a_script() {
    let Some(agent) = Agent::find("AGORA_TEST_CODEX") else { return };
    let model = Model::start(vec![
        Turn::shell("echo from the shell | tee out"),
        Turn::write_file("sub/it's", "written\n"),
        Turn::tool("multi_agent_v1.close_agent", json!({"target": "nobody"})),
        Turn::text("all done").with_usage(1, 2),
    ]);
    let (code, lines) = run(&mut agent.codex(&model));
    let last = lines.last().unwrap();
    assert_eq!((code, &last["type"]), (Some(0), &json!("turn.completed")));
    assert_eq!((&last["usage"]["input_tokens"], &last["usage"]["output_tokens"]), (&json!(301), &json!(62)));
    assert!(lines.iter().any(|line| line["item"]["text"] == "all done"));
    assert_eq!(fs::read_to_string(agent.work().join("out")).unwrap(), "from the shell\n");
    assert_eq!(fs::read_to_string(agent.work().join("sub/it's")).unwrap(), "written\n");

    let requests = model.requests();
    assert_eq!((requests.len(), model.overrun(), model.others()), (4, false, vec![]));
    assert!(requests[0].holds("Do the task") && requests[1].holds("from the shell"));
    assert!(requests[3].holds("invalid agent id"), "a call in a namespace reaches its tool");
    assert!(requests[0].tools().contains(&"exec_command".to_owned()));
    assert!(requests[0].system_text().contains("Codex"));
}

#[test]
fn codex_connects_again_when_a_stream_was_cut() {
    let Some(agent) = Agent::find("AGORA_TEST_CODEX") else { return };
    let model = Model::start(vec![Turn::cut_after(Cut::Events(2), Turn::text("half")), Turn::text("done")]);
    let (code, lines) = run(&mut agent.codex(&model));
    assert_eq!((code, &lines.last().unwrap()["type"]), (Some(0), &json!("turn.completed")));
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn codex_says_that_the_model_failed() {
    let Some(agent) = Agent::find("AGORA_TEST_CODEX") else { return };
    // The first call, and one more try: of the request, then of the stream with its request.
    let model = Model::start(vec![Turn::error_times(4, 500, "server_error", "broken")]);
    let (code, lines) = run(&mut agent.codex(&model));
    assert_eq!((code, &lines.last().unwrap()["type"]), (Some(1), &json!("turn.failed")));
    assert_eq!((model.requests().len(), model.overrun()), (4, false));
}
