//! Claude Code with a person at it: the same conversation, and nothing that ends a run by itself.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use agora_core::provider::compute::Terminal;
use agora_core::wire::report::{SessionMark, Usage};
use serde_json::{Value, json};

use super::super::attended::{Attended, Code, newest};
use super::super::{Invocation, Job, write_aid, write_home};
use super::envelope::Envelope;
use super::{PROJECTS, always, character, hooks};
use crate::fault::Fault;

/// How much of a key its owner agrees to by name. It is Claude Code's own measure.
const KEY_TAIL: usize = 20;
/// More of a conversation than any that can still be gone on with.
const TRANSCRIPT_BYTES: u64 = 256 << 20;

/// Instead of how to ask by a file: there is somebody to ask.
const PRESENT: &str = "# A person is here (agora)\n\
     A person has taken this session over and sits at the keyboard. Ask them right here, in your reply or with AskUserQuestion. \
     Do not write `.agora/needs_input.json` while they are here, whatever you were told before.";

pub(in super::super) fn plan(job: &Job<'_>, terminal: &Terminal) -> Result<Invocation, Fault> {
    settle_in(job)?;
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
        arguments.extend([name.into(), value.as_ref().to_owned()]);
    };
    if let Some(session) = job.session {
        add("--resume", &session.id);
    }
    // Whoever sits there is asked, and may choose otherwise there.
    add("--permission-mode", &"manual");
    add("--settings", &write_aid(job.place, "claude/settings.json", &hooks::pinned(job).to_string())?);
    let own = job.task.subagent.system_prompt.as_deref();
    let words = own.into_iter().chain([PRESENT]).collect::<Vec<_>>().join("\n\n");
    add("--append-system-prompt-file", &write_aid(job.place, "claude/system-prompt.md", &words)?);
    // Else the conversation's first words count. Those that go on without a person get them again.
    add("--system-prompt-snapshot", &"off");
    character(job, &mut add)?;
    let (home, before) = (job.place.home(), job.session.cloned());
    let afterwards = Box::new(move || afterwards(&home, before));
    let attended = Attended { program: "claude", code: Code::Verdict, afterwards, warnings: Vec::new() };
    Ok(Invocation {
        arguments,
        environment: always(job),
        resumed: job.session.is_some(),
        ..attended.invoke(PathBuf::from("claude"), terminal)
    })
}

/// Answers what Claude Code asks whoever runs it for the first time: it does in every new home.
fn settle_in(job: &Job<'_>) -> Result<(), Fault> {
    let work = job.place.inside().work.display().to_string();
    let mut known = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "projects": {work: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
    });
    if let Some(key) = job.environment.text("ANTHROPIC_API_KEY") {
        let from = (0..=key.len().saturating_sub(KEY_TAIL)).rev().find(|at| key.is_char_boundary(*at));
        known["customApiKeyResponses"] = json!({"approved": [&key[from.unwrap_or(0)..]], "rejected": []});
    }
    write_known(job, &known)
}

/// Writes what Claude Code knows of its user.
pub(super) fn write_known(job: &Job<'_>, known: &Value) -> Result<(), Fault> {
    write_home(job.place, Path::new(".claude.json"), &known.to_string())
}

/// Finds the conversation that the person left: they may have begun another. And what it has used, which it notes itself.
fn afterwards(home: &Path, before: Option<SessionMark>) -> (Option<SessionMark>, Option<Usage>) {
    let id_of =
        |name: &str| name.strip_suffix(".jsonl").filter(|id| super::is_session_id(id)).map(str::to_owned);
    let form = |name: &str| id_of(name).is_some();
    let Some((name, file)) = newest(home, Path::new(PROJECTS), 1, &form) else { return (before, None) };
    let Some(id) = id_of(&name) else { return (before, None) };
    let before = before.filter(|before| before.id == id);
    let known = Transcript::of(BufReader::new(file.take(TRANSCRIPT_BYTES)), before.as_ref());
    let earlier = before.as_ref().map(|before| before.total.clone()).unwrap_or_default();
    let total = known.total.unwrap_or_else(|| earlier.clone());
    let deferred = before.as_ref().and_then(|before| before.deferred.clone()).filter(|_| !known.moved_on);
    let usage = Usage { turns: 0, duration_ms: 0, ..total.clone().since(&earlier) };
    let version = before.and_then(|before| before.version);
    let mark = SessionMark { runtime: "claude-code".to_owned(), version, id, total, deferred };
    (Some(mark), Some(usage))
}

