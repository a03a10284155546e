//! Hears Claude Code's stream: which conversation it is, what it uses, and how it ended.

use agora_core::reason::FailureCode;
use agora_core::sentinel;
use agora_core::time::Timestamp;
use agora_core::wire::report::{SessionMark, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{End, Job, Listener, RuntimeExit, Verdict};
use super::doing::Doing;
use super::envelope::Envelope;
use super::{ask, permission};
use crate::child::{How, Why};
use crate::needs_input::Unreadable;
use crate::progress::Progress;
use crate::switches::Permission;

/// Who listens.
#[derive(Default)]
pub(super) struct Listening {
    /// What the session had used before this run.
    before: Usage,
    /// The tokens that are left.
    tokens_left: Option<u64>,
    permission: Permission,
    /// What is to be said about the agent file.
    warning: Option<String>,
    session: Option<String>,
    version: Option<String>,
    tokens: u64,
    last_text: String,
    doing: Doing,
    resets_at: Option<Timestamp>,
    /// Its last words were that it has no credential, or one that is refused.
    unauthenticated: bool,
    envelope: Option<Envelope>,
}

/// A line of the stream, as far as it matters.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    subtype: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    claude_code_version: Option<String>,
    #[serde(default)]
    message: Value,
    #[serde(default)]
    event: Value,
    #[serde(default)]
    rate_limit_info: Value,
    #[serde(default)]
    error: Value,
}

impl Listening {
    pub(super) fn new(job: &Job<'_>, session: Option<&SessionMark>, warning: Option<String>) -> Self {
        Self {
            before: session.map(|session| session.total.clone()).unwrap_or_default(),
            tokens_left: job.left.tokens,
            permission: job.task.switches.permission,
            warning,
            ..Self::default()
        }
    }

    /// One that hears the beginning of a thread, in which calls may be denied and tokens counted.
    #[cfg(any(test, fuzzing))]
    pub(super) fn alone(permission: Permission) -> Self {
        Self { permission, tokens_left: Some(3000), ..Self::default() }
    }

    fn assistant(&mut self, message: &Value) {
        self.doing.hear(message);
        for block in message["content"].as_array().into_iter().flatten() {
            if let Some(text) = block["text"].as_str() {
                text.clone_into(&mut self.last_text);
            }
        }
    }

    /// Counts while the model writes. Comes only when there is a limit to count for.
    fn partial(&mut self, event: &Value) -> Option<Why> {
        let usage = match event["type"].as_str()? {
            "message_start" => &event["message"]["usage"],
            "message_delta" => &event["usage"],
            _ => return None,
        };
        let number = |key: &str| usage[key].as_u64().unwrap_or(0);
        let more = match event["type"].as_str()? {
            "message_start" => ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
                .map(number)
                .into_iter()
                .fold(0, u64::saturating_add),
            _ => number("output_tokens"),
        };
        self.tokens = self.tokens.saturating_add(more);
        self.tokens_left.filter(|left| self.tokens > *left).map(|_| Why::Budget)
    }

    /// Hears when a limit of the account ends.
    fn rate_limit(&mut self, info: &Value) {
        if info["status"] == "rejected"
            && let Some(seconds) = info["resetsAt"].as_i64()
        {
            self.resets_at = Some(Timestamp::from_millis(seconds.saturating_mul(1000)));
        }
    }

    fn mark(&self, envelope: Option<&Envelope>) -> Option<SessionMark> {
        let id =
            envelope.and_then(|envelope| envelope.session_id.clone()).or_else(|| self.session.clone())?;
        let deferred =
            envelope.and_then(|envelope| match (self.permission, envelope.permission_denials.first()) {
                _ if envelope.deferred().is_some() => envelope.deferred().cloned(),
                (Permission::Scoped, Some(denial)) => Some(json!({permission::KEY: denial})),
                _ => None,
            });
        let total = envelope.map_or_else(|| self.before.clone(), Envelope::total);
        Some(SessionMark {
            runtime: "claude-code".to_owned(),
            version: self.version.clone(),
            id,
            total,
            deferred,
        })
    }
}

impl Listener for Listening {
    fn line(&mut self, line: &[u8]) -> Option<Why> {
        let Ok(parsed) = serde_json::from_slice::<Line>(line) else {
            // It may have been the end: what was said before it no longer is.
            if line.trim_ascii_start().starts_with(b"{") {
                self.envelope = None;
            }
            return None;
        };
        if let Some(session) = parsed.session_id {
            self.session = Some(session);
        }
        match (parsed.kind.as_str(), parsed.subtype.as_deref()) {
            ("system", Some("init")) => {
                self.version = parsed.claude_code_version;
                // A turn begins: what was said of the one before is not the end.
                self.envelope = None;
                None
            }
            ("assistant", _) => {
                self.unauthenticated = parsed.error == "authentication_failed";
                self.assistant(&parsed.message);
                None
            }
            ("stream_event", _) => self.partial(&parsed.event),
            ("rate_limit_event", _) => {
                self.rate_limit(&parsed.rate_limit_info);
                None
            }
            // There may be several, such as one for a call that was dropped: the last one is the end.
            ("result", _) => {
                self.envelope = serde_json::from_slice(line).ok();
                None
            }
            _ => None,
        }
    }

