//! The state of a call that asks, a day later. Nobody waits for it: the server is the one that ships, but for a clock that jumps.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{ASKS, Place, Wire, stand_in};
use crate::web::{Listening, Web, token};

/// How long a state counts, in milliseconds.
const LIFE: u64 = 24 * 60 * 60 * 1000;
/// As long as the test may take.
const SOON: u64 = 10 * 60 * 1000;

fn place() -> (Place, PathBuf) {
    let place = Place::new();
    place.agent("asker", ASKS);
    let clock = place.cli.share("clock", "").join("ahead");
    (place, clock)
}

/// Asks twice, and comes back a little before the end of the one state, and after that of the other.
fn refused_when_it_is_over(place: &Place, clock: &Path, mut request: impl FnMut(Value) -> Value) {
    let started = request(json!({"name": "agora_dispatch", "arguments": {"subagent": "asker"}}));
    let thread = started["result"]["structuredContent"]["dispatches"][0]["threadId"].clone();
    let wait = json!({"name": "agora_wait", "arguments": {"threads": [thread]}});
    let ask = |request: &mut dyn FnMut(Value) -> Value| {
        let asked = request(wait.clone());
        let state = asked["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
        let question = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        (state, question)
    };
    let come_back = |(state, question): &(String, String), does: Value| {
        let mut call = wait.clone();
        call["requestState"] = json!(state);
        call["inputResponses"] = json!({question: does});
        call
    };
    let answers = || json!({"action": "accept", "content": {"q1": "a"}});
    let (first, second) = (ask(&mut request), ask(&mut request));

    std::fs::write(clock, (LIFE - SOON).to_string()).unwrap();
    let closed = request(come_back(&first, json!({"action": "cancel"})));
    assert_eq!(closed["result"]["structuredContent"]["status"], "needs_input", "it still counts: {closed}");

    std::fs::write(clock, (LIFE + 1).to_string()).unwrap();
    let late = request(come_back(&second, answers()));
    assert_eq!(late["error"], json!({"code": -32602, "message": "the requestState has expired"}), "{late}");
    let id = thread.as_str().unwrap();
    assert_eq!(place.thread(id)["state"], "waiting", "it answered nothing");

    // The question is asked again, and what comes back with a fresh state is taken.
    let fresh = ask(&mut request);
    let done = request(come_back(&fresh, answers()));
    assert_eq!(done["result"]["structuredContent"]["status"], "ended", "{done}");
    assert!(place.show(id)["output"]["text"].as_str().unwrap().contains("\"answer\": \"a\""));
}

#[test]
fn on_standard_input_an_expired_state_is_refused() {
    let (place, clock) = place();
    let Some(mut server) = stand_in(&place) else { return };
    server.arg(&clock).arg("stdio");
    let mut wire = Wire::with_newest(server, json!({"elicitation": {}}));
    refused_when_it_is_over(&place, &clock, |params| wire.request("tools/call", params));
}

#[test]
fn over_http_an_expired_state_is_refused() {
    let (place, clock) = place();
    let Some(mut server) = stand_in(&place) else { return };
    let mut server = Listening(server.arg(&clock).arg("http").stdout(Stdio::piped()).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let web = Web::new(address.trim(), &token(&place, "ann", "0"), json!({"elicitation": {}}));
    refused_when_it_is_over(&place, &clock, |params| web.request("tools/call", params));
}