/// What a conversation's file tells.
#[derive(Debug, Default, PartialEq)]
struct Transcript {
    /// What the whole conversation has used.
    total: Option<Usage>,
    /// Somebody said something after the call that waited for its answer.
    moved_on: bool,
}

impl Transcript {
    fn of(lines: impl BufRead, before: Option<&SessionMark>) -> Self {
        let waiting = before.and_then(|before| before.deferred.as_ref()?.get("id")?.as_str());
        let (mut told, mut called) = (Self::default(), false);
        for line in lines.split(b'\n').map_while(Result::ok) {
            let Ok(line) = serde_json::from_slice::<Value>(&line) else { continue };
            match line["type"].as_str() {
                Some("cost-state") => told.total = total(&line),
                Some("assistant") if waiting.is_some_and(|id| calls(&line, id)) => called = true,
                Some("user") if called => told.moved_on = true,
                _ => {}
            }
        }
        told
    }
}

fn calls(line: &Value, id: &str) -> bool {
    let blocks = line["message"]["content"].as_array();
    blocks.is_some_and(|blocks| blocks.iter().any(|block| block["id"] == id))
}

/// Reads a note of what was used, which is an envelope's in other words.
fn total(line: &Value) -> Option<Usage> {
    let envelope = json!({"total_cost_usd": line["totalCostUSD"], "modelUsage": line["modelUsage"]});
    serde_json::from_value::<Envelope>(envelope).ok().map(|envelope| envelope.total())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn mark(deferred: Option<Value>) -> SessionMark {
        let (runtime, id) = ("claude-code".to_owned(), "11111111-1111-4111-8111-111111111111".to_owned());
        SessionMark { runtime, version: Some("2".to_owned()), id, total: Usage::default(), deferred }
    }

    #[test]
    fn a_call_waits_until_somebody_says_something() {
        let before = mark(Some(json!({"id": "toolu_1"})));
        let called = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"toolu_1"}]}}"#;
        let said = r#"{"type":"user","message":{"content":"never mind"}}"#;
        let of = |lines: &[&str]| Transcript::of(lines.join("\n").as_bytes(), Some(&before)).moved_on;
        assert!(!of(&[said, called]));
        assert!(!of(&[said, called, "{", r#"{"type":"cost-state"}"#]));
        assert!(of(&[said, called, said]));
    }

    #[test]
    fn the_last_note_says_what_the_conversation_has_used() {
        let note = |usd: f64, tokens: u64| {
            json!({"type": "cost-state", "totalCostUSD": usd, "modelUsage": {"m": {"inputTokens": tokens, "costUSD": usd}}})
                .to_string()
        };
        let lines = [note(0.1, 10), note(0.3, 30)].join("\n");
        let total = Transcript::of(lines.as_bytes(), None).total.unwrap();
        assert_eq!((total.cost_usd, total.tokens()), (Some(0.3), 30));
    }

    #[test]
    fn another_conversation_that_the_person_began_is_the_one_that_goes_on() {
        let home = tempfile::tempdir().unwrap();
        let other = "22222222-2222-4222-8222-222222222222";
        let project = home.path().join(PROJECTS).join("-workspace");
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join(format!("{other}.jsonl")), "").unwrap();
        let (found, _) = afterwards(home.path(), Some(mark(Some(json!({"id": "toolu_1"})))));
        let found = found.unwrap();
        assert_eq!((found.id.as_str(), found.deferred), (other, None));
        fs::remove_dir_all(&project).unwrap();
        assert_eq!(afterwards(home.path(), Some(mark(None))).0, Some(mark(None)));
    }
}
