//! The real Codex, against a scripted model, in the real worker.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::path::{Path, PathBuf};

use agora_core::reason::FailureCode;
use agora_testkit::model::{Cut, Model, Turn};
use agora_testkit::part;
use agora_testkit::worker::{Dispatch, Ended};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");

fn codex() -> Option<PathBuf> {
    part::find("AGORA_TEST_CODEX")
}

fn dispatch(codex: &Path, url: &str, subagent: Value) -> Dispatch {
    let mut fields = json!({"runtime": "codex", "systemPrompt": "You are the planner.", "promptTemplate": "Task: {{task}}",
        "model": "gpt-5-codex"});
    fields.as_object_mut().unwrap().extend(subagent.as_object().unwrap().clone());
    Dispatch::of(WORKER, fields)
        .program("codex", codex)
        .input(json!({"task": "choose a database"}))
        .env_with_secrets(&[("OPENAI_BASE_URL", url)], &[("OPENAI_API_KEY", "local:auth/codex")])
        .secret("local:auth/codex", "sk-test-0123456789")
}

fn url(model: &Model) -> String {
    format!("{}/v1", model.url())
}

#[test]
fn a_question_pauses_and_the_answer_goes_on_in_the_same_conversation() {
    let Some(codex) = codex() else { return };
    let question = json!({"question": "sqlite or postgres?", "options": ["sqlite", "postgres"], "partial_state": {"ruled_out": ["mysql"]}});
    let script = vec![
        Turn::shell("echo notes > notes.txt; echo key=$OPENAI_API_KEY > key.txt"),
        Turn::write_file(".agora/needs_input.json", question.to_string()),
        Turn::text("I have asked."),
        Turn::text("postgres it is"),
    ];
    let model = Model::start(script);
    let first = dispatch(&codex, &url(&model), json!({})).file("AGENTS.md", "My own rules.\n").run();
    let item = json!({"id": "q1", "question": "sqlite or postgres?", "multiSelect": false, "allowOther": false,
        "human": false, "options": [{"label": "sqlite"}, {"label": "postgres"}]});
    let whole = json!({"questions": [item], "partialState": {"ruled_out": ["mysql"]}});
    assert_eq!(serde_json::to_value(first.asked()).unwrap(), whole);
    assert_eq!(first.adapter_ran().unwrap().stdout, "I have asked.");
    let progress: Value = serde_json::from_slice(&fs::read(first.out("progress.json")).unwrap()).unwrap();
    assert_eq!((&progress["action"], &progress["turns"]), (&json!("I have asked."), &json!(1)));
    assert!(progress["tokens"].as_u64().unwrap() >= 300, "{progress}");
    assert_eq!(first.file("key.txt").unwrap(), "key=\n", "what the agent runs does not see the key");
    let report = first.report();
    assert_eq!(
        (report.auth.as_deref(), report.session.as_ref().unwrap().runtime.as_str()),
        (Some("api-key"), "codex")
    );
    assert_eq!(report.usage.unwrap().models[0].input_tokens, 300);
    let request = &model.requests()[0];
    let taught = request.system_text();
    assert!(
        taught.contains("You are the planner.") && taught.contains("Asking a question (agora)"),
        "{taught}"
    );
    assert!(request.holds("agora-needs-input"), "the skill is listed");
    assert!(request.holds("My own rules."));

    let second = first.answered(json!({"q1": "postgres"})).run();
    let report = second.finished();
    assert_eq!(report.output.text, "postgres it is");
    let request = &model.requests()[3];
    for said in ["Task: choose a database", "notes.txt", "USER_INPUT_RESPONSE {\"q1\":\"postgres\"}"] {
        assert!(request.holds(said), "the conversation holds {said}");
    }
    assert_eq!(second.file("notes.txt").unwrap(), "notes\n");
    assert_eq!(second.file("AGENTS.md").unwrap(), "My own rules.\n");
    assert!(report.resumed_with.unwrap().session);
    assert_eq!(report.usage.unwrap().models[0].input_tokens, 100, "this run alone");
    assert!(fs::metadata(second.out("session.sealed")).is_ok());
    for (name, bytes) in second.everything() {
        assert!(!String::from_utf8_lossy(&bytes).contains("sk-test-0123456789"), "{name}");
    }
}