    fn progress(&self) -> Option<Progress> {
        let progress = self.doing.progress();
        // At the end it says itself what it has used.
        Some(match &self.envelope {
            Some(envelope) => Progress {
                turns: Some(envelope.num_turns),
                tokens: Some(envelope.total().since(&self.before).tokens()),
                cost_usd: envelope.total().since(&self.before).cost_usd,
                ..progress
            },
            None => progress,
        })
    }

    fn conclude(self: Box<Self>, end: &End<'_>) -> RuntimeExit {
        let Some(envelope) = &self.envelope else {
            let detail = match end.ended.how {
                // It ends so when it is interrupted: nothing was finished.
                How::Exited(0) if end.ended.stopped.is_some() => {
                    "claude ended without saying how it went: it was interrupted".to_owned()
                }
                How::Exited(0) => {
                    "claude ended well and without a result: `agora logs ID` shows what it printed. Is the `claude` on the PATH \
                     Claude Code?"
                        .to_owned()
                }
                How::Exited(_) | How::Killed(_) => end.story("claude"),
            };
            let verdict = Verdict::failed(FailureCode::AgentExit, detail);
            let exit = RuntimeExit::new(verdict, self.last_text.clone());
            let (session, warnings) = (self.mark(None), self.warning.into_iter().collect());
            return RuntimeExit { session, runtime_version: self.version, warnings, ..exit };
        };
        let text =
            envelope.result.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| self.last_text.clone());
        let mut usage = envelope.total().since(&self.before);
        usage.turns = envelope.num_turns;
        let mut exit = RuntimeExit::new(envelope.verdict(), text);
        if let Verdict::Failed { code: FailureCode::RateLimited, retry_at, .. } = &mut exit.verdict {
            *retry_at = self.resets_at;
        }
        if let Verdict::Failed { code: code @ FailureCode::ProviderUnavailable, .. } = &mut exit.verdict
            && self.unauthenticated
        {
            // Without any credential it asks nobody, so that there is no status to tell by.
            *code = FailureCode::Auth;
        }
        exit.asked = asked(envelope, self.permission);
        if exit.asked.is_none() && envelope.terminal_reason.as_deref() == Some("tool_deferred") {
            exit.verdict = Verdict::failed(
                FailureCode::AgentExit,
                "claude stopped at a tool call that nobody can answer",
            );
        }
        exit.structured.clone_from(&envelope.structured_output);
        exit.usage = Some(usage);
        exit.session = self.mark(Some(envelope));
        exit.runtime_version.clone_from(&self.version);
        exit.warnings.extend(denied(envelope, self.permission));
        exit.warnings.extend(self.warning.clone());
        exit
    }
}

/// Returns what the agent asked by the tool, or would have asked had it been allowed to write the sentinel.
fn asked(
    envelope: &Envelope,
    mode: Permission,
) -> Option<Result<agora_core::question::Question, Unreadable>> {
    if let Some(call) = envelope.deferred()
        && call["name"] == ask::TOOL
    {
        return Some(ask::question(&call["input"]).map_err(Unreadable::Output));
    }
    let wrote = envelope.permission_denials.iter().find_map(|denial| {
        let input = &denial["tool_input"];
        let path = input["file_path"].as_str()?;
        path.ends_with(sentinel::PATH).then(|| input["content"].as_str().unwrap_or_default())
    });
    if let Some(content) = wrote {
        return Some(sentinel::parse(content.as_bytes()).map_err(Unreadable::Malformed));
    }
    match (mode, envelope.permission_denials.first()) {
        (Permission::Scoped, Some(denial)) => Some(permission::question(denial).map_err(Unreadable::Output)),
        (Permission::Bypass | Permission::Strict | Permission::Scoped, _) => None,
    }
}

/// Says which calls were denied: such a run ends with success, and did not do what it was asked.
fn denied(envelope: &Envelope, permission: Permission) -> Option<String> {
    let tools: Vec<&str> =
        envelope.permission_denials.iter().filter_map(|denial| denial["tool_name"].as_str()).collect();
    let why = match permission {
        Permission::Bypass => "its settings forbid them",
        Permission::Strict => {
            "`AGORA_CLAUDE_PERMISSION_MODE` is `strict`, and nobody is there to say yes; take it out of the env bundle, or set it to `scoped`"
        }
        Permission::Scoped => {
            "`AGORA_CLAUDE_PERMISSION_MODE` is `scoped`, and `.claude/settings.json` does not allow them"
        }
    };
    (!tools.is_empty()).then(|| {
        let calls = if tools.len() == 1 { "tool call was" } else { "tool calls were" };
        format!("{} {calls} denied ({}): {why}", tools.len(), tools.join(", "))
    })
}
