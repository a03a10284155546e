//! A client that knows nothing of agora: it dispatches, is asked, answers and gets the result, in both eras of the protocol.

use std::fs;

use serde_json::{Value, json};

use crate::support::{ASKS, ASKS_TWICE, Manner, Place, Python, Wire, refusal};

const ERAS: [(&str, &str); 2] = [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")];

fn place() -> Place {
    let place = Place::new();
    place.agent("twice", ASKS_TWICE);
    place.agent("asker", ASKS);
    place
}

#[test]
fn a_person_is_asked_twice_in_the_clients_own_forms() {
    for (mode, version) in ERAS {
        let place = place();
        let forms = Some(vec![json!({"q1": "postgres"}), json!({"q1": "accounts"})]);
        let Some(mut client) = Python::start(&place, Manner { mode, forms }) else { return };
        assert_eq!(client.version, version);
        let thread = client.dispatch("twice");
        let answer = client.call("agora_wait", json!({"threads": [thread]}));
        let waited = &answer["answer"]["structuredContent"];
        assert_eq!(waited["status"], "ended", "{mode}: {answer}");
        assert_eq!(waited["threads"][0]["state"], "finished");
        let text = waited["threads"][0]["text"].as_str().unwrap();
        assert!(
            text.contains("\"answer\": \"postgres\"") && text.contains("\"answer\": \"accounts\""),
            "{text}"
        );
        let shown = answer["shown"].as_array().unwrap();
        assert_eq!(shown.len(), 2, "{mode}");
        let field = &shown[0]["requestedSchema"]["properties"]["q1"];
        assert_eq!(field["enum"], json!(["sqlite", "postgres"]));
        assert!(shown[0]["message"].as_str().unwrap().contains("Both are there."));
        // It is recorded as a person's, through that client.
        let closing = place.closing(&thread).to_string();
        assert!(
            closing.contains("\"door\":\"mcp:py-client\"") && closing.contains("\"principal\":\"user:"),
            "{closing}"
        );
        assert!(!closing.contains("relayedBy"), "{closing}");
    }
}

#[test]
fn without_forms_the_model_asks_and_passes_the_answer_on() {
    for (mode, _) in ERAS {
        let place = place();
        let Some(mut client) = Python::start(&place, Manner { mode, forms: None }) else { return };
        let thread = client.dispatch("twice");
        for (asked, answer) in [("Which database?", "sqlite"), ("Which name?", "accounts")] {
            let waited = client.done("agora_wait", json!({"threads": [thread]}));
            assert_eq!(waited["status"], "needs_input", "{mode}");
            assert_eq!(waited["question"]["question"], asked);
            let question = &waited["question"]["questionId"];
            let line = waited["question"]["forYourUser"].as_str().unwrap();
            assert!(line.starts_with(&format!("agora answer {}", question.as_str().unwrap())), "{line}");
            let answered = client.done("agora_answer", json!({"questionId": question, "answer": answer}));
            assert_eq!(answered["threadId"], json!(thread));
        }
        let waited = client.done("agora_wait", json!({}));
        assert_eq!(waited["status"], "ended");
        assert_eq!(waited["threads"][0]["state"], "finished");
        assert_eq!(client.done("agora_wait", json!({}))["status"], "nothing", "an end is told once");
    }
}

#[test]
fn to_decline_a_form_declines_and_to_close_it_leaves_the_question_open() {
    for (mode, _) in ERAS {
        let place = place();
        let forms = Some(vec![json!("cancel"), json!("decline")]);
        let Some(mut client) = Python::start(&place, Manner { mode, forms }) else { return };
        let thread = client.dispatch("asker");
        let left = client.done("agora_wait", json!({}));
        assert_eq!(left["status"], "needs_input", "{mode}");
        assert_eq!(place.thread(&thread)["state"], "waiting");
        // Not asked again by itself; but where the thread is named.
        assert_eq!(client.done("agora_wait", json!({"timeoutSeconds": 1}))["status"], "needs_input");
        let declined = client.done("agora_wait", json!({"threads": [thread]}));
        assert_eq!(declined["status"], "ended");
        let state = place.thread(&thread);
        assert_eq!(state["state"], "failed");
        assert_eq!(state["failure"]["code"], "question-declined");
    }
}

#[test]
fn every_version_is_spoken_over_the_handshake() {
    let place = place();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut wire = Wire::start_old(&place, version, json!({}));
        let tools = wire.request("tools/list", json!({}));
        assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 9, "{version}");
        assert!(wire.close().success());
    }
}

