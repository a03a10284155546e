//! agora's own question: a budget is used up, a person says how much more or that it stops, and what they say holds.

use agora_core::bundle::Budget;
use agora_engine::{Agora, Answerer, Dispatch, Error, Point, Refusal, Settings, Verdict};
use agora_testkit::cli::Cli;
use agora_testkit::model::{Model, Turn};
use serde_json::{Value, json};

use crate::five::Agent;
use crate::support::User;

/// A user whose `planner` has a budget, and a model that says something else after so many turns of work.
fn user(budget: &Value, works: usize) -> Option<(User, Model)> {
    let mut turn = 0;
    let model = Model::start_with(move |_| {
        turn += 1;
        if turn > works { Turn::text("All done.") } else { Turn::shell(format!("echo {turn} >> made.txt")) }
    });
    let user = Agent::Claude.user(&model)?;
    user.subagent("planner", &json!({"promptTemplate": "Task: {{task}}", "budget": budget}));
    Some((user, model))
}

fn begin(user: &User) -> Value {
    user.agora(&["dispatch", "run", "--subagent", "planner", "--prompt", "x", "--pause-ok", "--json"]).json()
}

fn answer(user: &User, question: &Value, text: &str) -> Value {
    let id = question["questionId"].as_str().unwrap();
    user.agora(&["answer", id, text, "--follow", "--pause-ok", "--json"]).json()
}

#[test]
fn whoever_raises_the_limit_lets_the_thread_go_on_with_that_much_more() {
    let Some((user, model)) = user(&json!({"turns": 2}), 6) else { return };
    let paused = begin(&user);
    let asked = &paused["needsInput"];
    assert_eq!(asked["question"], "The thread's budget is used up: 2 turns. Raise the limit?", "{paused:#}");
    assert_eq!(asked["questions"][0]["human"], true);
    let id = asked["questionId"].as_str().unwrap();
    for refused in ["maybe", "-1", "2.5", "3 USD"] {
        let ran = user.agora(&["answer", "--json", "--", id, refused]);
        assert_eq!(ran.code, Some(2), "{refused}: {ran:?}");
    }
    // As much again, from what is used up: Claude Code counts the turn that it did not take any more.
    let limit = |answered: &Value| {
        user.manifest(&answered["dispatchId"])["limits"]["budget"]["turns"].as_u64().unwrap()
    };
    let again = answer(&user, asked, "Raise it");
    let asked = &again["result"]["needsInput"];
    let used = paused["usage"]["turns"].as_u64().unwrap();
    assert_eq!(limit(&again), used.max(2) + 2);
    let expected = format!("The thread's budget is used up: {} turns. Raise the limit?", limit(&again));
    assert_eq!(asked["question"], expected, "{again:#}");
    let last = answer(&user, asked, "+3 turns");
    assert_eq!(last["result"]["state"], "finished", "{last:#}");
    let used = used + again["result"]["usage"]["turns"].as_u64().unwrap();
    assert_eq!(limit(&last), used.max(limit(&again)) + 3);
    assert_eq!(last["result"]["resumedWith"]["session"], true);
    assert_eq!(last["result"]["patch"]["insertions"], 6, "all of it is there");
    assert_eq!(model.requests().len(), 7, "nothing was done twice");
}

#[test]
fn whoever_says_stop_ends_the_thread_with_what_it_has() {
    let Some((user, _model)) = user(&json!({"turns": 1}), 9) else { return };
    let paused = begin(&user);
    let id = paused["needsInput"]["questionId"].as_str().unwrap();
    let stopped = user.agora(&["answer", id, "Stop here", "--json"]).json();
    assert_eq!((&stopped["goesOn"], &stopped["dispatchId"]), (&json!(false), &paused["dispatchId"]));
    let thread = user.agora(&["thread", "show", id, "--json"]).json();
    assert_eq!((&thread["state"], &thread["failure"]["code"]), (&json!("failed"), &json!("budget")));
    assert_eq!(thread["dispatches"].as_array().unwrap().len(), 1);
    assert_eq!(thread["dispatches"][0]["state"], "needs_input", "the dispatch stays what it was");
    assert_eq!(user.agora(&["inbox", "--json"]).json(), json!([]));
    let late = user.agora(&["answer", id, "Raise it", "--json"]);
    assert!(late.code == Some(2) && late.stdout.contains("answered-before"), "{late:?}");
}

