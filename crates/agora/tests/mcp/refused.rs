//! What the protocol itself refuses: by its code, in few words, and without a word about others.

use serde_json::{Value, json};

use crate::support::{ASKS, Place, Wire};

fn place() -> Place {
    let place = Place::new();
    place.agent("asker", ASKS);
    place
}

/// Sends a request that is refused in bounds, and returns its code and words.
#[track_caller]
fn refused(wire: &mut Wire, method: &str, params: Value) -> (i64, String) {
    let said = wire.request(method, params);
    assert!(said.to_string().len() < 1024, "{} bytes", said.to_string().len());
    let words = said["error"]["message"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
    (said["error"]["code"].as_i64().unwrap(), words)
}

#[test]
fn whatever_is_named_is_said_again_only_in_part() {
    let place = place();
    let tasks = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut wire = Wire::start(&place, tasks);
    let thread = wire.dispatch("asker");
    let long = "x".repeat(1 << 20);
    let zeros = format!("agora://threads/{thread}/log?offset={}", "0".repeat(1 << 20));
    for (method, params, code) in [
        ("tools/call", json!({"name": long}), -32602),
        ("resources/read", json!({"uri": long}), -32602),
        ("resources/read", json!({"uri": zeros}), -32602),
        ("resources/list", json!({"cursor": long}), -32602),
        ("tasks/get", json!({"taskId": long}), -32602),
    ] {
        assert_eq!(refused(&mut wire, method, params).0, code, "{method}");
    }
    let mut old = Wire::start_old(&place, "2025-11-25", json!({}));
    for method in ["resources/subscribe", "resources/read"] {
        assert_eq!(refused(&mut old, method, json!({"uri": long})).0, -32002, "{method}");
    }
}

#[test]
fn what_is_not_there_is_not_there_for_who_listens_either() {
    let place = place();
    let mut wire = Wire::start(&place, json!({}));
    let thread = wire.dispatch("asker");
    wire.done("agora_wait", json!({}));
    // Near enough to be taken for a slip, and another one whatever it ends in.
    let (most, last) = thread.split_at(thread.len() - 1);
    let near = format!("agora://threads/{most}{}", if last == "0" { "1" } else { "0" });
    let mut old = Wire::start_old(&place, "2025-11-25", json!({}));
    for method in ["resources/read", "resources/subscribe"] {
        let said = old.request(method, json!({"uri": near}));
        assert_eq!(said["error"]["code"], -32002, "{said}");
        assert!(!said.to_string().contains(&thread), "{said}");
    }
    // One that is not there among those that are: these are told.
    let own = format!("agora://threads/{thread}");
    wire.post("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [near, own]}}));
    assert_eq!(wire.receive()["method"], "notifications/subscriptions/acknowledged");
    place.cli.run(&["answer", &thread, "a"]).success();
    let told = wire.receive();
    assert_eq!(
        (&told["method"], &told["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(own))
    );
}

#[test]
fn a_method_that_is_there_is_not_said_to_be_missing() {
    let place = place();
    let mut wire = Wire::start(&place, json!({}));
    for (method, params) in [
        ("tools/call", json!({"name": 7})),
        ("tools/call", json!({"name": "agora_wait", "arguments": []})),
        ("resources/read", json!({})),
    ] {
        let (code, words) = refused(&mut wire, method, params);
        assert_eq!((code, words.contains(&format!("the `params` of `{method}`"))), (-32602, true), "{words}");
    }
    let unknown = refused(&mut wire, "agora/register", json!({}));
    assert_eq!(unknown, (-32601, "there is no method `agora/register`".to_owned()));
    assert_eq!(refused(&mut wire, &"x".repeat(1 << 20), json!({})).0, -32601);
}

#[test]
fn behind_the_end_of_a_resource_there_is_an_empty_page() {
    let place = place();
    let mut wire = Wire::start(&place, json!({}));
    let thread = wire.dispatch("asker");
    wire.done("agora_wait", json!({}));
    for part in ["", "/events", "/log", "/patch"] {
        let uri = format!("agora://threads/{thread}{part}?offset={}", u64::MAX);
        let read = wire.request("resources/read", json!({"uri": uri}));
        let contents = read["result"]["contents"].as_array().unwrap_or_else(|| panic!("{read}"));
        assert_eq!((contents.len(), &contents[0]["text"]), (1, &json!("")), "{read}");
    }
}
