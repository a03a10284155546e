//! Claude Code: headless, its JSON stream, the prompt on standard input.
//!
//! Asking works in two ways. The agent writes the sentinel, and a hook ends its run right there; or it calls
//! `AskUserQuestion`, and a hook defers the call: the run ends, and when it goes on, the hook gives the answer as the result of
//! that very call.

mod ask;
pub(super) mod attended;
mod doing;
mod envelope;
mod hooks;
mod listen;
mod permission;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agora_core::bundle::Model;
use agora_core::limits::PROMPT_BYTES;
use agora_core::wire::report::SessionMark;
use serde_json::Value;

use super::{Invocation, Job, check_size, words, write_aid};
use crate::child::{Input, SoftSignal};
use crate::fault::Fault;
use crate::needs_input::file::{self, Found};
use crate::switches::Permission;
use listen::Listening;

/// What it refuses on standard input.
const LONGEST_PROMPT: usize = 10 * 1024 * 1024;
/// The kernel refuses an argument of 128 KiB.
const LONGEST_ARGUMENT: usize = 120 * 1024;
/// Three more tries outlast a short overload, and a bad key is over in five seconds. It would take minutes by default.
const RETRIES: &str = "3";

/// What an agent file may say in Claude Code's own words, and a headless run has no use for.
const UNUSED: [&str; 8] =
    ["background", "hooks", "initialPrompt", "isolation", "mcpServers", "memory", "permissionMode", "skills"];

/// Where capabilities name plugins.
const PLUGINS: &str = "agora-plugins.json";
/// Where it keeps conversations, by project.
pub(super) const PROJECTS: &str = ".claude/projects";

pub(super) fn plan(job: &Job<'_>) -> Result<Invocation, Fault> {
    check_size("the prompt", job.prompt.len(), LONGEST_PROMPT)?;
    let goes_on = Resumed::of(job);
    let may_ask = (job.teaching.is_some() || goes_on.answer.is_some()) && !goes_on.drops_a_call;
    let occasion =
        hooks::Occasion { may_ask, answer: goes_on.answer.as_ref(), allowed: goes_on.allowed.as_deref() };
    let settings = hooks::settings(job, &occasion)?;
    if job.task.switches.permission == Permission::Scoped {
        trust_the_workspace(job)?;
    }
    let mut flags = Vec::new();
    let mut arguments: Vec<OsString> =
        ["--print", "--verbose", "--output-format", "stream-json"].map(Into::into).to_vec();
    let mut add = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
        arguments.extend([name.into(), value.as_ref().to_owned()]);
    };
    add("--settings", &write_aid(job.place, "claude/settings.json", &settings.to_string())?);
    if let Some(text) = system_prompt(job) {
        add("--append-system-prompt-file", &write_aid(job.place, "claude/system-prompt.md", &text)?);
    }
    if let Some(session) = goes_on.session {
        add("--resume", &session.id);
    }
    character(job, &mut add)?;
    let own = |key: &str| job.task.subagent.claude.as_ref().and_then(|fields| fields.get(key));
    let turns = own("maxTurns").and_then(Value::as_u64).and_then(|turns| u32::try_from(turns).ok());
    if let Some(turns) = [turns, job.left.turns].into_iter().flatten().min() {
        add("--max-turns", &turns.to_string());
    }
    if let Some(usd) = job.left.usd {
        add("--max-budget-usd", &usd.to_string());
    }
    if job.left.tokens.is_some() {
        // Without it, what the model wrote is counted only at the end.
        flags.push("--include-partial-messages");
    }
    if let Some(schema) = &job.task.subagent.output_schema {
        let schema = Value::Object(schema.clone()).to_string();
        check_size("`outputSchema`", schema.len(), LONGEST_ARGUMENT)?;
        add("--json-schema", &schema);
    }
    if may_ask {
        // Without somebody to show it to, the tool is not offered; the hook answers before anybody is asked.
        add("--permission-prompt-tool", &"stdio");
    }
    match job.task.switches.permission {
        Permission::Bypass => flags.push("--dangerously-skip-permissions"),
        // Rules for paths stand under `Edit`, also for writing.
        Permission::Strict | Permission::Scoped => {
            arguments.extend(["--allowedTools", "Edit(.agora/**)"].map(OsString::from));
        }
    }
    arguments.extend(flags.into_iter().map(OsString::from));
    let stdin = match (&goes_on.answer, job.task.occasion.message()) {
        // The answer comes back as the result of the call that waits; a prompt would be one turn more.
        (Some(_), None) => Input::Closed,
        (Some(_), Some(_)) | (None, _) => Input::Bytes(words(job, goes_on.session.is_some())),
    };
    Ok(Invocation {
        program: PathBuf::from("claude"),
        arguments,
        environment: environment(job, &goes_on),
        stdin,
        soft: SoftSignal::Terminate,
        listener: Box::new(Listening::new(job, goes_on.session, unused(job))),
        resumed: goes_on.session.is_some(),
    })
}

