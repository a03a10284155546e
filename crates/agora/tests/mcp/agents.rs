//! Agents that were dispatched and have a token of a depth: they dispatch, and are nobody's person.

use serde_json::{Value, json};

use crate::support::{ASKS, Place, Wire, refusal};
use crate::web::{Web, listen, token};

/// Asks what only a person may answer.
const ASKS_A_PERSON: &str = r#"if [ -f .agora/resume.json ]; then echo went on; exit; fi
echo '{"question": "Delete it all?", "options": ["yes", "no"], "human": true}' > .agora/needs_input.json"#;

fn place() -> Place {
    let place = Place::new();
    place.agent("asker", ASKS);
    place.agent("careful", ASKS_A_PERSON);
    place.agent("quick", "echo done");
    place
}

/// Gives every dispatch a token, as docs/mcp.md says.
fn give_to_all(place: &Place, token: &str) {
    place.cli.write("token", token);
    place.cli.run(&["env", "register", "--name", "default", "--secret", "MCP_TOKEN=file:token"]).success();
}

/// A shell function for agents: `call TOOL ARGUMENTS REST`, where the rest is more of the request's parameters.
fn library(address: &str) -> String {
    let (host, port) = address.split_once(':').unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "nice", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    format!(
        r#"call() {{
  body='{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"'$1'","arguments":'$2$3',"_meta":{meta}}}}}'
  exec 3<>/dev/tcp/{host}/{port}
  printf 'POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' "$MCP_TOKEN" "$1" "${{#body}}" "$body" >&3
  cat <&3; exec 3>&-
}}
"#
    )
}

fn bash(place: &Place, name: &str, script: &str) {
    let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
    place.cli.run(&[&register[..], &["/bin/bash", "-c", script]].concat()).success();
}

#[test]
fn an_agent_with_a_token_does_not_answer_its_own_question() {
    let place = Place::new();
    let (address, _server) = listen(&place);
    give_to_all(&place, &token(&place, "planner", "1"));
    let library = library(&address);
    // It is told the question, says that it shows forms, and fills in whatever comes.
    let accomplice = r#"q=$(cat .agora/input.json | grep -o 'q_[a-z0-9]*')
call agora_questions_list '{}'
out=$(call agora_wait '{"threads":["'$q'"],"timeoutSeconds":1}'); echo "$out"
state=$(echo "$out" | grep -o '"requestState":"[^"]*"' | cut -d'"' -f4)
call agora_wait '{"threads":["'$q'"],"timeoutSeconds":1}' ',"requestState":"'$state'","inputResponses":{"'$q'":{"action":"accept","content":{"q1":"yes"}}}'
call agora_answer '{"questionId":"'$q'","answer":"yes"}'
call agora_dispatch_cancel '{"id":"'$q'"}'"#;
    let planner = r#"if [ -f .agora/resume.json ]; then echo "resumed by $(cat .agora/resume.json)"; exit; fi
echo '{"question": "May I delete production?", "options": ["yes", "no"], "human": true}' > .agora/needs_input.json
call agora_dispatch '{"subagent":"quick"}'"#;
    place.agent("quick", "echo done");
    bash(&place, "accomplice", &format!("{library}{accomplice}"));
    bash(&place, "planner", &format!("{library}{planner}"));
    let mut wire = Wire::start(&place, json!({}));
    let thread = wire.dispatch("planner");
    let asked = wire.done("agora_wait", json!({"threads": [thread]}));
    let question = asked["question"]["questionId"].as_str().unwrap();
    let said = place.show(&thread)["output"]["text"].as_str().unwrap().to_owned();
    assert!(said.contains("dispatchId"), "the planner can dispatch: {said}");

    let helper = Web::new(&address, &token(&place, "planner", "1"), json!({}));
    let help = json!({"subagent": "accomplice", "input": {"question": question}});
    let started = helper.done("agora_dispatch", help);
    let accomplice = &started["dispatches"][0]["threadId"];
    let ended = helper.done("agora_wait", json!({"threads": [accomplice]}));
    let said = ended["threads"][0]["text"].as_str().unwrap();
    assert!(!said.contains("input_required") && !said.contains("May I delete"), "{said}");
    assert_eq!(said.matches("unknown-id").count(), 3, "wait, answer and cancel: {said}");
    assert!(said.contains("-32602"), "the state that it made up: {said}");
    let seen = place.thread(&thread);
    assert_eq!((seen["state"].as_str(), seen["dispatches"].as_array().unwrap().len()), (Some("waiting"), 1));
}