#[test]
fn exactly_nine_tools_and_none_that_defines_a_worker() {
    let place = place();
    let mut wire = Wire::start(&place, json!({}));
    let listed = wire.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = [
        "agora_dispatch",
        "agora_wait",
        "agora_answer",
        "agora_dispatch_describe",
        "agora_dispatch_cancel",
        "agora_questions_list",
        "agora_capabilities_list",
        "agora_subagents_list",
        "agora_envs_list",
    ];
    assert_eq!(names, expected);
    for forbidden in ["register", "assign", "deploy", "secret"] {
        assert!(!names.iter().any(|name| name.contains(forbidden)), "{forbidden}");
    }
    for tool in tools {
        for part in ["title", "description", "inputSchema", "outputSchema", "annotations"] {
            assert!(!tool[part].is_null(), "{} has no {part}", tool["name"]);
        }
    }
    assert!(listed.to_string().len() < 40_000, "a model reads all of it: {}", listed.to_string().len());
}

#[test]
fn many_inputs_run_at_once_and_are_waited_for_together() {
    let place = place();
    place.agent("worker", "echo working");
    let Some(mut client) = Python::start(&place, Manner { mode: "auto", forms: None }) else { return };
    let inputs: Vec<Value> = (0..5).map(|number| json!({"task": format!("part {number}")})).collect();
    let started =
        client.done("agora_dispatch", json!({"subagent": "worker", "inputs": inputs, "labels": ["batch"]}));
    assert_eq!(started["dispatches"].as_array().unwrap().len(), 5);
    let answer = client.call("agora_wait", json!({"until": "all"}));
    let waited = &answer["answer"]["structuredContent"];
    assert_eq!(waited["status"], "ended", "{answer}");
    let states: Vec<&Value> =
        waited["threads"].as_array().unwrap().iter().map(|thread| &thread["state"]).collect();
    assert_eq!(states, ["finished"; 5]);
    assert!(!answer["progress"].as_array().unwrap().is_empty(), "{answer}");
    assert_eq!(place.cli.run(&["ls", "--json"]).json().as_array().unwrap().len(), 5);
}

