//! How much one client may start, whatever it calls itself and however many calls it makes at once.

use serde_json::{Value, json};

use crate::support::{Place, Wire, refusal};
use crate::web::{Web, listen, token};

/// A place of which nothing is left running: a carrier that outlives its home waits for ever.
struct Busy(Place);

impl std::ops::Deref for Busy {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let listed = self.cli.run(&["ls", "--json"]).json();
        let live = listed.as_array().unwrap().iter().filter(|row| row["endedAt"].is_null());
        for row in live {
            // One that ends meanwhile needs no end.
            drop(self.cli.run(&["cancel", row["threadId"].as_str().unwrap()]));
        }
    }
}

fn place(settings: &str) -> Busy {
    let place = Place::new();
    place.cli.settings(settings);
    place.agent("quick", "true");
    place.agent("sleeper", "sleep 600");
    Busy(place)
}

fn dispatched(place: &Place) -> usize {
    place.cli.run(&["ls", "--json"]).json().as_array().unwrap().len()
}

fn many(subagent: &str, count: usize) -> Value {
    json!({"subagent": subagent, "inputs": vec![json!({}); count]})
}

#[track_caller]
fn refused(answer: &Value, code: &str) {
    assert_eq!(refusal(answer)["code"], code, "{answer}");
}

#[test]
fn no_more_are_under_way_than_the_user_allows() {
    let place = place("[mcp]\nmax_live = 2\n");
    let mut wire = Wire::start(&place, json!({}));
    let three = refusal(&wire.call("agora_dispatch", many("quick", 3)));
    assert_eq!(three["code"], "limit-live");
    let words = three["message"].as_str().unwrap();
    assert!(words.contains("3 more are asked for; at most 2 may be at once"), "{three}");
    assert!(three["hints"][0].as_str().unwrap().starts_with("dispatch 2 now"), "{three}");
    let two = wire.done("agora_dispatch", many("sleeper", 2));
    refused(&wire.call("agora_dispatch", many("quick", 1)), "limit-live");
    for started in two["dispatches"].as_array().unwrap() {
        wire.done("agora_dispatch_cancel", json!({"id": started["threadId"]}));
    }
    wire.done("agora_dispatch", many("quick", 1));
}

#[test]
fn no_more_are_started_than_the_user_allows() {
    let place = place("[mcp]\nmax_dispatches = 3\n");
    let mut wire = Wire::start(&place, json!({}));
    for _ in 0..3 {
        wire.done("agora_dispatch", many("quick", 1));
        assert_eq!(wire.done("agora_wait", json!({"until": "all"}))["status"], "ended");
    }
    refused(&wire.call("agora_dispatch", many("quick", 1)), "limit-dispatches");
    assert_eq!(dispatched(&place), 3);
}

#[test]
fn another_name_is_the_same_client() {
    let place = place("[mcp]\nmax_live = 2\n");
    let mut wire = Wire::start(&place, json!({}));
    wire.done("agora_dispatch", many("sleeper", 2));
    let info = json!({"io.modelcontextprotocol/clientInfo": {"name": "somebody-else", "version": "1"}});
    let renamed = json!({"name": "agora_dispatch", "arguments": many("sleeper", 1), "_meta": info});
    refused(&wire.request("tools/call", renamed), "limit-live");

    // Over HTTP it is the token that counts: no name and no session makes another client of it.
    let (address, _server) = listen(&place);
    let nightly = token(&place, "nightly", "0");
    let web = Web::new(&address, &nightly, json!({}));
    web.done("agora_dispatch", many("sleeper", 2));
    refused(&web.call("agora_dispatch", many("sleeper", 1)), "limit-live");
    let renamed = Web::new(&address, &nightly, json!({})).named("somebody-else");
    refused(&renamed.call("agora_dispatch", many("sleeper", 1)), "limit-live");
    let again = Web::new(&address, &token(&place, "nightly", "0"), json!({}));
    refused(&again.call("agora_dispatch", many("sleeper", 1)), "limit-live");
    let call = json!({"name": "agora_dispatch", "arguments": many("sleeper", 1)});
    web.request_with("Mcp-Session-Id: another\r\n", "tools/call", call);
    assert_eq!(dispatched(&place), 4, "two of the process, two of the token");
    // Another token is another client.
    Web::new(&address, &token(&place, "weekly", "0"), json!({})).done("agora_dispatch", many("sleeper", 1));
}

