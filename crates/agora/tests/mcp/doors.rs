//! The door over HTTP: whose a session and a state are, who waits there, and who is in the way.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{ASKS, Place};
use crate::web::{Web, listen, listen_on, message, post, token};

fn place() -> Place {
    let place = Place::new();
    place.agent("asker", ASKS);
    place
}

/// Opens a session, and returns the headers of what belongs to it.
fn opened(address: &str, token: &str) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}});
    let said = post(address, token, "", &hello);
    let line = said.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    format!("Mcp-Session-Id: {}\r\nMCP-Protocol-Version: 2025-11-25\r\n", line.unwrap())
}

#[test]
fn sessions_that_are_left_behind_end_for_new_ones() {
    let place = place();
    let (address, _server) = listen(&place);
    let (many, other) = (token(&place, "many", "0"), token(&place, "other", "0"));
    let others = opened(&address, &other);
    let sessions: Vec<String> = (0..70).map(|_| opened(&address, &many)).collect();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let said = |token: &str, session: &str| post(&address, token, session, &ready).status;
    assert_eq!((said(&many, &sessions[5]), said(&many, &sessions[6])), ("404".to_owned(), "202".to_owned()));
    assert_eq!((said(&many, &sessions[69]), said(&other, &others)), ("202".to_owned(), "202".to_owned()));
}

#[test]
fn a_session_belongs_to_the_token_that_opened_it() {
    let place = place();
    let (address, _server) = listen(&place);
    let (own, other) = (token(&place, "one", "0"), token(&place, "other", "0"));
    let deep = token(&place, "one", "1");
    let session = opened(&address, &own);
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&address, &own, &session, &ready).status, "202");
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "agora_questions_list", "arguments": {}}});
    // Also a token of the same name is another, when it is an agent's.
    let nobodys = "Mcp-Session-Id: nowhere\r\nMCP-Protocol-Version: 2025-11-25\r\n";
    for stranger in [&other, &deep] {
        let [anothers, nobodys] = [&session, nobodys].map(|session| post(&address, stranger, session, &call));
        assert_eq!(anothers.status, "404");
        assert_eq!((anothers.status, anothers.body), (nobodys.status, nobodys.body), "they sound alike");
    }
    let answered = message(&post(&address, &own, &session, &call));
    assert_eq!(answered["result"]["structuredContent"], json!({"questions": []}), "{answered}");
}

#[test]
fn a_state_counts_once_and_for_its_token() {
    let place = place();
    let (address, _server) = listen(&place);
    let forms = json!({"elicitation": {}});
    let own = Web::new(&address, &token(&place, "one", "0"), forms.clone());
    let thread = own.dispatch("asker");
    let asked = own.call("agora_wait", json!({"threads": [thread]}));
    let state = asked["result"]["requestState"].clone();
    let question = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let back = |client: &Web, state: &Value, response: Value| {
        let brought = json!({"name": "agora_wait", "arguments": {"threads": [thread]}, "requestState": state,
            "inputResponses": {&question: response}});
        client.request("tools/call", brought)
    };
    let fill = json!({"action": "accept", "content": {"q1": "a"}});
    for stranger in [("other", "0"), ("one", "1")] {
        let stranger = Web::new(&address, &token(&place, stranger.0, stranger.1), forms.clone());
        let foreign = back(&stranger, &state, fill.clone());
        assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    }
    let closed = back(&own, &state, json!({"action": "cancel"}));
    assert_eq!(closed["result"]["structuredContent"]["status"], "needs_input", "{closed}");
    let replayed = back(&own, &state, fill.clone());
    assert_eq!(replayed["error"]["code"], -32602, "{replayed}");
    assert_eq!(place.thread(&thread)["state"], "waiting");
    let again = own.call("agora_wait", json!({"threads": [thread]}));
    let ended = back(&own, &again["result"]["requestState"], fill);
    assert_eq!(ended["result"]["structuredContent"]["status"], "ended", "{ended}");
}

#[test]
fn every_address_of_this_machine_is_served() {
    let place = place();
    let (address, _server) = listen_on(&place, "127.0.0.2:0");
    let web = Web::new(&address, &token(&place, "one", "0"), json!({}));
    for origin in [String::new(), format!("Origin: http://{address}\r\n")] {
        let listed = web.request_with(&origin, "tools/list", json!({}));
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(9), "{listed}");
    }
}

#[test]
fn one_token_does_not_keep_the_others_out() {
    let place = place();
    let (address, _server) = listen(&place);
    let (greedy, other) = (token(&place, "greedy", "0"), token(&place, "other", "0"));
    // More than there is room for, each with a body that never comes to its end.
    let mut held: Vec<TcpStream> = (0..520)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            write!(stream, "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {greedy}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{").unwrap();
            stream
        })
        .collect();
    let listed = Web::new(&address, &other, json!({})).done("agora_subagents_list", json!({}));
    assert_eq!(listed["subagents"][0]["name"], "asker");
    // The first of them waits for the rest of its request; the last was sent away.
    let mut said = [0; 12];
    held.last_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said[9..], b"429");
}

#[test]
fn a_crowd_that_shows_no_token_does_not_keep_a_client_out() {
    let place = place();
    let (address, _server) = listen(&place);
    let one = Web::new(&address, &token(&place, "one", "0"), json!({}));
    // More than there is room for, and each begins a request that it does not end.
    let mut crowd: Vec<TcpStream> = (0..600)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            write!(stream, "POST /mcp HTTP/1.1\r\nHost: {address}\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(one.done("agora_subagents_list", json!({}))["subagents"][0]["name"], "asker");
    // Who came first was let go, without a word.
    let mut said = Vec::new();
    let end = crowd[0].read_to_end(&mut said);
    let is_closed =
        end.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |read| *read == 0);
    assert!(said.is_empty() && is_closed, "{end:?}: {said:?}");
}

#[test]
fn fifty_clients_of_one_server_wait_at_once_and_all_hear_the_end() {
    let place = Place::new();
    let gate = place.cli.share("gate", "");
    let script = format!("while [ ! -f '{}/go' ]; do sleep 0.05; done; echo got there", gate.display());
    place.agent("patient", &script);
    let (address, _server) = listen(&place);
    let web = Web::new(&address, &token(&place, "one", "0"), json!({}));
    let thread = web.dispatch("patient");
    let mut waiting: Vec<TcpStream> = (0..50).map(|_| web.begin_to_wait(&thread)).collect();
    std::fs::write(gate.join("go"), "").unwrap();
    for stream in &mut waiting {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("\"status\":\"ended\"") && rest.contains("got there"), "{rest}");
    }
}

#[test]
fn a_client_that_vanishes_from_the_door_in_mid_wait_loses_nothing() {
    let place = Place::new();
    let gate = place.cli.share("gate", "");
    let script = format!("while [ ! -f '{}/go' ]; do sleep 0.05; done; echo got there", gate.display());
    place.agent("patient", &script);
    let (address, _server) = listen(&place);
    let web = Web::new(&address, &token(&place, "one", "0"), json!({}));
    let thread = web.dispatch("patient");
    drop(web.begin_to_wait(&thread));
    std::fs::write(gate.join("go"), "").unwrap();
    let waited = web.done("agora_wait", json!({}));
    assert_eq!(waited["threads"][0]["text"], "got there\n", "{waited}");
}
