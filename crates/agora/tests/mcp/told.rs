//! What the server tells: all of it, to everybody whom it concerns, as it is, and no more at once than a model should read.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{ASKS, ASKS_TWICE, Place, Wire, refusal};

const MOST_BYTES: usize = 32 * 1024;

fn place() -> Place {
    let place = Place::new();
    place.agent("asker", ASKS);
    place.cli.settings("[mcp]\nmax_live = 60\n");
    place
}

/// Calls a tool whose answer must be in bounds, and returns what it says.
#[track_caller]
fn told(wire: &mut Wire, tool: &str, arguments: Value) -> Value {
    let answer = wire.call(tool, arguments);
    assert!(answer.to_string().len() <= MOST_BYTES, "{tool}: {} bytes", answer.to_string().len());
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    answer["result"]["structuredContent"].clone()
}

fn ids(entries: &Value, key: &str) -> Vec<String> {
    entries.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

fn many(wire: &mut Wire, subagent: &str, count: usize) -> BTreeSet<String> {
    let started =
        wire.done("agora_dispatch", json!({"subagent": subagent, "inputs": vec![json!({}); count]}));
    ids(&started["dispatches"], "threadId").into_iter().collect()
}

#[test]
fn of_many_threads_the_end_of_each_is_told_once() {
    let place = place();
    place.agent("talker", "head -c 3000 /dev/zero | tr '\\0' x");
    let mut wire = Wire::start(&place, json!({}));
    let started = many(&mut wire, "talker", 24);
    let all: Vec<&String> = started.iter().collect();
    let wait = |wire: &mut Wire, arguments: Value| loop {
        let said = told(wire, "agora_wait", arguments.clone());
        if said["status"] != "running" {
            return said;
        }
    };
    // By name as well, what is new comes first.
    let mut named = Wire::start(&place, json!({}));
    for (wire, arguments) in
        [(&mut wire, json!({"until": "all"})), (&mut named, json!({"until": "all", "threads": all}))]
    {
        let first = wait(wire, arguments.clone());
        assert_eq!(first["status"], "ended");
        let mut heard = ids(&first["threads"], "threadId");
        let left = first["omittedThreads"].as_u64().unwrap();
        assert_eq!(heard.len() as u64 + left, 24);
        assert!(first["next"].as_str().unwrap().starts_with(&format!("{left} more have ended")), "{first}");
        heard.extend(ids(&wait(wire, arguments)["threads"], "threadId"));
        assert_eq!(heard.iter().cloned().collect::<BTreeSet<_>>(), started);
    }
    assert_eq!(told(&mut wire, "agora_wait", json!({}))["status"], "nothing");
}

#[test]
fn an_end_that_was_told_does_not_end_the_wait_for_another() {
    let place = place();
    let gate = place.cli.share("gate", "");
    place.agent("quick", "echo quickly done");
    place.agent("patient", &format!("while [ ! -f '{}/go' ]; do sleep 0.05; done", gate.display()));
    let mut wire = Wire::start(&place, json!({}));
    let (quick, patient) = (wire.dispatch("quick"), wire.dispatch("patient"));
    let both = json!({"threads": [quick, patient]});
    let first = told(&mut wire, "agora_wait", both.clone());
    assert_eq!((&first["status"], ids(&first["threads"], "threadId")[0].clone()), (&json!("ended"), quick));
    // The same call again has something to wait for, and says so.
    let meta = json!({"progressToken": 1});
    let again = wire.post("tools/call", json!({"name": "agora_wait", "arguments": both, "_meta": meta}));
    let said = wire.receive();
    assert_eq!(said["params"]["message"], "1 of 2 ended", "{said}");
    std::fs::write(gate.join("go"), "").unwrap();
    let ended = &wire.answer(again)["result"]["structuredContent"];
    assert_eq!((&ended["status"], ids(&ended["threads"], "threadId")[0].clone()), (&json!("ended"), patient));
    // Where nothing runs there is nothing to wait for.
    assert_eq!(told(&mut wire, "agora_wait", both)["status"], "ended");
}

/// Tells whether a process has children, also such as have ended and were not waited for.
fn has_children(parent: u32) -> bool {
    let stats = std::fs::read_dir("/proc").unwrap().flatten();
    let mut stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    // After the name, which may have anything in it, the state and the parent.
    let of_parent =
        |stat: &str| stat.rsplit(')').next().unwrap().split_whitespace().nth(1).map(str::to_owned);
    stats.any(|stat| of_parent(&stat) == Some(parent.to_string()))
}

#[test]
fn a_carrier_that_has_ended_leaves_nothing_behind() {
    let place = place();
    let gate = place.cli.share("gate", "");
    place.agent("patient", &format!("while [ ! -f '{}/go' ]; do sleep 0.05; done", gate.display()));
    let mut wire = Wire::start(&place, json!({}));
    wire.dispatch("patient");
    assert!(has_children(wire.child.id()), "somebody carries it");
    std::fs::write(gate.join("go"), "").unwrap();
    assert_eq!(told(&mut wire, "agora_wait", json!({}))["status"], "ended");
    while has_children(wire.child.id()) {
        place.cli.run(&["ls"]).success();
    }
}

#[test]
fn every_subagent_is_on_some_page_with_its_whole_schema() {
    let place = place();
    let values: Vec<String> = (0..10).map(|at| format!("alpha-long-value-{at}")).collect();
    let fields = (0..8).map(|at| (format!("field_{at}"), json!({"type": "string", "enum": values})));
    let inputs = json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()});
    for at in 0..14 {
        let definition = json!({"name": format!("agent-{at:02}"), "runtime": "command", "command": ["/bin/true"], "inputs": inputs});
        std::fs::write(place.cli.work().join("agent.yaml"), definition.to_string()).unwrap();
        place.cli.run(&["subagent", "register", "--from", "agent.yaml"]).success();
    }
    let mut wire = Wire::start(&place, json!({}));
    let (mut seen, mut arguments, mut pages) = (Vec::new(), json!({}), 0);
    loop {
        let page = told(&mut wire, "agora_subagents_list", arguments);
        for entry in page["subagents"].as_array().unwrap() {
            let name = entry["name"].as_str().unwrap().to_owned();
            assert_eq!(entry["contentHash"].as_str().unwrap().len(), "sha256:".len() + 64);
            assert!(!name.starts_with("agent-") || entry["inputSchema"] == inputs, "{entry}");
            seen.push(name);
        }
        pages += 1;
        match page.get("moreAfter") {
            Some(after) => arguments = json!({"after": after}),
            None => break,
        }
    }
    let expected: Vec<String> = (0..14).map(|at| format!("agent-{at:02}")).collect();
    assert_eq!(seen.iter().filter(|name| name.starts_with("agent-")).cloned().collect::<Vec<_>>(), expected);
    assert!(pages > 1, "there was something to page");
}