#[test]
fn an_agent_reaches_what_it_started_and_nothing_else() {
    let place = place();
    let (address, _server) = listen(&place);
    let mut person = Wire::start(&place, json!({}));
    let thread = person.dispatch("asker");
    let question = person.done("agora_wait", json!({}))["question"]["questionId"].clone();
    let tasks = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    for depth in ["1", "9"] {
        let agent = Web::new(&address, &token(&place, "planner", depth), tasks.clone());
        let unknown = |answer: Value| assert_eq!(refusal(&answer)["code"], "unknown-id", "{depth}: {answer}");
        unknown(agent.call("agora_wait", json!({"threads": [thread]})));
        unknown(agent.call("agora_dispatch_describe", json!({"id": thread})));
        unknown(agent.call("agora_dispatch_describe", json!({"id": "t_"})));
        unknown(agent.call("agora_dispatch_describe", json!({"id": "@"})));
        unknown(agent.call("agora_dispatch_cancel", json!({"id": thread})));
        unknown(agent.call("agora_answer", json!({"questionId": question, "answer": "a"})));
        assert_eq!(agent.done("agora_questions_list", json!({})), json!({"questions": []}));
        assert_eq!(agent.done("agora_wait", json!({}))["status"], "nothing");
        let log = format!("agora://threads/{thread}/log");
        assert_eq!(agent.request("resources/read", json!({"uri": log}))["error"]["code"], -32602);
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let said = agent.request(method, json!({"taskId": thread, "inputResponses": {}}));
            assert_eq!(said["error"]["code"], -32602, "{method}: {said}");
        }
    }
    assert_eq!(place.thread(&thread)["state"], "waiting", "nothing of that touched it");

    // What it started it sees, and brings to nobody but a person.
    let agent = Web::new(&address, &token(&place, "planner", "1"), tasks);
    for (subagent, why) in [("asker", "not answer itself"), ("careful", "only a person")] {
        let own = agent.dispatch(subagent);
        let waited = agent.done("agora_wait", json!({"threads": [own]}));
        assert_eq!(waited["status"], "needs_input", "it says that it shows forms, and gets none: {waited}");
        let question = waited["question"]["questionId"].as_str().unwrap();
        let refused = refusal(&agent.call("agora_answer", json!({"questionId": question, "answer": "a"})));
        assert_eq!(refused["code"], "not-entitled", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
        assert_eq!(refused["forYourUser"], format!("agora answer {question} a"));
        let filled = json!({question: {"action": "accept", "content": {"q1": "a"}}});
        let updated = agent.request("tasks/update", json!({"taskId": own, "inputResponses": filled}));
        assert_eq!(updated["error"]["code"], -32602, "{updated}");
        assert_eq!(place.thread(&own)["state"], "waiting");
        let questions = agent.done("agora_questions_list", json!({}));
        assert_eq!(questions["questions"][0]["questionId"], question);
        agent.done("agora_dispatch_cancel", json!({"id": own}));
    }
}

/// Lets each level dispatch the next with the token that it was given, and returns what there is then, the last first.
fn chained(settings: &str) -> (Place, Value) {
    let place = Place::new();
    place.cli.settings(settings);
    let (address, _server) = listen(&place);
    give_to_all(&place, &token(&place, "planner", "1"));
    let chain = r#"level=$(grep -o '[0-9]' .agora/input.json || echo 1)
[ $level -ge 5 ] && exit
out=$(call agora_dispatch '{"subagent":"chain","input":{"level":'$((level+1))'}}')
echo "level $level: $(echo "$out" | grep -o 'limit-depth' || echo dispatched)"
call agora_wait '{"until":"all"}'"#;
    bash(&place, "chain", &format!("{}{chain}", library(&address)));
    let first = place.cli.run(&["dispatch", "run", "--subagent", "chain", "--json"]).json();
    assert_eq!(first["state"], "finished", "{first}");
    let all = place.cli.run(&["ls", "--json"]).json();
    (place, all)
}

#[test]
fn what_an_agent_dispatches_stands_one_deeper() {
    for (settings, levels) in [("", 2), ("[mcp]\nmax_depth = 2\n", 3)] {
        // Each waits for the next: there is room for all of them.
        let (place, all) = chained(&format!("{settings}[target.local]\nmax_concurrent = 5\n"));
        assert_eq!(all.as_array().unwrap().len(), levels, "{all}");
        let deepest = place.show(all[0]["threadId"].as_str().unwrap());
        let said = deepest["output"]["text"].as_str().unwrap();
        assert!(said.contains(&format!("level {levels}: limit-depth")), "{said}");
        let labels = deepest["labels"].to_string();
        assert!(labels.contains("mcp.agent.planner"), "all of them are counted together: {labels}");
        assert!(labels.contains(&format!("depth-{}", levels - 1)), "{labels}");
    }
}

#[test]
fn an_agent_with_a_token_of_its_own_is_the_one_who_asks() {
    let place = Place::new();
    // Where agents may answer, it leaves its token for another and stops with a question.
    let shared = place.cli.share("shared", "[answers]\nagents = \"allow\"\n");
    let (address, _server) = listen(&place);
    give_to_all(&place, &token(&place, "planner", "1"));
    let script = format!(
        r#"echo '{{"question": "Which?", "options": ["a", "b"]}}' > .agora/needs_input.json
printf '%s' "$MCP_TOKEN" > '{}/token'"#,
        shared.display()
    );
    bash(&place, "asker", &script);
    let planner = Web::new(&address, &token(&place, "planner", "1"), json!({}));
    let thread = planner.dispatch("asker");
    let question = planner.done("agora_wait", json!({}))["question"]["questionId"].clone();
    let answer = json!({"questionId": question, "answer": "a"});
    let own = std::fs::read_to_string(shared.join("token")).unwrap();
    let asker = Web::new(&address, &own, json!({}));
    assert_eq!(refusal(&asker.call("agora_answer", answer.clone()))["code"], "unknown-id");
    assert_eq!(place.thread(&thread)["state"], "waiting");
    let answered = planner.done("agora_answer", answer);
    assert_eq!(answered["recordedAs"], "agent:planner through mcp:web", "who dispatched it may");
}