#[test]
fn nobody_is_taught_where_it_is_switched_off() {
    let Some(codex) = codex() else { return };
    let model = Model::start(vec![Turn::text("a")]);
    dispatch(&codex, &url(&model), json!({}))
        .env(&[("AGORA_DISABLE_NEEDS_INPUT_HELPER", "true")])
        .run()
        .finished();
    assert!(!model.requests()[0].holds("needs_input") && !model.requests()[0].holds("agora-needs-input"));
}

#[test]
fn errors_of_the_service_are_told_apart_and_end_soon() {
    let Some(codex) = codex() else { return };
    let failed = |script: Vec<Turn>| {
        let model = Model::start(script);
        let ended = dispatch(&codex, &url(&model), json!({})).run();
        assert!(model.requests().len() <= 8);
        let code = ended.failed().code.clone();
        let most = if code == FailureCode::Auth { 10_000 } else { 60_000 };
        let took = ended.adapter_ran().unwrap().duration_ms;
        assert!(took < most, "{code} took {took} ms");
        code
    };
    let error = |status, kind| vec![Turn::error_times(99, status, kind, "no")];
    assert_eq!(failed(error(401, "invalid_request_error")), FailureCode::Auth);
    assert_eq!(failed(error(403, "permission_error")), FailureCode::Auth);
    assert_eq!(failed(error(429, "rate_limit_exceeded")), FailureCode::RateLimited);
    assert_eq!(failed(error(500, "server_error")), FailureCode::ProviderUnavailable);
    assert_eq!(failed(error(503, "server_error")), FailureCode::ProviderUnavailable);
    let cut = |_| Turn::cut_after(Cut::Events(1), Turn::text("half a sentence"));
    assert_eq!(failed((0..9).map(cut).collect()), FailureCode::ProviderUnavailable);
}

/// By itself codex would wait for ever.
#[test]
fn a_service_that_is_not_there_ends_the_run() {
    let Some(codex) = codex() else { return };
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ended = dispatch(&codex, &format!("http://{nobody}/v1"), json!({})).run();
    assert_eq!(ended.failed().code, FailureCode::ProviderUnavailable, "{}", ended.failed().detail);
    let took = ended.adapter_ran().unwrap().duration_ms;
    assert!(took < 60_000, "{took} ms");
}