#[test]
fn every_open_question_is_on_some_page_and_ones_own_are_found_behind_others() {
    let place = place();
    place.agent(
        "wordy",
        r#"printf '{"question": "Which?", "options": ["a", "b"], "context": "%s"}' "$(head -c 3000 /dev/zero | tr '\0' x)" > .agora/needs_input.json"#,
    );
    let mut others = Wire::start(&place, json!({}));
    let mut threads = many(&mut others, "wordy", 42);
    while place.cli.run(&["inbox", "--json", "--list"]).json().as_array().unwrap().len() < 42 {
        others.call("agora_wait", json!({"timeoutSeconds": 1}));
    }
    let mut wire = Wire::start(&place, json!({}));
    let own = wire.dispatch("asker");
    assert_eq!(told(&mut wire, "agora_wait", json!({}))["status"], "needs_input");
    let mine = told(&mut wire, "agora_questions_list", json!({"mine": true}));
    assert_eq!((ids(&mine["questions"], "threadId"), mine.get("moreAfter")), (vec![own.clone()], None));
    threads.insert(own);
    let (mut seen, mut arguments) = (BTreeSet::new(), json!({}));
    loop {
        let page = told(&mut wire, "agora_questions_list", arguments);
        seen.extend(ids(&page["questions"], "threadId"));
        match page.get("moreAfter") {
            Some(after) => arguments = json!({"after": after}),
            None => break,
        }
    }
    assert_eq!(seen, threads);
}

