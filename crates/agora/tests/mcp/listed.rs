//! `resources/list`, page by page, while threads begin and go on.

use std::collections::BTreeSet;

use agora_testkit::ledger::fill;
use serde_json::{Value, json};

use crate::support::{ASKS, Manner, Place, Python, Wire};
use crate::web::{Web, listen, token};

const FILLED: u64 = 250;
const MOST_BYTES: usize = 32 * 1024;

fn place() -> Place {
    let place = Place::new();
    place.agent("asker", ASKS);
    place
}

fn uri(thread: &str) -> String {
    format!("agora://threads/{thread}")
}

fn uris(page: &Value) -> Vec<String> {
    let resources = page["resources"].as_array().unwrap_or_else(|| panic!("{page}")).iter();
    resources.map(|resource| resource["uri"].as_str().unwrap().to_owned()).collect()
}

/// Returns what is listed when a thread and as many like it were there.
fn all(thread: &str) -> BTreeSet<String> {
    (0..FILLED).map(|number| uri(fill::ids(number).0.as_str())).chain([uri(thread)]).collect()
}

/// Follows the pages to the end. Each goes on, and is in bounds; `between` is done after the first.
fn follow(mut page: impl FnMut(Value) -> Value, mut between: impl FnMut()) -> Vec<String> {
    let (mut listed, mut params) = (Vec::new(), json!({}));
    loop {
        let answer = page(params);
        assert!(answer.to_string().len() <= MOST_BYTES, "{} bytes", answer.to_string().len());
        let found = uris(&answer);
        assert!(!found.is_empty(), "{answer}");
        if listed.is_empty() {
            between();
        }
        listed.extend(found);
        match answer.get("nextCursor") {
            Some(next) => params = json!({"cursor": next}),
            None => return listed,
        }
    }
}

#[test]
fn every_thread_is_listed_once_whatever_begins_or_goes_on_meanwhile() {
    let place = place();
    let (address, _server) = listen(&place);
    let ann = Web::new(&address, &token(&place, "ann", "0"), json!({}));
    let thread = ann.dispatch("asker");
    let asked = ann.done("agora_wait", json!({"threads": [thread]}));
    place.fill(place.show(&thread)["dispatchId"].as_str().unwrap(), 0..FILLED);
    let (mut answers, mut begins) = (0, 0);
    let listed = follow(
        |params| ann.request("resources/list", params)["result"].clone(),
        || {
            // The oldest goes on, which is on the last page; and another begins, which is on none.
            let answer = json!({"questionId": asked["question"]["questionId"], "answer": "a"});
            ann.done("agora_answer", answer);
            answers += 1;
            ann.dispatch("asker");
            begins += 1;
        },
    );
    assert_eq!((answers, begins), (1, 1));
    assert_eq!(listed.len() as u64, FILLED + 1, "none of them twice");
    assert_eq!(listed.last(), Some(&uri(&thread)), "where it began");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), all(&thread));
    // Another's are not among them, and another's place is no place.
    let bob = Web::new(&address, &token(&place, "bob", "0"), json!({}));
    assert_eq!(bob.request("resources/list", json!({}))["result"]["resources"], json!([]));
    let first = ann.request("resources/list", json!({}));
    let cursor = &first["result"]["nextCursor"];
    assert!(cursor.is_string(), "{first}");
    let refused = bob.request("resources/list", json!({"cursor": cursor}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[test]
fn a_cursor_that_nobody_gave_out_is_refused() {
    let place = place();
    let mut wire = Wire::start(&place, json!({}));
    let thread = wire.dispatch("asker");
    assert_eq!(uris(&wire.request("resources/list", json!({}))["result"]), [uri(&thread)]);
    let long = "x".repeat(100_000);
    for wrong in ["", "nonsense", "d_nowhere", &thread, "-1", "d_\u{0}", &long] {
        let refused = wire.request("resources/list", json!({"cursor": wrong}));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(refused.to_string().len() < 400, "{refused}");
    }
    // Where there is one page, none comes after it.
    for method in ["tools/list", "resources/templates/list"] {
        let refused = wire.request(method, json!({"cursor": "next"}));
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
    }
    assert_eq!(uris(&wire.request("resources/list", json!({}))["result"]), [uri(&thread)]);
}

#[test]
fn the_python_client_follows_the_pages() {
    for mode in ["legacy", "2026-07-28"] {
        let place = place();
        let Some(mut client) = Python::start(&place, Manner { mode, forms: None }) else { return };
        let thread = client.dispatch("asker");
        client.done("agora_wait", json!({"threads": [thread]}));
        place.fill(place.show(&thread)["dispatchId"].as_str().unwrap(), 0..FILLED);
        let mut pages = 0;
        let page = |params: Value| {
            pages += 1;
            let answer = client.ask(&json!({"do": "resources", "cursor": params["cursor"]}));
            answer.get("answer").unwrap_or_else(|| panic!("{answer}")).clone()
        };
        let listed = follow(page, || ());
        assert_eq!((pages, listed.len() as u64), (3, FILLED + 1), "{mode}");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), all(&thread), "{mode}");
        let refused = client.ask(&json!({"do": "resources", "cursor": "nonsense"}));
        assert_eq!(refused["error"]["code"], -32602, "{mode}: {refused}");
    }
}