/// Says who the agent is, whoever watches it: its model, its tools, its plugins.
fn character(job: &Job<'_>, add: &mut dyn FnMut(&str, &dyn AsRef<std::ffi::OsStr>)) -> Result<(), Fault> {
    if let Some(model) = job.task.model() {
        add("--model", &model_name(&model));
    }
    let own = |key: &str| job.task.subagent.claude.as_ref().and_then(|fields| fields.get(key));
    if let Some(effort) = own("effort").and_then(Value::as_str) {
        add("--effort", &effort);
    }
    if let Some(tools) = own("tools").and_then(list) {
        // Whoever restricts an agent's tools did not mean to take its voice.
        add("--tools", &[&tools[..], &["AskUserQuestion".to_owned()]].concat().join(","));
    }
    if let Some(tools) = own("disallowedTools").and_then(list) {
        add("--disallowedTools", &tools.join(","));
    }
    for plugin in plugins(&job.place.work())? {
        add("--plugin-dir", &job.place.inside().work.join(plugin));
    }
    Ok(())
}

/// Tells whether a name is a conversation's, and no flag.
fn is_session_id(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') && !id.starts_with('-')
}

/// Hears an output that no program printed.
#[cfg(any(test, fuzzing))]
pub(super) fn listener(permission: Permission) -> Box<dyn super::Listener> {
    Box::new(Listening::alone(permission))
}

/// Says what of the agent file does not count here: whoever wrote it thinks that it does.
fn unused(job: &Job<'_>) -> Option<String> {
    let own = job.task.subagent.claude.as_ref()?;
    let keys: Vec<&str> = UNUSED.into_iter().filter(|key| own.contains_key(*key)).collect();
    (!keys.is_empty())
        .then(|| format!("the agent file's `{}` has no effect in a dispatch", keys.join("`, `")))
}

/// How an earlier conversation goes on.
#[derive(Default)]
struct Resumed<'a> {
    session: Option<&'a SessionMark>,
    /// The call that waits, with its answer.
    answer: Option<hooks::Answer>,
    /// A rule for a call that was denied, and is allowed now.
    allowed: Option<String>,
    /// A call waits for an answer that nobody gave: it is dropped, and the conversation goes on without it.
    drops_a_call: bool,
}

impl<'a> Resumed<'a> {
    fn of(job: &Job<'a>) -> Self {
        let Some(session) = job.session else { return Self::default() };
        let goes_on = Self { session: Some(session), ..Self::default() };
        let answered = job.task.occasion.answered();
        match &session.deferred {
            None => goes_on,
            Some(deferred) if deferred.get(permission::KEY).is_some() => {
                let allowed =
                    answered.and_then(|answered| permission::rule(&deferred[permission::KEY], answered));
                Self { allowed, ..goes_on }
            }
            Some(deferred) => match answered.and_then(|answered| ask::answer(deferred, answered)) {
                Some(answer) => Self { answer: Some(answer), ..goes_on },
                None => Self { drops_a_call: true, ..goes_on },
            },
        }
    }
}

/// Lets the rules count that a capability put into `.claude/settings.json`: the workspace is what agora laid out.
fn trust_the_workspace(job: &Job<'_>) -> Result<(), Fault> {
    let work = job.place.inside().work.display().to_string();
    let trust = serde_json::json!({"projects": {work: {"hasTrustDialogAccepted": true}}});
    attended::write_known(job, &trust)
}

fn environment(job: &Job<'_>, goes_on: &Resumed<'_>) -> Vec<(&'static str, OsString)> {
    let mut set = always(job);
    // A sub-agent in the background would outlive the turn in which it asked.
    set.push(("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1".into()));
    if goes_on.drops_a_call {
        set.push(("CLAUDE_CODE_DROP_UNAVAILABLE_DEFERRED_TOOL", "1".into()));
    }
    set
}