#[test]
fn a_question_without_end_keeps_its_ids_and_says_what_is_missing() {
    let place = place();
    place.agent(
        "keys",
        r#"awk 'BEGIN { printf "{\"question\": \"Which?\", \"partial_state\": {\"k\": 1"; for (i = 0; i < 5000; i++) printf ", \"key%d\": %d", i, i; print "}}" }' > .agora/needs_input.json"#,
    );
    place.agent(
        "options",
        r#"awk 'BEGIN { printf "{\"question\": \"Which?\", \"options\": [\"first\""; for (i = 0; i < 999; i++) printf ", \"option number %04d\"", i; print "]}" }' > .agora/needs_input.json"#,
    );
    let mut wire = Wire::start(&place, json!({}));
    for (subagent, options) in [("keys", 0), ("options", 1000)] {
        let thread = wire.dispatch(subagent);
        let waited = told(&mut wire, "agora_wait", json!({"threads": [thread]}));
        let question = &waited["question"];
        let id = question["questionId"].as_str().unwrap();
        assert!(question["howToAnswer"].as_str().unwrap().contains(id), "{question}");
        let missing = question["omitted"]["options"].as_u64().unwrap_or_default();
        assert_eq!(question["options"].as_array().unwrap().len() as u64 + missing, options);
        let described = told(&mut wire, "agora_dispatch_describe", json!({"id": thread}));
        assert_eq!(described["threadId"], json!(thread));
        assert_eq!(described["needsInput"]["questionId"], json!(id));
        // All of it is where it says.
        let (mut whole, mut uri) = (String::new(), question["resource"].as_str().unwrap().to_owned());
        loop {
            let page = wire.request("resources/read", json!({"uri": uri}));
            assert!(page.to_string().len() <= MOST_BYTES, "{} bytes", page.to_string().len());
            let contents = page["result"]["contents"].as_array().unwrap();
            whole.push_str(contents[0]["text"].as_str().unwrap());
            match contents.get(1) {
                Some(next) => uri = next["uri"].as_str().unwrap().to_owned(),
                None => break,
            }
        }
        let whole: Value = serde_json::from_str(&whole).unwrap();
        let asked = &whole["last"]["needsInput"];
        assert_eq!(asked["options"].as_array().unwrap().len() as u64, options);
        assert!(subagent != "keys" || asked["partialState"]["key4999"] == 4_999);
    }
}

#[test]
fn a_form_is_in_bounds_and_what_is_too_much_for_one_is_asked_plainly() {
    let place = place();
    let script = |items: usize, options: usize| {
        format!(
            r#"awk 'BEGIN {{ printf "{{\"questions\": ["; for (q = 0; q < {items}; q++) {{ printf "%s{{\"question\": \"Which?\", \"options\": [", q ? ", " : ""; for (i = 0; i < {options}; i++) printf "%s{{\"label\": \"option %04d\", \"description\": \"what it means, in as many words as it takes to say so\"}}", i ? ", " : "", i; printf "]}}" }} print "]}}" }}' > .agora/needs_input.json"#
        )
    };
    place.agent("fits", &script(5, 200));
    place.agent("overflows", &script(5, 1000));
    let mut wire = Wire::start(&place, json!({"elicitation": {}}));
    let mut asked = |subagent: &str| {
        let thread = wire.dispatch(subagent);
        let asked = wire.call("agora_wait", json!({"threads": [thread]}));
        assert!(asked.to_string().len() <= MOST_BYTES, "{} bytes", asked.to_string().len());
        asked["result"].clone()
    };
    let form = asked("fits");
    assert_eq!(form["resultType"], "input_required", "{form}");
    assert!(form.to_string().contains("(`agora inbox` shows all of it)"), "{form}");
    assert_eq!(asked("overflows")["structuredContent"]["status"], "needs_input");
}