#[test]
fn calls_at_once_are_counted_one_after_the_other() {
    let place = place("[mcp]\nmax_live = 4\n");
    let mut wire = Wire::start(&place, json!({}));
    let calls: Vec<u64> = (0..6)
        .map(|_| wire.post("tools/call", json!({"name": "agora_dispatch", "arguments": many("sleeper", 2)})))
        .collect();
    let mut accepted = 0;
    for _ in &calls {
        let answer = wire.receive();
        assert!(calls.contains(&answer["id"].as_u64().unwrap()), "{answer}");
        match answer["result"]["isError"].as_bool() {
            Some(false) => accepted += 1,
            _ => refused(&answer, "limit-live"),
        }
    }
    assert_eq!((accepted, dispatched(&place)), (2, 4));
}

/// One token, two servers of the same home, calls at once: what the user allows is allowed once.
#[test]
fn two_servers_count_the_same_dispatches() {
    let place = place("[mcp]\nmax_live = 3\nmax_dispatches = 5\n");
    let (servers, token) = ([listen(&place), listen(&place)], token(&place, "nightly", "0"));
    let clients = servers.each_ref().map(|(address, _)| Web::new(address, &token, json!({})));
    let started = at_once(&clients, &many("sleeper", 1), 6);
    assert_eq!((started.len(), dispatched(&place)), (3, 3), "three of twelve");
    for client in &clients {
        refused(&client.call("agora_dispatch", many("quick", 1)), "limit-live");
    }
    for thread in &started {
        clients[0].done("agora_dispatch_cancel", json!({"id": thread}));
    }
    // Of those that belong together, none is recorded where there is not room for all.
    refused(&clients[1].call("agora_dispatch", many("quick", 3)), "limit-dispatches");
    assert_eq!(dispatched(&place), 3);
    let more = at_once(&clients, &many("sleeper", 2), 3);
    assert_eq!((more.len(), dispatched(&place)), (2, 5), "one call of six");
    drop((clients, servers));
    // A server that starts anew counts what others let in.
    let (address, _server) = listen(&place);
    let again = Web::new(&address, &token, json!({}));
    for thread in &more {
        again.done("agora_dispatch_cancel", json!({"id": thread}));
    }
    refused(&again.call("agora_dispatch", many("quick", 1)), "limit-dispatches");
    assert_eq!(dispatched(&place), 5);
}

/// Makes the same call of several clients, each as often at once, and returns the threads that came of it.
fn at_once(clients: &[Web], call: &Value, times: usize) -> Vec<String> {
    std::thread::scope(|scope| {
        let calls: Vec<_> = clients
            .iter()
            .flat_map(|client| std::iter::repeat_n(client, times))
            .map(|client| scope.spawn(move || client.call("agora_dispatch", call.clone())))
            .collect();
        let answers = calls.into_iter().map(|call| call.join().unwrap());
        let started = answers.flat_map(|answer| match answer["result"]["isError"].as_bool() {
            Some(false) => answer["result"]["structuredContent"]["dispatches"].as_array().unwrap().clone(),
            _ => {
                let code = refusal(&answer)["code"].clone();
                assert!(code == "limit-live" || code == "limit-dispatches", "{answer}");
                Vec::new()
            }
        });
        started.map(|one| one["threadId"].as_str().unwrap().to_owned()).collect()
    })
}

#[test]
fn a_call_that_was_made_before_is_not_refused_for_want_of_room() {
    let place = place("[mcp]\nmax_live = 2\nmax_dispatches = 2\n");
    let mut wire = Wire::start(&place, json!({}));
    let call = json!({"subagent": "sleeper", "inputs": [{}, {}], "idempotencyKey": "nightly"});
    let first = wire.done("agora_dispatch", call.clone());
    refused(&wire.call("agora_dispatch", many("quick", 1)), "limit-live");
    let again = wire.done("agora_dispatch", call);
    for place in 0..2 {
        assert_eq!(again["dispatches"][place]["threadId"], first["dispatches"][place]["threadId"]);
    }
    assert_eq!(dispatched(&place), 2);
}

/// What is counted is an index that ends where the limit does: it is the same work however many there were.
#[test]
fn many_dispatches_are_counted_too() {
    let place = place("[mcp]\nmax_dispatches = 1000\n");
    let (address, _server) = listen(&place);
    let nightly = Web::new(&address, &token(&place, "nightly", "0"), json!({}));
    let started = nightly.done("agora_dispatch", many("quick", 1));
    nightly.done("agora_wait", json!({}));
    place.fill(started["dispatches"][0]["dispatchId"].as_str().unwrap(), 0..998);
    nightly.done("agora_dispatch", many("quick", 1));
    let full = refusal(&nightly.call("agora_dispatch", many("quick", 1)));
    assert_eq!(full["code"], "limit-dispatches");
    assert!(full["message"].as_str().unwrap().starts_with("you have started 1000 dispatches"), "{full}");
}

