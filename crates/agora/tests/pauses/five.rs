//! Five pauses: every dispatch finds the work and the conversation of all before it, and nothing is done or asked twice.

use std::sync::mpsc::{Receiver, Sender, channel};

use agora_testkit::cli::{Cli, run};
use agora_testkit::model::{Model, Request, Turn};
use agora_testkit::part;
use serde_json::{Value, json};

use crate::support::{User, until};

const PAUSES: usize = 5;
/// After this answer's question everything that agora keeps is moved.
const MOVED_AFTER: usize = 2;

/// A real program, and how it is led to the model.
#[derive(Clone, Copy)]
pub(crate) enum Agent {
    Claude,
    Codex,
}

/// What the workspace is made from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Nothing,
    Repository,
    Url,
}

impl Agent {
    pub(crate) fn user(self, model: &Model) -> Option<User> {
        let (name, part, endpoint, key, more): (_, _, _, _, &[&str]) = match self {
            Self::Claude => (
                "claude",
                "AGORA_TEST_CLAUDE",
                format!("ANTHROPIC_BASE_URL={}", model.url()),
                "ANTHROPIC_API_KEY",
                &[],
            ),
            Self::Codex => (
                "codex",
                "AGORA_TEST_CODEX",
                format!("OPENAI_BASE_URL={}/v1", model.url()),
                "OPENAI_API_KEY",
                &["--runtime", "codex", "--model", "gpt-5-codex"],
            ),
        };
        let user = User::new(Cli::new(env!("CARGO_BIN_EXE_agora")).program(name, &part::find(part)?));
        let secret = format!("{key}=env:KEY");
        let register = ["env", "register", "--name", "default", "--value", &endpoint, "--secret", &secret];
        run(user.command(&register).env("KEY", "sk-test-0123456789")).success();
        let register = ["subagent", "register", "--name", "planner", "--prompt-template", "Task: {{task}}"];
        user.agora(&[&register[..], more].concat()).success();
        Some(user)
    }

    /// Asks by the file, and where the runtime has a tool for it, by that in turn.
    fn asks(self, number: usize, request: &Request) -> Turn {
        let (question, options) = (question(number), ["left", "right"]);
        if matches!(self, Self::Claude) && number % 2 == 1 {
            let options = options.map(|label| json!({"label": label, "description": "that way"}));
            let item =
                json!({"question": question, "header": "Way", "multiSelect": false, "options": options});
            return Turn::tool("AskUserQuestion", json!({"questions": [item]}));
        }
        let taught = request.system_text();
        let path = taught.lines().find_map(|line| line.strip_prefix('`')?.strip_suffix("needs_input.json`"));
        let asked = json!({"question": question, "options": options, "partial_state": {"round": number}});
        Turn::write_file(format!("{}needs_input.json", path.unwrap()), asked.to_string())
    }
}

impl Agent {
    /// Returns how often a dispatch that asks calls the model: a hook ends Claude Code when it has asked, Codex ends its turn.
    fn turns(self) -> usize {
        match self {
            Self::Claude => 2,
            Self::Codex => 3,
        }
    }
}

fn question(number: usize) -> String {
    format!("Which way at fork {number}?")
}

/// Returns a model whose every dispatch changes another file and asks, and a gate that each dispatch's first turn waits at.
fn model(agent: Agent) -> (Model, Sender<()>) {
    let (open, gate): (Sender<()>, Receiver<()>) = channel();
    let mut turn = 0;
    let model = Model::start_with(move |request| {
        let (round, step) = (turn / agent.turns(), turn % agent.turns());
        turn += 1;
        match (step, round) {
            (0, _) => {
                // Whoever drops the sender lets everything through.
                let _ = gate.recv();
                let looks = "cat made-*.txt; git log --format='saw %s'";
                Turn::shell(format!("{looks}; echo work {round} > made-{round}.txt"))
            }
            (1, PAUSES) => Turn::text("All done."),
            (1, _) => agent.asks(round, request),
            _ => Turn::text("I have asked."),
        }
    });
    (model, open)
}