#[test]
fn a_thread_that_a_person_ended_is_told_as_it_ended() {
    let place = place();
    let mut wire = Wire::start(&place, json!({}));
    let (declined, cancelled) = (wire.dispatch("asker"), wire.dispatch("asker"));
    for thread in [&declined, &cancelled] {
        let asked = told(&mut wire, "agora_wait", json!({"threads": [thread]}));
        assert_eq!(asked["threads"][0]["state"], "needs_input");
    }
    place.cli.run(&["answer", &declined, "--decline"]).success();
    place.cli.run(&["cancel", &cancelled]).success();
    // Who heard the question has not heard what came of it.
    let waited = told(&mut wire, "agora_wait", json!({"until": "all"}));
    let by_id = |thread: &str| {
        let mut threads = waited["threads"].as_array().unwrap().iter();
        threads.find(|told| told["threadId"] == thread).unwrap_or_else(|| panic!("{waited}")).clone()
    };
    assert_eq!(waited["status"], "ended");
    assert_eq!(by_id(&declined)["state"], "failed");
    assert_eq!(by_id(&declined)["failure"]["code"], "question-declined");
    assert_eq!(by_id(&cancelled)["state"], "cancelled");
    assert_eq!(told(&mut wire, "agora_wait", json!({}))["status"], "nothing");
    let described = told(&mut wire, "agora_dispatch_describe", json!({"id": declined}));
    assert_eq!(
        (&described["threadState"], &described["threadFailure"]["code"]),
        (&json!("failed"), &json!("question-declined"))
    );
    for (thread, state, question) in [(declined, "failed", "declined"), (cancelled, "cancelled", "cancelled")]
    {
        let read = wire.request("resources/read", json!({"uri": format!("agora://threads/{thread}")}));
        let text = read["result"]["contents"][0]["text"].as_str().unwrap();
        let document: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            (&document["state"], &document["questions"][0]["state"]),
            (&json!(state), &json!(question))
        );
        assert_eq!(document["failure"].is_null(), state != "failed");
    }
}

#[test]
fn a_call_that_the_client_took_back_told_nothing() {
    let place = place();
    let mut wire = Wire::start_old(&place, "2025-11-25", json!({"elicitation": {}}));
    wire.dispatch("asker");
    let wait = json!({"name": "agora_wait", "arguments": {}});
    let call = wire.post("tools/call", wait.clone());
    let form = wire.receive();
    assert_eq!(form["method"], "elicitation/create", "{form}");
    wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}));
    let taken_back = wire.receive();
    assert_eq!(taken_back["method"], "notifications/cancelled", "{taken_back}");
    assert_eq!(taken_back["params"]["requestId"], form["id"]);
    wire.post("tools/call", wait);
    let again = wire.receive();
    assert_eq!(again["method"], "elicitation/create", "{again}");
}

#[test]
fn a_form_is_taken_back_when_somebody_else_answers() {
    let place = place();
    let mut wire = Wire::start_old(&place, "2025-11-25", json!({"elicitation": {}}));
    let thread = wire.dispatch("asker");
    let call = wire.post("tools/call", json!({"name": "agora_wait", "arguments": {}}));
    let form = wire.receive();
    place.cli.run(&["answer", &thread, "b"]).success();
    let taken_back = wire.receive();
    assert_eq!(taken_back["method"], "notifications/cancelled", "{taken_back}");
    assert_eq!(taken_back["params"]["requestId"], form["id"]);
    // Late, and for nobody.
    wire.send(
        &json!({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "accept", "content": {"q1": "a"}}}),
    );
    let waited = wire.answer(call);
    assert_eq!(waited["result"]["structuredContent"]["status"], "ended", "{waited}");
    assert!(place.show(&thread)["output"]["text"].as_str().unwrap().contains("\"answer\": \"b\""));
}

#[test]
fn who_subscribes_again_and_again_is_told_once() {
    let place = place();
    let mut wire = Wire::start_old(&place, "2025-11-25", json!({}));
    let thread = wire.dispatch("asker");
    told(&mut wire, "agora_wait", json!({}));
    let uri = json!({"uri": format!("agora://threads/{thread}")});
    for _ in 0..120 {
        let subscribed = wire.request("resources/subscribe", uri.clone());
        assert!(subscribed.get("result").is_some(), "{subscribed}");
    }
    place.cli.run(&["answer", &thread, "a"]).success();
    let end = wire.post("tools/call", json!({"name": "agora_wait", "arguments": {"threads": [thread]}}));
    let mut updates = 0;
    loop {
        let message = wire.receive();
        updates += usize::from(message["method"] == "notifications/resources/updated");
        if message["id"] == end && message.get("method").is_none() {
            break;
        }
    }
    let story = place.cli.run(&["dispatch", "watch", &thread, "--json"]).success();
    assert!((1..=story.lines().count()).contains(&updates), "{updates} updates of {story}");
}