#[test]
fn what_there_is_can_be_looked_at_without_prompts_or_values() {
    let place = place();
    let prompt = "A prompt that only workers read.";
    place
        .cli
        .run(&[
            "subagent",
            "register",
            "--name",
            "planner",
            "--description",
            "Plans.",
            "--system-prompt",
            prompt,
            "--prompt-template",
            "Do {{input.task}}.",
        ])
        .success();
    place.cli.write("cap/NOTES.md", "house rules");
    place.cli.run(&["capability", "register", "--name", "rules", "--from", "cap"]).success();
    place.cli.run(&["env", "register", "--name", "staging", "--value", "REGION=eu-north-7"]).success();
    let mut wire = Wire::start(&place, json!({}));
    let subagents = wire.done("agora_subagents_list", json!({}));
    let planner = subagents["subagents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["name"] == "planner")
        .unwrap()
        .clone();
    assert_eq!(planner["description"], "Plans.");
    assert_eq!(planner["inputSchema"]["required"], json!(["task"]));
    let names: Vec<_> =
        subagents["subagents"].as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect();
    assert_eq!(
        json!(names),
        json!(["asker", "claude", "codex", "planner", "twice"]),
        "built-in ones are there too"
    );
    let capabilities = wire.done("agora_capabilities_list", json!({}));
    assert_eq!(capabilities["entries"][0]["name"], "rules");
    let envs = wire.done("agora_envs_list", json!({}));
    assert_eq!(envs["entries"][0]["name"], "staging");
    let all = format!("{subagents}{capabilities}{envs}");
    for hidden in [prompt, "eu-north-7", "house rules"] {
        assert!(!all.contains(hidden), "{hidden}");
    }
}

#[test]
fn the_rest_is_a_resource_and_changes_are_told() {
    let place = place();
    place.agent(
        "talker",
        "i=0; while [ $i -lt 3000 ]; do echo \"line $i of a long report\"; i=$((i+1)); done",
    );
    let Some(mut client) = Python::start(&place, Manner { mode: "legacy", forms: None }) else { return };
    let asker = client.dispatch("asker");
    let uri = format!("agora://threads/{asker}");
    assert_eq!(client.done("agora_wait", json!({}))["status"], "needs_input");
    client.ask(&json!({"do": "subscribe", "uri": uri}));
    place.cli.run(&["answer", &asker, "a"]).success();
    let told = client.ask(&json!({"do": "updated", "uri": uri}));
    assert!(told["answer"]["updates"].to_string().contains(&uri), "{told}");

    let talker = client.dispatch("talker");
    let answer = client.call("agora_wait", json!({"threads": [talker]}));
    assert!(answer["answer"].to_string().len() <= 32 * 1024);
    let waited = &answer["answer"]["structuredContent"];
    assert!(
        waited["threads"][0]["text"].as_str().unwrap().contains("more bytes: read agora://threads/"),
        "{waited}"
    );
    let (mut whole, mut uri) = (String::new(), format!("agora://threads/{talker}/log"));
    loop {
        let page = client.ask(&json!({"do": "read", "uri": uri}));
        let contents = page["answer"]["contents"].as_array().unwrap().clone();
        assert!(page["answer"].to_string().len() <= 32 * 1024);
        whole.push_str(contents[0]["text"].as_str().unwrap());
        match contents.get(1) {
            Some(next) => uri = next["uri"].as_str().unwrap().to_owned(),
            None => break,
        }
    }
    assert!(whole.starts_with("line 0 of") && whole.ends_with("line 2999 of a long report\n"));
    for part in ["", "/events"] {
        let read = client.ask(&json!({"do": "read", "uri": format!("agora://threads/{talker}{part}")}));
        assert!(
            read["answer"]["contents"][0]["text"].as_str().unwrap().contains("dispatch"),
            "{part}: {read}"
        );
    }
    let gone = client.ask(&json!({"do": "read", "uri": "agora://threads/t_nowhere"}));
    assert!(gone["error"]["message"].as_str().unwrap().contains("no resource"), "{gone}");
}

#[test]
fn work_on_a_repository_comes_home_as_a_ref() {
    let place = place();
    place.agent("writer", "echo more >> README");
    let git = |arguments: &[&str]| {
        let ran = agora_testkit::cli::run(
            agora_testkit::cli::command("git").args(arguments).current_dir(place.cli.work()),
        );
        ran.success()
    };
    git(&["init", "--quiet"]);
    fs::write(place.cli.work().join("README"), "first\n").unwrap();
    git(&["add", "."]);
    git(&["-c", "user.name=ann", "-c", "user.email=ann@example.com", "commit", "--quiet", "-m", "first"]);
    let mut wire = Wire::start(&place, json!({}));
    let started = wire.done("agora_dispatch", json!({"subagent": "writer", "input": {}, "workspace": "."}));
    let waited = wire.done("agora_wait", json!({}));
    let reference = waited["threads"][0]["change"]["gitRef"].as_str().unwrap();
    assert_eq!(reference, format!("refs/agora/{}", started["dispatches"][0]["threadId"].as_str().unwrap()));
    assert!(git(&["show", &format!("{reference}:README")]).contains("more"));
    for outside in ["/", "/etc", "..", "https://example.com/repo.git"] {
        let refused =
            refusal(&wire.call("agora_dispatch", json!({"subagent": "writer", "workspace": outside})));
        assert_eq!(refused["code"], "workspace-refused", "{outside}");
    }
}

#[test]
fn a_dispatch_can_be_described_and_cancelled() {
    let place = place();
    place.agent("sleeper", "sleep 600");
    let mut wire = Wire::start(&place, json!({}));
    let thread = wire.dispatch("sleeper");
    let described = wire.done("agora_dispatch_describe", json!({"id": thread}));
    assert!(["queued", "starting", "running"].contains(&described["state"].as_str().unwrap()), "{described}");
    assert!(described.get("stdout").is_none());
    let cancelled = wire.done("agora_dispatch_cancel", json!({"id": thread}));
    assert_eq!(cancelled["cancelled"], true);
    assert_eq!(place.show(&thread)["state"], "cancelled");
}

#[test]
fn a_question_that_somebody_else_answers_first_does_not_hold_the_call_up() {
    let place = place();
    let mut wire = Wire::start_old(&place, "2025-11-25", json!({"elicitation": {}}));
    let thread = wire.dispatch("asker");
    let call = wire.post("tools/call", json!({"name": "agora_wait", "arguments": {}}));
    let asked = wire.receive();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    place.cli.run(&["answer", &thread, "b"]).success();
    let waited = wire.answer(call);
    assert_eq!(waited["result"]["structuredContent"]["status"], "ended", "{waited}");
    assert!(waited.to_string().contains("\\\"answer\\\": \\\"b\\\""), "{waited}");
}