fn five_pauses(agent: Agent, from: From) {
    let (model, gate) = model(agent);
    let Some(mut user) = agent.user(&model) else { return };
    let repository = (from != From::Nothing).then(|| user.repository("project"));
    let mut dispatch: Vec<String> =
        ["dispatch", "run", "--subagent", "planner", "--prompt", "find the way", "--detach", "--json"]
            .map(str::to_owned)
            .to_vec();
    match (from, &repository) {
        (From::Repository, Some(dir)) => {
            dispatch.extend(["--workspace".to_owned(), dir.display().to_string()]);
        }
        (From::Url, Some(dir)) => {
            dispatch.extend(["--workspace".to_owned(), format!("file://{}", dir.display())]);
        }
        _ => {}
    }
    let began = user.agora(&dispatch.iter().map(String::as_str).collect::<Vec<_>>()).json();
    let thread = began["threadId"].as_str().unwrap().to_owned();
    let mut dispatches = vec![began["dispatchId"].as_str().unwrap().to_owned()];
    let mut before: Option<String> = None;
    for number in 0..PAUSES {
        die_in_the_middle(&user, &model, &gate, number * agent.turns());
        let asked = user.next_question(before.as_deref());
        assert_eq!(asked["question"], question(number));
        let id = asked["questionId"].as_str().unwrap().to_owned();
        if number == MOVED_AFTER {
            user.move_home();
        }
        let answered = user.agora(&["answer", &id, "left", "--json"]).json();
        assert_eq!(answered["threadId"], thread);
        dispatches.push(answered["dispatchId"].as_str().unwrap().to_owned());
        before = Some(id);
    }
    die_in_the_middle(&user, &model, &gate, PAUSES * agent.turns());
    let last = dispatches.last().unwrap();
    until("the thread has finished", || user.agora(&["show", last, "--json"]).json()["state"] == "finished");
    let results: Vec<Value> =
        dispatches.iter().map(|id| user.agora(&["show", id, "--json"]).json()).collect();

    assert!(!model.overrun());
    is_one_conversation(agent, from, &model.requests());
    has_all_work(&results);
    is_billed_once(agent, &results);
    for resumed in &results[1..] {
        assert_eq!(resumed["resumedWith"]["session"], true, "{resumed:#}");
        assert_eq!(resumed["resumedWith"]["workspace"], true, "{resumed:#}");
    }
    if let (From::Repository, Some(dir)) = (from, &repository) {
        let listed = user.git(dir, &["ls-tree", "--name-only", &format!("refs/agora/{thread}")]);
        assert_eq!(listed, expected_files("a.txt\n"));
    }
    until("nobody is left", || user.alive().is_empty());
}

/// The engine of a dispatch is killed when the agent has begun, and nobody is told: the next command finds out.
fn die_in_the_middle(user: &User, model: &Model, gate: &Sender<()>, before: usize) {
    model.wait_for_requests(before + 1);
    until("an engine was killed", || user.kill_engines() > 0);
    gate.send(()).unwrap();
}

fn expected_files(first: &str) -> String {
    (0..=PAUSES).fold(first.to_owned(), |files, round| files + &format!("made-{round}.txt\n"))
}

/// Each request goes on where the last one ended, no call is made twice, and each question is asked once.
#[track_caller]
fn is_one_conversation(agent: Agent, from: From, requests: &[Request]) {
    let each = agent.turns();
    assert_eq!(requests.len(), each * PAUSES + 2, "every turn was taken once");
    let mut before: Vec<String> = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        let (round, step) = (number / each, number % each);
        let calls = request.calls();
        assert_eq!(calls.len(), 2 * round + step.min(2), "{calls:#?}");
        assert_eq!(calls[..before.len()], before[..], "nothing of it is lost or made again");
        assert!(request.holds("Task: find the way"), "request {number}");
        assert_eq!(request.holds("left"), number > 1, "the options, and then the answers: request {number}");
        if step == 1 {
            saw_all_before(request, round, from);
        }
        before = calls;
    }
    for round in 0..=PAUSES {
        let times = |text: &str| before.iter().filter(|call| call.contains(text)).count();
        assert_eq!(times(&format!("work {round} >")), 1, "{before:#?}");
        assert_eq!(times(&question(round)), usize::from(round < PAUSES), "{before:#?}");
    }
}

/// What the agent's command printed: the files of the rounds before, and the history of the repository.
#[track_caller]
fn saw_all_before(request: &Request, round: usize, from: From) {
    let printed = request.conversation().last().unwrap().to_string();
    for earlier in 0..=PAUSES {
        assert_eq!(printed.contains(&format!("work {earlier}")), earlier < round, "round {round}: {printed}");
    }
    assert_eq!(printed.contains("saw first"), from != From::Nothing, "round {round}: {printed}");
}

#[track_caller]
fn has_all_work(results: &[Value]) {
    for result in results {
        let since =
            result.get("patchSincePause").filter(|patch| !patch.is_null()).unwrap_or(&result["patch"]);
        assert_eq!((&since["files"], &since["insertions"]), (&json!(1), &json!(1)), "{result:#}");
    }
    let patch = &results.last().unwrap()["patch"];
    assert_eq!(patch["files"], json!(PAUSES + 1), "{patch}");
}

/// A runtime counts for its whole session; each dispatch is billed its own part.
#[track_caller]
fn is_billed_once(agent: Agent, results: &[Value]) {
    for (round, result) in results.iter().enumerate() {
        let (usage, turns) = (&result["usage"], if round < PAUSES { agent.turns() } else { 2 });
        assert_eq!(usage["models"][0]["inputTokens"], 100 * turns, "{usage:#}");
        assert_eq!(usage["models"][0]["outputTokens"], 20 * turns, "{usage:#}");
        if matches!(agent, Agent::Claude) {
            // What one turn of the scripted model costs, twice.
            let cost = usage["costUsd"].as_f64().unwrap();
            assert!((cost - 0.0016).abs() < 1e-6, "{usage:#}");
        }
    }
}

#[test]
fn claude_goes_on_through_five_pauses_in_an_empty_workspace() {
    five_pauses(Agent::Claude, From::Nothing);
}

#[test]
fn claude_goes_on_through_five_pauses_on_a_repository() {
    five_pauses(Agent::Claude, From::Repository);
}

#[test]
fn claude_goes_on_through_five_pauses_on_a_repository_that_was_fetched() {
    five_pauses(Agent::Claude, From::Url);
}

#[test]
fn codex_goes_on_through_five_pauses_on_a_repository() {
    five_pauses(Agent::Codex, From::Repository);
}