#[test]
fn a_question_is_answered_by_the_beginning_of_its_id_and_a_closed_one_is_not_another() {
    let place = place();
    place.agent("twice", ASKS_TWICE);
    let mut wire = Wire::start(&place, json!({}));
    wire.dispatch("twice");
    let asked = told(&mut wire, "agora_wait", json!({}));
    let first = asked["question"]["questionId"].as_str().unwrap().to_owned();
    let beginning = &first[..first.len() - 3];
    let answered = told(&mut wire, "agora_answer", json!({"questionId": beginning, "answer": "sqlite"}));
    assert_eq!(answered["questionId"], json!(first));
    assert_eq!(told(&mut wire, "agora_wait", json!({}))["question"]["question"], "Which name?");
    let late = refusal(&wire.call("agora_answer", json!({"questionId": first, "answer": "postgres"})));
    assert_eq!(late["code"], "answered-before", "{late}");
    let nobodys = refusal(&wire.call("agora_answer", json!({"questionId": "q_nowhere", "answer": "a"})));
    assert_eq!(nobodys["code"], "unknown-id", "{nobodys}");
}

#[test]
fn every_resource_says_that_it_goes_on() {
    let place = place();
    let mut wire = Wire::start(&place, json!({}));
    let listed = wire.request("resources/templates/list", json!({}));
    let templates = listed["result"]["resourceTemplates"].as_array().unwrap();
    assert_eq!(templates.len(), 4);
    let goes_on = |template: &Value| template["uriTemplate"].as_str().unwrap().ends_with("{?offset}");
    assert!(templates.iter().all(goes_on), "{listed}");
}

#[test]
fn a_patch_is_read_as_a_resource() {
    let place = place();
    place.agent("writer", "printf 'one\ntwo\n' > notes.txt");
    let mut wire = Wire::start(&place, json!({}));
    let thread = wire.dispatch("writer");
    let waited = told(&mut wire, "agora_wait", json!({}));
    assert_eq!(waited["threads"][0]["change"]["insertions"], 2, "{waited}");
    let read = wire.request("resources/read", json!({"uri": format!("agora://threads/{thread}/patch")}));
    let contents = &read["result"]["contents"];
    assert_eq!((contents.as_array().unwrap().len(), &contents[0]["mimeType"]), (1, &json!("text/x-diff")));
    let patch = contents[0]["text"].as_str().unwrap();
    assert!(patch.contains("+++ b/notes.txt") && patch.contains("+one\n+two\n"), "{patch}");
}

#[test]
fn a_thread_is_a_task_for_who_takes_tasks() {
    let place = place();
    let tasks = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut wire = Wire::start(&place, tasks);
    let gate = place.cli.share("gate", "");
    let script = format!("while [ ! -f '{}/go' ]; do sleep 0.05; done\n{ASKS}", gate.display());
    place.agent("patient", &script);
    let until = |wire: &mut Wire, thread: &str, status: &str| loop {
        let task = wire.request("tasks/get", json!({"taskId": thread}));
        match &task["result"]["status"] {
            reached if reached == status => return task["result"].clone(),
            working => assert_eq!(working, "working", "{task}"),
        }
    };
    let (answered, declined) = (wire.dispatch("patient"), wire.dispatch("patient"));
    for thread in [&answered, &declined] {
        let waited = wire.call("agora_wait", json!({"threads": [thread]}));
        assert_eq!(
            (&waited["result"]["resultType"], &waited["result"]["taskId"]),
            (&json!("task"), &json!(thread))
        );
    }
    std::fs::write(gate.join("go"), "").unwrap();
    for (thread, response) in [
        (&answered, json!({"action": "accept", "content": {"q1": "a"}})),
        (&declined, json!({"action": "decline"})),
    ] {
        let asks = until(&mut wire, thread, "input_required");
        let question = asks["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let update = json!({"taskId": thread, "inputResponses": {question: response}});
        let updated = wire.request("tasks/update", update);
        assert!(updated.get("result").is_some(), "{updated}");
    }
    let ended = |wire: &mut Wire, thread: &str| {
        let task = until(wire, thread, "completed");
        (task["result"]["isError"].clone(), task["result"]["structuredContent"]["threads"][0].clone())
    };
    let (failed, thread) = ended(&mut wire, &answered);
    assert_eq!((failed, &thread["state"]), (json!(false), &json!("finished")));
    assert!(thread["text"].as_str().unwrap().contains("\"answer\": \"a\""), "{thread}");
    let (failed, thread) = ended(&mut wire, &declined);
    assert_eq!((failed, &thread["state"]), (json!(true), &json!("failed")));
    assert_eq!(thread["failure"]["code"], "question-declined");
    assert_eq!(told(&mut wire, "agora_wait", json!({}))["status"], "nothing", "the tasks told it");
}