#[test]
fn a_schema_gives_structured_output() {
    let Some(codex) = codex() else { return };
    let schema = json!({"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"], "additionalProperties": false});
    let model = Model::start(vec![Turn::text(r#"{"status":"done"}"#)]);
    let report = dispatch(&codex, &url(&model), json!({"outputSchema": schema})).run().finished();
    assert_eq!(report.output.structured, Some(json!({"status": "done"})));
    assert_eq!(model.requests()[0].body["text"]["format"]["type"], "json_schema");
}

/// A model that lets it work, hangs while it waits to be told more, and has a word for whoever comes again.
fn hanging() -> Model {
    Model::start(vec![Turn::shell("echo work > work.txt"), Turn::hang(), Turn::text("went on")])
}

fn signal(id: i32, signal: Signal) {
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

/// The work and the conversation are kept, and nobody is alive.
#[track_caller]
fn assert_kept(ended: &Ended) {
    let report = ended.report();
    assert_eq!(report.session.as_ref().map(|session| session.runtime.as_str()), Some("codex"));
    assert!(fs::metadata(ended.out("session.sealed")).is_ok());
    assert_eq!(report.patch.unwrap().files, 1);
    assert_eq!(ended.dispatch.processes(), []);
}

/// Says a word more to a run that was ended early: the conversation goes on where it was.
#[track_caller]
fn assert_goes_on(ended: &Ended, model: &Model) {
    let before = model.requests().len();
    let next = ended.continued(Some("now go on")).run();
    assert_eq!(next.finished().output.text, "went on");
    let request = &model.requests()[before];
    for said in ["Task: choose a database", "echo work > work.txt", "now go on"] {
        assert!(request.holds(said), "the conversation holds {said}");
    }
    assert_eq!(next.file("work.txt").unwrap(), "work\n");
    assert!(next.report().resumed_with.unwrap().session);
}

#[test]
fn a_cancel_ends_it_softly_with_its_work_kept() {
    let Some(codex) = codex() else { return };
    let model = hanging();
    let dispatch = dispatch(&codex, &url(&model), json!({}));
    let child = dispatch.start();
    model.wait_for_requests(2);
    signal(child.id().try_into().unwrap(), Signal::TERM);
    let ended = dispatch.wait(child);
    ended.cancelled();
    let ran = ended.adapter_ran().unwrap();
    assert_eq!(ran.exit_code, 1, "interrupted, it ends by itself: {ran:?}");
    assert!(ran.duration_ms < 10_000, "within its grace: {}", ran.duration_ms);
    assert_kept(&ended);
    assert_goes_on(&ended, &model);
}

#[test]
fn the_time_limit_ends_it_softly_with_its_work_kept() {
    let Some(codex) = codex() else { return };
    let model = hanging();
    let ended =
        dispatch(&codex, &url(&model), json!({})).with(|manifest| manifest.limits.timeout_seconds = 10).run();
    assert_eq!(ended.failed().code, FailureCode::TimeLimit);
    let ran = ended.adapter_ran().unwrap();
    assert_eq!(ran.exit_code, 1, "interrupted, it ends by itself: {ran:?}");
    assert!((10_000..20_000).contains(&ran.duration_ms), "within its grace: {}", ran.duration_ms);
    assert_kept(&ended);
    assert_goes_on(&ended, &model);
}

/// A command that its tool runs is ended too, in whatever session it is.
#[test]
fn a_cancel_in_the_middle_of_a_command_leaves_nobody() {
    let Some(codex) = codex() else { return };
    let hold =
        "echo work > work.txt; setsid sh -c 'trap \"\" TERM INT HUP; touch ready; sleep 1000' & sleep 1000";
    let model = Model::start(vec![Turn::shell(hold), Turn::text("never said")]);
    let dispatch = dispatch(&codex, &url(&model), json!({}));
    let child = dispatch.start();
    dispatch.wait_for_file("ready");
    assert!(dispatch.processes().iter().any(|process| process.name == "sleep"));
    signal(child.id().try_into().unwrap(), Signal::TERM);
    let ended = dispatch.wait(child);
    ended.cancelled();
    assert_eq!(ended.dispatch.processes(), []);
    assert!(ended.report().session.is_some());
}

/// Sends a signal to the real program itself, as an agent's own tool could.
fn interrupted(codex: &Path, sent: Signal) -> Ended {
    let model = hanging();
    let dispatch = dispatch(codex, &url(&model), json!({}));
    let child = dispatch.start();
    model.wait_for_requests(2);
    let found = dispatch.processes();
    let codex = found.iter().find(|process| process.name == "codex");
    signal(codex.unwrap_or_else(|| panic!("{found:?}")).id, sent);
    dispatch.wait(child)
}

#[test]
fn a_signal_is_no_success() {
    let Some(codex) = codex() else { return };
    for (sent, code) in [(Signal::INT, 1), (Signal::TERM, 128 + 15), (Signal::KILL, 128 + 9)] {
        let ended = interrupted(&codex, sent);
        assert_eq!(
            ended.summary(),
            "failed provider-failed agent-exit",
            "{sent:?}: {}",
            ended.failed().detail
        );
        assert_eq!(ended.adapter_ran().unwrap().exit_code, code, "{sent:?}");
        assert_kept(&ended);
    }
}
