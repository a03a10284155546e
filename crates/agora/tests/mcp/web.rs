//! A server that listens, and a client of it that says whatever a test wants.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Place;

/// Starts a server that listens, and returns its address.
pub(crate) fn listen(place: &Place) -> (String, Listening) {
    listen_on(place, "127.0.0.1:0")
}

pub(crate) fn listen_on(place: &Place, address: &str) -> (String, Listening) {
    let mut child = place.cli.command(&["mcp", "--http", address]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("http://"))).unwrap().unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    (address, Listening(child))
}

/// Ends with the test.
pub(crate) struct Listening(pub(crate) std::process::Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes a token.
pub(crate) fn token(place: &Place, name: &str, depth: &str) -> String {
    place.cli.run(&["mcp", "token", "--name", name, "--depth", depth]).success().trim().to_owned()
}

/// What came back: the status, the head and the body.
pub(crate) struct Said {
    pub(crate) status: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Posts a document with a token and headers, each with its line's end.
pub(crate) fn post(address: &str, token: &str, headers: &str, document: &Value) -> Said {
    heard(&mut posted(address, token, headers, document))
}

fn posted(address: &str, token: &str, headers: &str, document: &Value) -> TcpStream {
    let body = document.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

/// Reads an answer to its end.
pub(crate) fn heard(stream: &mut TcpStream) -> Said {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { whole(body) } else { body.to_owned() };
    Said { status, head: head.to_owned(), body }
}

/// Puts together what came in chunks.
fn whole(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        body.push_str(&rest[..size]);
        chunks = rest[size..].trim_start_matches("\r\n");
    }
    body
}

/// A client of the newest version, with a token.
pub(crate) struct Web {
    pub(crate) address: String,
    pub(crate) token: String,
    pub(crate) capabilities: Value,
    /// As it calls itself.
    pub(crate) name: String,
}

impl Web {
    pub(crate) fn new(address: &str, token: &str, capabilities: Value) -> Self {
        Self { address: address.to_owned(), token: token.to_owned(), capabilities, name: "web".to_owned() }
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    pub(crate) fn request(&self, method: &str, params: Value) -> Value {
        self.request_with("", method, params)
    }

    pub(crate) fn request_with(&self, headers: &str, method: &str, params: Value) -> Value {
        message(&heard(&mut self.posted(headers, method, params)))
    }

    /// Returns all that came back, and not only the answer.
    pub(crate) fn said(&self, method: &str, params: Value) -> Said {
        heard(&mut self.posted("", method, params))
    }

    fn posted(&self, headers: &str, method: &str, mut params: Value) -> TcpStream {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": self.name, "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        let given = params.get("_meta").and_then(Value::as_object).cloned().unwrap_or_default();
        meta.as_object_mut().unwrap().extend(given);
        params["_meta"] = meta;
        let about = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str());
        let about = about.map(|about| format!("Mcp-Name: {about}\r\n")).unwrap_or_default();
        let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{about}{headers}");
        let document = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        posted(&self.address, &self.token, &headers, &document)
    }

    /// Waits for a thread, and returns when the server says that it does.
    pub(crate) fn begin_to_wait(&self, thread: &str) -> TcpStream {
        let params =
            json!({"name": "agora_wait", "arguments": {"threads": [thread]}, "_meta": {"progressToken": 1}});
        let mut stream = self.posted("", "tools/call", params);
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains("notifications/progress") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        stream
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    #[track_caller]
    pub(crate) fn done(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    pub(crate) fn dispatch(&self, subagent: &str) -> String {
        let started = self.done("agora_dispatch", json!({"subagent": subagent, "input": {}}));
        started["dispatches"][0]["threadId"].as_str().unwrap().to_owned()
    }
}

/// Returns every message of an answer, in order: one document, or a stream of events.
pub(crate) fn messages(said: &Said) -> Vec<Value> {
    let lines = said.body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    lines.filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

/// Returns the last message of an answer, which is the answer to the request.
#[track_caller]
pub(crate) fn message(said: &Said) -> Value {
    messages(said).pop().unwrap_or_else(|| panic!("{} {:?}", said.status, said.body))
}
