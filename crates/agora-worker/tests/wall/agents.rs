//! The real agents behind every wall: they work, ask, and go on with the answer in the same conversation.

use std::path::Path;

use agora_testkit::model::{Model, Turn};
use agora_testkit::part;
use agora_testkit::worker::Dispatch;
use serde_json::json;

use super::support::{Setting, settings};

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");

fn script() -> Vec<Turn> {
    let question = json!({"question": "sqlite or postgres?", "options": ["sqlite", "postgres"]});
    vec![
        Turn::shell(format!(
            "mkdir -p .agora && echo '{question}' > .agora/needs_input.json; id -u > who.txt"
        )),
        Turn::text("I have asked."),
        Turn::text("postgres it is"),
    ]
}

fn asks_and_goes_on(setting: Setting, dispatch: Dispatch) {
    let first = setting.of(dispatch).run();
    assert_eq!(first.asked().items()[0].question(), "sqlite or postgres?", "{setting:?}");
    assert_eq!(first.report().wall.level, setting.level);
    assert_ne!(first.file("who.txt").as_deref().map(str::trim), Some("0"), "{setting:?}");
    let second = setting.of(first.answered(json!({"q1": "postgres"}))).run();
    let report = second.finished();
    assert!(
        report.resumed_with.is_some_and(|with| with.session && with.workspace),
        "{setting:?}: {report:?}"
    );
    assert!(second.file("who.txt").is_some());
}

#[test]
fn claude_asks_and_goes_on_behind_every_wall() {
    let Some(claude) = part::find("AGORA_TEST_CLAUDE") else { return };
    for setting in settings() {
        let model = Model::start(script());
        let dispatch = Dispatch::of(WORKER, json!({"promptTemplate": "{{task}}"}))
            .program("claude", Path::new(&claude))
            .input(json!({"task": "choose a database"}))
            .env_with_secrets(
                &[("ANTHROPIC_BASE_URL", &model.url())],
                &[("ANTHROPIC_API_KEY", "local:auth/claude")],
            )
            .secret("local:auth/claude", "sk-test-0123456789");
        asks_and_goes_on(setting, dispatch);
    }
}

#[test]
fn codex_asks_and_goes_on_behind_every_wall() {
    let Some(codex) = part::find("AGORA_TEST_CODEX") else { return };
    for setting in settings() {
        let model = Model::start(script());
        let url = format!("{}/v1", model.url());
        let dispatch = Dispatch::of(
            WORKER,
            json!({"runtime": "codex", "promptTemplate": "{{task}}", "model": "gpt-5-codex"}),
        )
        .program("codex", Path::new(&codex))
        .input(json!({"task": "choose a database"}))
        .env_with_secrets(&[("OPENAI_BASE_URL", &url)], &[("OPENAI_API_KEY", "local:auth/codex")])
        .secret("local:auth/codex", "sk-test-0123456789");
        asks_and_goes_on(setting, dispatch);
    }
}
