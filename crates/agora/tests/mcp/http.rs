//! What only shows over a socket: clients that share one server, and one that starts anew.

use serde_json::{Value, json};

use crate::support::{ASKS, Place};
use crate::web::{Web, listen, messages, token};

/// A person's client, with a token of this name.
fn client(place: &Place, address: &str, name: &str, capabilities: Value) -> Web {
    Web::new(address, &token(place, name, "0"), capabilities)
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
    let [ann, bob] = ["ann", "bob"].map(|name| client(&place, &address, name, json!({})));
    let thread = bob.dispatch("quick");
    assert_eq!(ann.done("agora_wait", json!({"threads": [thread]}))["status"], "ended");
    let own = bob.done("agora_wait", json!({}));
    assert_eq!(own["threads"][0]["threadId"], json!(thread), "{own}");
    assert_eq!(bob.done("agora_wait", json!({}))["status"], "nothing");
}

#[test]
fn a_question_that_is_open_when_the_server_starts_anew_is_asked_again() {
    let place = place();
    let (address, server) = listen(&place);
    let mut ann = client(&place, &address, "ann", json!({"elicitation": {}}));
    let thread = ann.dispatch("asker");
    let asked = ann.call("agora_wait", json!({}));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    drop(server);
    let (address, server) = listen(&place);
    ann.address = address;
    let again = ann.call("agora_wait", json!({}));
    assert_eq!(again["result"]["inputRequests"], asked["result"]["inputRequests"], "{again}");
    let listed = ann.request("resources/list", json!({}));
    let uri = format!("agora://threads/{thread}");
    assert_eq!(listed["result"]["resources"][0]["uri"], json!(uri), "{listed}");
    let question = again["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answered = ann.request(
        "tools/call",
        json!({
            "name": "agora_wait", "arguments": {}, "requestState": again["result"]["requestState"],
            "inputResponses": {question: {"action": "accept", "content": {"q1": "a"}}},
        }),
    );
    assert_eq!(answered["result"]["structuredContent"]["status"], "ended", "{answered}");
    drop(server);
    // What had ended before is not told again by itself.
    let (address, _server) = listen(&place);
    ann.address = address;
    assert_eq!(ann.done("agora_wait", json!({}))["status"], "nothing");
}

/// What `server-stateless` of the conformance suite asks of a tool that a server of ours does not have, asked of what it has.
#[test]
fn who_did_not_declare_tasks_is_refused_and_a_wait_sends_nothing_but_its_result() {
    let place = place();
    let (address, _server) = listen(&place);
    let ann = client(&place, &address, "ann", json!({}));
    let thread = ann.dispatch("quick");
    let undeclared = ann.said("tasks/get", json!({"taskId": thread}));
    let refused = messages(&undeclared);
    assert_eq!((undeclared.status.as_str(), refused.len()), ("400", 1), "{refused:?}");
    assert_eq!(refused[0]["error"]["code"], -32021, "{refused:?}");
    // Neither a request of the server's own nor a line of its log.
    for (subagent, forms) in [("quick", json!({})), ("asker", json!({"elicitation": {}}))] {
        let one = client(&place, &address, subagent, forms);
        one.dispatch(subagent);
        let waited = one.said("tools/call", json!({"name": "agora_wait", "arguments": {}}));
        let told = messages(&waited);
        assert_eq!((waited.status.as_str(), told.len()), ("200", 1), "{told:?}");
        assert!(told[0]["result"].is_object(), "{told:?}");
    }
}
