//! A thread as a task: for a client that can be asked, and for no other.

use serde_json::{Value, json};

use crate::support::{Place, Wire};

/// Asks when somebody lets it, so that a call finds it at work.
fn place() -> (Place, std::path::PathBuf) {
    let place = Place::new();
    let gate = place.cli.share("gate", "");
    let script = format!(
        r#"if [ -f .agora/resume.json ]; then cat .agora/resume.json; exit; fi
while [ ! -f '{}/go' ]; do sleep 0.05; done
echo '{{"question": "Which?", "options": ["a", "b"]}}' > .agora/needs_input.json"#,
        gate.display()
    );
    place.agent("patient", &script);
    (place, gate.join("go"))
}

fn tasks(more: Value) -> Value {
    let mut able = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    able.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    able
}

/// Looks at a task until it stands so.
fn until(wire: &mut Wire, task: &str, status: &str) -> Value {
    loop {
        let seen = wire.request("tasks/get", json!({"taskId": task}));
        assert!(seen.get("error").is_none(), "{seen}");
        if seen["result"]["status"] == status {
            return seen;
        }
    }
}

#[test]
fn a_client_that_cannot_be_asked_gets_no_task() {
    let (place, go) = place();
    let mut wire = Wire::start(&place, tasks(json!({})));
    let thread = wire.dispatch("patient");
    let running = wire.done("agora_wait", json!({"threads": [thread], "timeoutSeconds": 0}));
    assert_eq!(running["status"], "running", "{running}");
    std::fs::write(go, "").unwrap();
    assert_eq!(wire.done("agora_wait", json!({"threads": [thread]}))["status"], "needs_input");
    // And if it looks at the thread as a task all the same, it is told, and not asked.
    let looked = until(&mut wire, &thread, "completed");
    assert_eq!(looked["result"]["result"]["structuredContent"]["status"], "needs_input", "{looked}");
}

#[test]
fn a_task_is_its_clients_alone() {
    let (place, go) = place();
    let able = tasks(json!({"elicitation": {}}));
    let mut wire = Wire::start(&place, able.clone());
    let thread = wire.dispatch("patient");
    let given = wire.call("agora_wait", json!({"threads": [thread]}));
    assert_eq!(given["result"]["taskId"], thread, "{given}");
    std::fs::write(go, "").unwrap();
    let asked = until(&mut wire, &thread, "input_required");
    let question = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let filled =
        json!({"taskId": thread, "inputResponses": {question: {"action": "accept", "content": {"q1": "a"}}}});

    let mut other = Wire::start(&place, able);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = other.request(method, filled.clone());
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
    }
    assert_eq!(place.thread(&thread)["state"], "waiting");
    let updated = wire.request("tasks/update", filled);
    assert!(updated.get("error").is_none(), "{updated}");
    until(&mut wire, &thread, "completed");
}