#[test]
fn nobody_passes_for_another_by_a_label() {
    let place = place("");
    let mut victim = Wire::start(&place, json!({}));
    let thread = victim.dispatch("quick");
    let labels = place.show(&thread)["labels"].clone();
    let mut other = Wire::start(&place, json!({}));
    for label in [labels[0].as_str().unwrap(), "mcp.token.nightly", "depth-0"] {
        let forged = json!({"subagent": "quick", "labels": ["nightly", label]});
        refused(&other.call("agora_dispatch", forged), "bad-arguments");
    }
    assert_eq!(dispatched(&place), 1);
    let started = other.done("agora_dispatch", json!({"subagent": "quick", "labels": ["nightly"]}));
    let own = started["dispatches"][0]["threadId"].as_str().unwrap();
    assert_eq!(place.show(own)["labels"][0], "nightly");
}

#[test]
fn a_thread_costs_no_more_than_the_user_allows() {
    let place = place("[mcp]\nmax_usd = 2.5\n");
    let mut wire = Wire::start(&place, json!({}));
    for (asked, given) in [(json!({}), 2.5), (json!({"usd": 1000}), 2.5), (json!({"usd": 0.5}), 0.5)] {
        let started = wire.done("agora_dispatch", json!({"subagent": "quick", "budget": asked}));
        wire.done("agora_wait", json!({"until": "all"}));
        let dispatch = started["dispatches"][0]["dispatchId"].as_str().unwrap();
        assert_eq!(place.manifest(dispatch)["limits"]["budget"]["usd"], given, "{asked}");
    }
    let before = dispatched(&place);
    for nothing in [json!({"usd": -5}), json!({"usd": 0}), json!({"turns": 0})] {
        refused(
            &wire.call("agora_dispatch", json!({"subagent": "quick", "budget": nothing})),
            "bad-arguments",
        );
    }
    assert_eq!(dispatched(&place), before);
}

#[test]
fn a_client_that_starts_anew_finds_its_dispatch_by_its_key() {
    let place = place("");
    let nightly = json!({"subagent": "quick", "input": {"task": "x"}, "idempotencyKey": "nightly-1"});
    let first = Wire::start(&place, json!({})).done("agora_dispatch", nightly.clone());
    let again = Wire::start(&place, json!({})).done("agora_dispatch", nightly);
    assert_eq!(again["dispatches"][0]["threadId"], first["dispatches"][0]["threadId"]);
    let other = json!({"subagent": "quick", "input": {"task": "y"}, "idempotencyKey": "nightly-1"});
    refused(&Wire::start(&place, json!({})).call("agora_dispatch", other), "idempotency-key-reused");
    assert_eq!(dispatched(&place), 1);
}

#[test]
fn of_many_inputs_none_runs_when_one_is_refused() {
    let place = place("");
    // The second is refused, and only when the first is recorded: its key was used for something else.
    let taken = ["dispatch", "run", "--subagent", "quick", "--idempotency-key", "batch#2"];
    place.cli.run(&taken).success();
    let mut wire = Wire::start(&place, json!({}));
    let batch = json!({"subagent": "sleeper", "inputs": [{}, {}, {}], "idempotencyKey": "batch"});
    refused(&wire.call("agora_dispatch", batch), "idempotency-key-reused");
    let all = place.cli.run(&["ls", "--json"]).json();
    let states: Vec<&str> =
        all.as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["cancelled", "finished"], "{all}");
}

#[test]
fn a_key_is_for_one_call_with_all_that_it_starts() {
    let place = place("");
    let mut wire = Wire::start(&place, json!({}));
    let call = |tasks: &[&str]| {
        let inputs: Vec<Value> = tasks.iter().map(|task| json!({"task": task})).collect();
        json!({"subagent": "quick", "inputs": inputs, "idempotencyKey": "nightly"})
    };
    let first = wire.done("agora_dispatch", call(&["a", "b"]))["dispatches"].clone();
    for other in [&["a"][..], &["a", "b", "c"], &["a", "c"]] {
        refused(&wire.call("agora_dispatch", call(other)), "idempotency-key-reused");
    }
    let again = wire.done("agora_dispatch", call(&["a", "b"]))["dispatches"].clone();
    let threads = |started: &Value| [started[0]["threadId"].clone(), started[1]["threadId"].clone()];
    assert_eq!((threads(&again), dispatched(&place)), (threads(&first), 2));
}