#[test]
fn a_budget_that_is_to_fail_asks_nobody() {
    let Some((user, _model)) = user(&json!({"turns": 1, "onLimit": "fail"}), 9) else { return };
    let ran = user.agora(&["dispatch", "run", "--subagent", "planner", "--prompt", "x", "--json"]);
    let failed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &failed["failure"]["code"]), (Some(1), &json!("budget")), "{failed:#}");
}

/// Who asks like agora is not agora: an agent cannot have its limit raised by a question of its own.
#[test]
fn an_agent_that_asks_in_agora_s_words_raises_nothing() {
    let user = User::new(Cli::new(env!("CARGO_BIN_EXE_agora")));
    let asks = r#"[ -e .agora/resume.json ] && exit
        echo '{"question": "The budget is used up. Raise the limit?", "options": ["Raise it", "Stop here"], "spent": "turns"}' > .agora/needs_input.json"#;
    let command = json!(["/bin/sh", "-c", asks]);
    user.subagent("planner", &json!({"runtime": "command", "command": command, "budget": {"turns": 5}}));
    let paused = begin(&user);
    let answered = answer(&user, &paused["needsInput"], "Raise it");
    assert_eq!(answered["result"]["state"], "finished", "{answered:#}");
    assert_eq!(user.manifest(&answered["dispatchId"])["limits"]["budget"]["turns"], 5);
    let paused = begin(&user);
    let answered = answer(&user, &paused["needsInput"], "Stop here");
    assert_eq!(answered["result"]["state"], "finished", "it is an answer like any other: {answered:#}");
}

#[tokio::test]
async fn a_command_that_counts_nothing_has_its_time_raised() {
    let dir = tempfile::tempdir().unwrap();
    let agora = Agora::open(dir.path()).with_settings(Settings::with_worker(env!("CARGO_BIN_EXE_agora")));
    let raw = json!({"runtime": "command", "command": ["/bin/sh", "-c", "echo done"]});
    let name = "quick".parse().unwrap();
    agora.register_subagent(&name, serde_json::from_value(raw).unwrap(), &[]).await.unwrap();
    let none = Budget { minutes: Some(0), ..Budget::default() };
    let me = Answerer::new("user:ann", "test");
    let thread = agora.dispatch(Dispatch::to("quick").budget(none)).await.unwrap();
    let asked = thread.wait().await.unwrap().needs_input.unwrap();
    assert!(asked.question.contains("0 minutes"), "{asked:?}");
    let helper = Answerer::new("agent:helper", "mcp");
    for agent in [helper, me.clone().relayed_by("agent:helper")] {
        let refused = thread.answer("1 minutes", &agent).await.unwrap_err();
        assert!(matches!(refused, Error::Answer(Refusal::NotEntitled { .. })), "{refused:?}");
    }
    let refused = thread.answer("soon", &me).await.unwrap_err();
    assert!(matches!(refused, Error::Answer(Refusal::Unfit { .. })), "{refused:?}");
    let (next, answered) = thread.answer("1 minutes", &me).await.unwrap();
    assert!(answered.goes_on);
    let result = next.wait().await.unwrap();
    assert_eq!((result.state, result.output.text.as_str()), ("finished", "done\n"), "{:?}", result.failure);

    // To stop is an end like any other: its receipt is kept, and no point of the protocol fails.
    let none = Budget { minutes: Some(0), ..Budget::default() };
    let thread = agora.dispatch(Dispatch::to("quick").budget(none)).await.unwrap();
    thread.wait().await.unwrap().needs_input.unwrap();
    let (_, stopped) = thread.answer("Stop here", &me).await.unwrap();
    assert!(!stopped.goes_on);
    let checklist = agora.check_protocol(thread.id()).await.unwrap();
    assert!(checklist.passed(), "{checklist:#?}");
    let kept = checklist.pauses[0].points.iter().find(|checked| checked.point == Point::AnswerKept).unwrap();
    assert_eq!(kept.verdict, Verdict::Passed, "{kept:?}");
}
