//! Codex with a person at it: `codex resume`, in the same home.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use agora_core::provider::compute::Terminal;
use agora_core::wire::report::{SessionMark, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::super::attended::{Attended, Code, newest};
use super::super::{Invocation, Job};
use super::{Listening, SESSIONS, Tokens, config, is_harmless, program, settle_in, toml_text};
use crate::fault::Fault;

/// How long an id is at the end of a conversation's name.
const ID: usize = 36;
const TRANSCRIPT_BYTES: u64 = 256 << 20;

/// Instead of how to ask by a file: there is somebody to ask. A conversation that goes on keeps the words that it began with.
const PRESENT: &str = "A person sits at the keyboard. Ask them right here, in your reply, and not by a file.";

pub(in super::super) fn plan(job: &Job<'_>, terminal: &Terminal) -> Result<Invocation, Fault> {
    // Codex's own sandbox cannot be built behind the wall, which is the sandbox.
    let first = "check_for_update_on_startup = false\nsandbox_mode = \"danger-full-access\"\napproval_policy = \"on-request\"";
    let work = toml_text(&job.place.inside().work.display().to_string());
    let trust = format!("\n[projects.{work}]\ntrust_level = \"trusted\"\n");
    let environment = settle_in(job, &(config(job, Some(PRESENT), first) + &trust))?;
    let session = job.session.filter(|session| is_harmless(&session.id));
    // Its background server would have to be a whole installation, and would end with the wall anyway.
    let mut arguments: Vec<OsString> = vec!["--no-daemon".into()];
    arguments.extend(session.into_iter().flat_map(|session| ["resume".into(), OsString::from(&session.id)]));
    let (home, before, counting) = (job.place.home(), session.cloned(), Listening::new(job, session));
    let afterwards = Box::new(move || afterwards(&home, before, &counting));
    let attended = Attended { program: "codex", code: Code::Verdict, afterwards, warnings: Vec::new() };
    Ok(Invocation {
        arguments,
        environment,
        resumed: session.is_some(),
        ..attended.invoke(program(job), terminal)
    })
}

/// Finds the conversation that the person left: they may have begun another. And what it has used, which it notes itself.
fn afterwards(
    home: &Path,
    before: Option<SessionMark>,
    counting: &Listening,
) -> (Option<SessionMark>, Option<Usage>) {
    let id_of = |name: &str| {
        let stem = name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
        stem.len()
            .checked_sub(ID)
            .and_then(|from| stem.get(from..))
            .filter(|id| is_harmless(id))
            .map(str::to_owned)
    };
    let form = |name: &str| id_of(name).is_some();
    let Some((name, file)) = newest(home, Path::new(SESSIONS), 3, &form) else { return (before, None) };
    let Some(id) = id_of(&name) else { return (before, None) };
    let before = before.filter(|before| before.id == id);
    let earlier = before.as_ref().map(|before| before.total.clone()).unwrap_or_default();
    let tokens = last_count(BufReader::new(file.take(TRANSCRIPT_BYTES)));
    let total = tokens.map_or_else(|| earlier.clone(), |tokens| counting.count(&tokens));
    let usage = Usage { turns: 0, ..total.clone().since(&earlier) };
    let version = before.and_then(|before| before.version);
    let mark = SessionMark { runtime: "codex".to_owned(), version, id, total, deferred: None };
    (Some(mark), Some(usage))
}

/// Reads the last count of the whole conversation.
fn last_count(lines: impl BufRead) -> Option<Tokens> {
    let mut last = None;
    for line in lines.split(b'\n').map_while(Result::ok) {
        let Ok(line) = serde_json::from_slice::<Value>(&line) else { continue };
        let told = &line["payload"];
        if told["type"] == "token_count" && told["info"]["total_token_usage"].is_object() {
            last = Tokens::deserialize(&told["info"]["total_token_usage"]).ok();
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conversation_and_what_it_used_are_found_in_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let day = dir.path().join(SESSIONS).join("2026/11/17");
        std::fs::create_dir_all(&day).unwrap();
        let id = "019a9b1c-0000-7000-8000-000000000001";
        let count = |input: u64| {
            format!(
                r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{input},"output_tokens":2}}}}}}}}"#
            )
        };
        let lines =
            [count(5), r#"{"payload":{"type":"token_count","info":null}}"#.to_owned(), count(9)].join("\n");
        std::fs::write(day.join(format!("rollout-2026-11-17T10-00-00-{id}.jsonl")), lines).unwrap();
        let (mark, usage) = afterwards(dir.path(), None, &Listening::default());
        assert_eq!(mark.unwrap().id, id);
        assert_eq!(usage.unwrap().tokens(), 11);
    }
}
