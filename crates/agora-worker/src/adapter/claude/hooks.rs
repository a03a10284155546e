//! The settings that agora gives Claude Code: hooks that end a run at a question, and pins against the workspace's own.
//!
//! A hook is a shell command behind the wall. It reads what the worker put down beside the settings, and decides nothing: the
//! answer to one call, by that call's id, and for every other call that it waits.
//!
//! Claude Code obeys a workspace's `.claude/settings.json` also where nobody trusted it: it may switch hooks off, run a command for
//! the key, and send every request elsewhere. What stands in the settings here wins over it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::{Job, write_aid};
use crate::fault::Fault;
use crate::switches::Permission;

/// The answer to one call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// Letters, digits, `_` and `-` only: it stands in a shell command.
    pub(super) call: String,
    /// The call's input, with the answers in it.
    pub(super) input: Value,
}

/// What the settings are made for.
#[derive(Debug)]
pub(super) struct Occasion<'a> {
    /// Whether `AskUserQuestion` is offered.
    pub(super) may_ask: bool,
    pub(super) answer: Option<&'a Answer>,
    /// A rule for the one call that somebody allowed.
    pub(super) allowed: Option<&'a str>,
}

/// Returns the settings, and writes what its hooks read.
pub(super) fn settings(job: &Job<'_>, occasion: &Occasion<'_>) -> Result<Value, Fault> {
    let mut hooks = json!({"PostToolBatch": [command("*", &at_the_end_of_a_turn(job)?)]});
    if occasion.may_ask {
        let defer = write_aid(job.place, "claude/defer.json", &decision("defer", None).to_string())?;
        let at_question = match occasion.answer {
            Some(answer) => {
                let given = decision("allow", Some(&answer.input)).to_string();
                let given = write_aid(job.place, "claude/answer.json", &given)?;
                // By the call's own id: another question must not get this answer.
                let is_it = format!("grep -qF '\"tool_use_id\":\"{}\"'", answer.call);
                format!("if {is_it}; then cat {}; else cat {}; fi", quoted(&given), quoted(&defer))
            }
            None => format!("cat {}", quoted(&defer)),
        };
        hooks["PreToolUse"] = json!([command("AskUserQuestion", &at_question)]);
    }
    if job.task.switches.permission == Permission::Scoped {
        hooks["PermissionRequest"] = json!([command("*", &format!("touch {}", quoted(&flag(job))))]);
    }
    let mut settings = pinned(job);
    settings["disableAllHooks"] = json!(false);
    settings["hooks"] = hooks;
    if let Some(rule) = occasion.allowed {
        settings["permissions"] = json!({"allow": [rule]});
    }
    Ok(settings)
}

/// Returns the settings without a hook: what a workspace may not say, whoever watches the agent.
pub(super) fn pinned(job: &Job<'_>) -> Value {
    json!({"apiKeyHelper": "", "env": pins(job)})
}

/// Ends the run once a question was written, or a call was denied that should become one. After a whole turn, and also when a
/// tool failed: a shell command may write the file and end with an error.
fn at_the_end_of_a_turn(job: &Job<'_>) -> Result<String, Fault> {
    let stop = json!({"continue": false, "stopReason": "A question was asked. The run goes on when it is answered."});
    let stop = write_aid(job.place, "claude/stop.json", &stop.to_string())?;
    let (sentinel, stop) = (quoted(&job.place.inside().sentinel()), quoted(&stop));
    Ok(match job.task.switches.permission {
        Permission::Bypass | Permission::Strict => format!("if [ -e {sentinel} ]; then cat {stop}; fi"),
        Permission::Scoped => {
            let (flag, denied) =
                (quoted(&flag(job)), "grep -qF '\"tool_response\":\"Tool permission request failed'");
            format!("{denied} && touch {flag}; if [ -e {sentinel} ] || [ -e {flag} ]; then cat {stop}; fi")
        }
    })
}

/// Says that a call was denied. Outside the workspace, where no patch sees it.
fn flag(job: &Job<'_>) -> PathBuf {
    job.place.inside().tmp.join("agora-denied")
}

/// Where requests go is not for a file of the workspace to say.
fn pins(job: &Job<'_>) -> Value {
    let pinned = [
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_BEDROCK_BASE_URL",
        "ANTHROPIC_VERTEX_BASE_URL",
        "HTTPS_PROXY",
        "HTTP_PROXY",
    ];
    let value = |name: &str| Value::from(job.environment.text(name).unwrap_or_default());
    Value::Object(pinned.iter().map(|name| ((*name).to_owned(), value(name))).collect())
}

fn command(matcher: &str, command: &str) -> Value {
    json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]})
}

fn decision(decision: &str, input: Option<&Value>) -> Value {
    let mut output = json!({"hookEventName": "PreToolUse", "permissionDecision": decision});
    if let Some(input) = input {
        output["updatedInput"] = input.clone();
    }
    json!({"hookSpecificOutput": output})
}

/// Writes a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
