//! The server over a socket, spoken to byte by byte, and what only shows there: clients that share one server, and one that starts anew.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::{ASKS, Place};

/// Starts a server that listens, and returns its address.
pub(crate) fn listen(place: &Place) -> (String, Listening) {
    let mut child =
        place.cli.command(&["mcp", "--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("http://"))).unwrap().unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    (address, Listening(child))
}

/// Ends with the test.
pub(crate) struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What came back: the status, and every message in the order in which it came.
struct Said {
    status: String,
    messages: Vec<Value>,
}

impl Said {
    #[track_caller]
    fn result(&self) -> &Value {
        let last = self.messages.last().unwrap_or_else(|| panic!("{} and no message", self.status));
        assert!(last.get("result").is_some(), "{last}");
        &last["result"]
    }

    #[track_caller]
    fn content(&self) -> &Value {
        &self.result()["structuredContent"]
    }
}

/// A client with a token, which speaks the newest version: a request for each message, and no session.
struct Client {
    token: String,
    capabilities: Value,
}

impl Client {
    fn new(place: &Place, name: &str, capabilities: Value) -> Self {
        let token = place.cli.run(&["mcp", "token", "--name", name]).success().trim().to_owned();
        Self { token, capabilities }
    }

    fn request(&self, address: &str, method: &str, mut params: Value) -> Said {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        let named = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str());
        let named = named.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{named}\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        )
        .unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().to_owned();
        // As one document, or as a stream of events; the frames of chunks stand on lines of their own.
        let lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let messages = lines.filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object);
        Said { status, messages: messages.collect() }
    }

    fn call(&self, address: &str, tool: &str, arguments: Value) -> Said {
        self.request(address, "tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn dispatch(&self, address: &str, subagent: &str) -> String {
        let started = self.call(address, "agora_dispatch", json!({"subagent": subagent}));
        started.content()["dispatches"][0]["threadId"].as_str().unwrap().to_owned()
    }
}

fn place() -> Place {
    let place = Place::new();
    place.agent("asker", ASKS);
    place.agent("quick", "echo quickly done");
    place
}

#[test]
fn what_one_client_heard_another_is_still_told() {
    let place = place();
    let (address, _server) = listen(&place);
    let (ann, bob) = (Client::new(&place, "ann", json!({})), Client::new(&place, "bob", json!({})));
    let thread = bob.dispatch(&address, "quick");
    let by_name = ann.call(&address, "agora_wait", json!({"threads": [thread]}));
    assert_eq!(by_name.content()["status"], "ended");
    let own = bob.call(&address, "agora_wait", json!({}));
    assert_eq!(own.content()["threads"][0]["threadId"], json!(thread), "{}", own.content());
    assert_eq!(bob.call(&address, "agora_wait", json!({})).content()["status"], "nothing");
}

#[test]
fn a_question_that_is_open_when_the_server_starts_anew_is_asked_again() {
    let place = place();
    let client = Client::new(&place, "ann", json!({"elicitation": {}}));
    let (address, server) = listen(&place);
    let thread = client.dispatch(&address, "asker");
    let asked = client.call(&address, "agora_wait", json!({}));
    assert_eq!(asked.result()["resultType"], "input_required", "{}", asked.result());
    drop(server);
    let (address, server) = listen(&place);
    let again = client.call(&address, "agora_wait", json!({}));
    assert_eq!(again.result()["inputRequests"], asked.result()["inputRequests"], "{}", again.result());
    let listed = client.request(&address, "resources/list", json!({}));
    let uri = format!("agora://threads/{thread}");
    assert_eq!(listed.result()["resources"][0]["uri"], json!(uri), "{}", listed.result());
    // What had ended before is not told again by itself.
    let state = again.result()["requestState"].clone();
    let question = again.result()["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answered = client.request(
        &address,
        "tools/call",
        json!({
            "name": "agora_wait", "arguments": {}, "requestState": state,
            "inputResponses": {question: {"action": "accept", "content": {"q1": "a"}}},
        }),
    );
    assert_eq!(answered.content()["status"], "ended");
    drop(server);
    let (address, _server) = listen(&place);
    assert_eq!(client.call(&address, "agora_wait", json!({})).content()["status"], "nothing");
}

/// What `server-stateless` of the conformance suite asks of a tool that a server of ours does not have, asked of what it has.
#[test]
fn who_did_not_declare_tasks_is_refused_and_a_wait_sends_nothing_but_its_result() {
    let place = place();
    let (address, _server) = listen(&place);
    let client = Client::new(&place, "ann", json!({}));
    let thread = client.dispatch(&address, "quick");
    let undeclared = client.request(&address, "tasks/get", json!({"taskId": thread}));
    assert_eq!(undeclared.status, "400");
    assert_eq!(undeclared.messages.len(), 1);
    assert_eq!(undeclared.messages[0]["error"]["code"], -32021, "{:?}", undeclared.messages);
    // Neither a request of the server's own nor a line of its log.
    for (subagent, forms) in [("quick", json!({})), ("asker", json!({"elicitation": {}}))] {
        let client = Client::new(&place, subagent, forms);
        client.dispatch(&address, subagent);
        let waited = client.call(&address, "agora_wait", json!({}));
        assert_eq!((waited.status.as_str(), waited.messages.len()), ("200", 1), "{:?}", waited.messages);
        assert!(waited.result().is_object());
    }
}