/// What it is told by variables, whoever watches it.
fn always(job: &Job<'_>) -> Vec<(&'static str, OsString)> {
    let mut set: Vec<(&'static str, OsString)> = vec![
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        ("DISABLE_AUTOUPDATER", "1".into()),
        ("DISABLE_ERROR_REPORTING", "1".into()),
        ("DISABLE_TELEMETRY", "1".into()),
    ];
    if !job.environment.has("CLAUDE_CODE_MAX_RETRIES") {
        set.push(("CLAUDE_CODE_MAX_RETRIES", RETRIES.into()));
    }
    if rustix::process::geteuid().is_root() {
        // As root it refuses to skip permissions, unless it is told that it stands in a sandbox.
        set.push(("IS_SANDBOX", "1".into()));
    }
    set
}

/// The subagent's own words, then how to ask.
fn system_prompt(job: &Job<'_>) -> Option<String> {
    let parts = [job.task.subagent.system_prompt.as_deref(), job.teaching.as_deref()];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    (!text.is_empty()).then_some(text)
}

fn model_name(model: &Model) -> String {
    match model {
        Model::Fast => "haiku".to_owned(),
        Model::Standard => "sonnet".to_owned(),
        Model::Max => "opus".to_owned(),
        Model::Native(name) => name.clone(),
    }
}

/// Reads a list as agent files write it: a YAML list, or names with commas between them.
fn list(value: &Value) -> Option<Vec<String>> {
    let names: Vec<String> = match value {
        Value::String(text) => {
            text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        }
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    (!names.is_empty()).then_some(names)
}

/// Returns the plugins that capabilities name: directories of the workspace, from its root.
fn plugins(work: &Path) -> Result<Vec<PathBuf>, Fault> {
    let unreadable =
        |why: &str| Fault::NoAdapter { runtime: "claude-code".to_owned(), why: format!("`{PLUGINS}` {why}") };
    let bytes = match file::read(work, Path::new(PLUGINS), PROMPT_BYTES as u64) {
        Ok(Found::Nothing) => return Ok(Vec::new()),
        Ok(Found::Bytes(bytes)) => bytes,
        Ok(Found::NotAFile(what)) => return Err(unreadable(&format!("is {what}"))),
        Err(error) => return Err(unreadable(&format!("cannot be read: {error}"))),
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| unreadable("is not JSON"))?;
    let listed = match &value {
        Value::Array(items) => Some(items),
        Value::Object(fields) => fields.get("plugins").and_then(Value::as_array),
        _ => None,
    };
    let shape = || unreadable("is not `{\"plugins\": [\"directory\", …]}` with directories of the workspace");
    let directory = |item: &Value| {
        let path: agora_core::BundlePath = item.as_str()?.trim_end_matches('/').parse().ok()?;
        // One that is not there would be passed over in silence.
        Some(PathBuf::from(path.as_str())).filter(|path| work.join(path).is_dir())
    };
    listed.ok_or_else(shape)?.iter().map(|item| directory(item).ok_or_else(shape)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_read_as_agent_files_write_them() {
        let expected = Some(vec!["Read".to_owned(), "Bash(git *)".to_owned()]);
        assert_eq!(list(&json!("Read, Bash(git *)")), expected);
        assert_eq!(list(&json!(["Read", "Bash(git *)"])), expected);
        assert_eq!(list(&json!("")), None);
        assert_eq!(list(&json!(true)), None);
    }

    #[test]
    fn plugins_are_directories_of_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(dir.path().join(PLUGINS), text).unwrap();
            plugins(dir.path())
        };
        assert_eq!(plugins(dir.path()).unwrap(), Vec::<PathBuf>::new());
        std::fs::create_dir_all(dir.path().join("b/c")).unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        let both = ["a", "b/c"].map(PathBuf::from);
        assert_eq!(read(r#"{"plugins": ["a", "b/c/"]}"#).unwrap(), both);
        assert_eq!(read(r#"["a", "b/c"]"#).unwrap(), both);
        for wrong in ["", "{}", "[1]", r#"["../x"]"#, r#"["/etc"]"#, r#"{"plugins": "a"}"#, r#"["nowhere"]"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
