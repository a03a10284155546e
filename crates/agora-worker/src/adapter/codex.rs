//! Codex: `codex exec --json`, the prompt on standard input, a home that agora owns.

mod attended;
mod doing;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use agora_core::bundle::Model;
use agora_core::login::{CHATGPT_ACCESS, CHATGPT_ACCOUNT, CHATGPT_ID};
use agora_core::reason::FailureCode;
use agora_core::wire::report::{ModelUsage, SessionMark, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    End, Environment, Invocation, Job, Listener, Runtime, RuntimeExit, Verdict, check_size, version, words,
    write_aid, write_home,
};
use crate::child::{Input, SoftSignal, Why};
use crate::fault::Fault;
use crate::progress::Progress;

/// Its home, in the agent's.
const HOME: &str = ".codex";
/// Where it keeps conversations, by year, month and day.
pub(super) const SESSIONS: &str = ".codex/sessions";
/// How often it may say that it waits for the network: some seconds each.
const PATIENCE: u32 = 3;
/// Codex renews by itself what it renewed long ago. What a dispatch has is not its to renew.
const NEVER_STALE: &str = "2999-01-01T00:00:00Z";
/// What it refuses on standard input, in characters.
const LONGEST_PROMPT: usize = 1_048_576;

pub(super) use attended::plan as attend;

pub(super) fn plan(job: &Job<'_>) -> Result<Invocation, Fault> {
    check_size("the prompt", job.prompt.chars().count(), LONGEST_PROMPT)?;
    let environment = settle_in(job, &config(job, job.teaching.as_deref(), ""))?;
    let mut arguments: Vec<OsString> = vec!["exec".into()];
    let session = job.session.filter(|session| is_harmless(&session.id));
    if session.is_some() {
        arguments.push("resume".into());
    }
    let flags = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
    arguments.extend(flags.map(OsString::from));
    if let Some(schema) = &job.task.subagent.output_schema {
        let schema = Value::Object(schema.clone()).to_string();
        let path = write_aid(job.place, "codex/output-schema.json", &schema)?;
        arguments.extend(["--output-schema".into(), path.into()]);
    }
    arguments.extend(session.map(|session| OsString::from(&session.id)));
    // The prompt is on standard input.
    arguments.push("-".into());
    Ok(Invocation {
        program: program(job),
        arguments,
        environment,
        stdin: Input::Bytes(words(job, session.is_some())),
        // It cleans up after itself only when it is interrupted.
        soft: SoftSignal::Interrupt,
        listener: Box::new(Listening::new(job, session)),
        resumed: session.is_some(),
    })
}

fn program(job: &Job<'_>) -> PathBuf {
    native(job).unwrap_or_else(|| PathBuf::from("codex"))
}

/// Makes codex's home, with its settings and its login, and returns what it is told by variables.
fn settle_in(job: &Job<'_>, config: &str) -> Result<Vec<(&'static str, OsString)>, Fault> {
    let home = Path::new(HOME);
    write_home(job.place, &home.join("config.toml"), config)?;
    let mut environment = vec![("CODEX_HOME", job.place.inside().home.join(HOME).into_os_string())];
    if let Some(login) = chatgpt(job.environment) {
        write_home(job.place, &home.join("auth.json"), &login)?;
        // In a file, where it looks for them; what it starts need not inherit them.
        environment.extend([CHATGPT_ACCESS, CHATGPT_ID, CHATGPT_ACCOUNT].map(|name| (name, OsString::new())));
    }
    Ok(environment)
}

/// An id that is an argument must not pass for a flag.
fn is_harmless(id: &str) -> bool {
    !id.starts_with('-')
        && !id.is_empty()
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Writes `config.toml`: the words, the model, more lines of its first part, and the endpoint where one is given.
fn config(job: &Job<'_>, teaching: Option<&str>, more: &str) -> String {
    let mut lines = Vec::new();
    let words = [job.task.subagent.system_prompt.as_deref(), teaching];
    let words = words.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    if !words.is_empty() {
        lines.push(format!("developer_instructions = {}", toml_text(&words)));
    }
    if let Some(model) = job.task.model() {
        lines.push(format!("model = {}", toml_text(&model_name(&model))));
    }
    lines.extend((!more.is_empty()).then(|| more.to_owned()));
    let key = ["CODEX_API_KEY", "OPENAI_API_KEY"].into_iter().find(|name| job.environment.has(name));
    // A provider of our own: the built-in one takes neither the key nor another endpoint, and tries for long.
    let url = job.environment.text("OPENAI_BASE_URL");
    let login = match key {
        Some(key) => Some(format!("env_key = {}", toml_text(key))),
        // A ChatGPT login knows its own endpoint; another is for whoever stands between.
        None => url.map(|_| "requires_openai_auth = true".to_owned()),
    };
    if let Some(login) = login {
        let url = url.unwrap_or("https://api.openai.com/v1");
        lines.push("model_provider = \"agora\"".to_owned());
        lines.push("\n[model_providers.agora]\nname = \"agora\"\nwire_api = \"responses\"".to_owned());
        lines.push(format!("base_url = {}\n{login}", toml_text(url)));
        lines.push(
            "request_max_retries = 1\nstream_max_retries = 2\nstream_idle_timeout_ms = 300000".to_owned(),
        );
    }
    if let Some(key) = key {
        lines.push(format!("\n[shell_environment_policy]\nexclude = [{}]", toml_text(key)));
    }
    lines.join("\n") + "\n"
}

/// Writes the login as codex keeps one, but without what renews it: that is agora's to spend, once, and nobody else's.
fn chatgpt(environment: &Environment) -> Option<String> {
    let (access, id) = (environment.text(CHATGPT_ACCESS)?, environment.text(CHATGPT_ID)?);
    let tokens = json!({
        "id_token": id,
        "access_token": access,
        "refresh_token": "",
        "account_id": environment.text(CHATGPT_ACCOUNT),
    });
    let login = json!({
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": null,
        "tokens": tokens,
        "last_refresh": NEVER_STALE,
    });
    Some(login.to_string())
}

/// Writes a text as TOML: JSON's escapes are among its own, but for a few that JSON leaves bare.
fn toml_text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn model_name(model: &Model) -> String {
    match model {
        Model::Fast => "gpt-5-codex-mini".to_owned(),
        Model::Standard => "gpt-5-codex".to_owned(),
        Model::Max => "gpt-5-codex-max".to_owned(),
        Model::Native(name) => name.clone(),
    }
}

/// Finds the program behind npm's wrapper. Killed, the wrapper leaves the real one running.
fn native(job: &Job<'_>) -> Option<PathBuf> {
    let path = job.environment.0.get(std::ffi::OsStr::new("PATH"))?;
    let wrapper = std::env::split_paths(path).map(|dir| dir.join("codex")).find(|path| path.is_file())?;
    let wrapper = fs::canonicalize(wrapper).ok()?;
    let package =
        wrapper.parent().filter(|_| wrapper.extension().is_some_and(|end| end == "js"))?.parent()?;
    let (cpu, triple) = match std::env::consts::ARCH {
        "aarch64" => ("arm64", "aarch64-unknown-linux-musl"),
        _ => ("x64", "x86_64-unknown-linux-musl"),
    };
    let inside = Path::new("vendor").join(triple).join("bin/codex");
    let name = format!("codex-linux-{cpu}");
    let beside = package.parent()?.join(&name);
    let below = package.join("node_modules/@openai").join(&name);
    [beside, below].into_iter().map(|dir| dir.join(&inside)).find(|path| path.is_file())
}

/// Hears an output that no program printed.
#[cfg(any(test, fuzzing))]
pub(super) fn listener() -> Box<dyn Listener> {
    Box::new(Listening { wants_structure: true, ..Listening::default() })
}

/// Hears codex's stream.
#[derive(Default)]
struct Listening {
    before: Usage,
    model: String,
    version: Option<String>,
    session: Option<String>,
    text: String,
    action: Option<String>,
    turns: u64,
    total: Option<Usage>,
    completed: bool,
    failure: Option<String>,
    wants_structure: bool,
    /// How often it has said that it waits for the network. It would do so for ever.
    waits: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
    output_tokens: u64,
}

impl Listening {
    fn new(job: &Job<'_>, session: Option<&SessionMark>) -> Self {
        Self {
            before: session.map(|session| session.total.clone()).unwrap_or_default(),
            model: job.task.model().as_ref().map_or_else(|| "codex".to_owned(), model_name),
            version: version::installed(&Runtime::Codex, job.environment),
            session: session.map(|session| session.id.clone()),
            wants_structure: job.task.subagent.output_schema.is_some(),
            ..Self::default()
        }
    }

    /// The counts are those of the whole thread, and there is no price.
    fn count(&self, tokens: &Tokens) -> Usage {
        let model = ModelUsage {
            model: self.model.clone(),
            input_tokens: tokens.input_tokens.saturating_sub(tokens.cached_input_tokens),
            output_tokens: tokens.output_tokens,
            cache_read_tokens: tokens.cached_input_tokens,
            cache_write_tokens: tokens.cache_write_input_tokens,
            cost_usd: None,
        };
        Usage { models: vec![model], cost_usd: None, turns: self.turns, duration_ms: 0 }
    }
}

impl Listener for Listening {
    fn line(&mut self, line: &[u8]) -> Option<Why> {
        let Ok(line) = serde_json::from_slice::<Value>(line) else {
            // It may have been the end: what was said before it no longer is.
            self.completed &= !line.trim_ascii_start().starts_with(b"{");
            return None;
        };
        if let Some(action) = doing::action(&line["item"]) {
            self.action = Some(action);
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match line["type"].as_str()? {
            "thread.started" => self.session = text(&line["thread_id"]),
            "turn.started" => (self.turns, self.completed, self.failure) = (self.turns + 1, false, None),
            "item.completed" if line["item"]["type"] == "agent_message" => {
                self.text = text(&line["item"]["text"]).unwrap_or_default();
            }
            "turn.completed" => {
                self.completed = true;
                // Counts that cannot be read do not undo the turn.
                self.total = Tokens::deserialize(&line["usage"]).ok().map(|tokens| self.count(&tokens));
            }
            "error" if line["message"].as_str().is_some_and(|said| said.contains("waiting for network")) => {
                self.waits += 1;
                if self.waits >= PATIENCE {
                    self.failure = Some("the model service could not be reached".to_owned());
                    return Some(Why::Unreachable);
                }
            }
            // Any other line of type `error` is only talk, such as "reconnecting".
            "turn.failed" => {
                let message = text(&line["error"]["message"]);
                let unexplained = || "codex reported a failure and not why".to_owned();
                self.failure = Some(message.unwrap_or_else(unexplained));
            }
            _ => {}
        }
        None
    }

    fn progress(&self) -> Option<Progress> {
        let used = self.total.as_ref().map(|total| total.clone().since(&self.before).tokens());
        Some(Progress { action: self.action.clone(), turns: Some(self.turns), tokens: used, cost_usd: None })
    }

    fn conclude(self: Box<Self>, end: &End<'_>) -> RuntimeExit {
        let verdict = match (&self.failure, self.completed) {
            (Some(message), _) => Verdict::failed(code(message), message.clone()),
            (None, true) => Verdict::Success,
            (None, false) => Verdict::failed(FailureCode::AgentExit, end.story("codex")),
        };
        let total = self.total.clone().unwrap_or_else(|| self.before.clone());
        let structured = serde_json::from_str(&self.text).ok().filter(|_| self.wants_structure);
        let mark = |id| SessionMark {
            runtime: "codex".to_owned(),
            version: self.version.clone(),
            id,
            total: total.clone(),
            deferred: None,
        };
        let usage =
            self.total.as_ref().map(|total| Usage { turns: self.turns, ..total.clone().since(&self.before) });
        RuntimeExit {
            structured,
            usage,
            session: self.session.clone().map(mark),
            runtime_version: self.version,
            ..RuntimeExit::new(verdict, self.text)
        }
    }
}

/// Tells failures apart by the status, and by the words that codex has for those without one.
fn code(message: &str) -> FailureCode {
    // The endpoint's port and path are digits and words of nobody's.
    let said = message.split(", url: ").next().unwrap_or_default().to_ascii_lowercase();
    match status(&said) {
        Some(401 | 403) => return FailureCode::Auth,
        Some(429) => return FailureCode::RateLimited,
        Some(500..) => return FailureCode::ProviderUnavailable,
        Some(_) | None => {}
    }
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["unauthorized", "forbidden", "api key"]) {
        FailureCode::Auth
    } else if has(&["rate limit", "too many requests", "usage limit", "quota exceeded"]) {
        FailureCode::RateLimited
    } else if has(&[
        "could not be reached",
        "high demand",
        "stream disconnected",
        "error sending request",
        "connection",
    ]) {
        FailureCode::ProviderUnavailable
    } else {
        FailureCode::AgentExit
    }
}

/// Finds the status of a response: `unexpected status 401 …`, `last status: 429 …`.
fn status(said: &str) -> Option<u16> {
    let after = said.split("status").skip(1);
    let digits = |rest: &str| rest.trim_start_matches([':', ' ']).get(..3)?.parse::<u16>().ok();
    after.filter_map(digits).find(|status| (400..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_by_their_words() {
        let cases = [
            ("unexpected status 401 Unauthorized: Incorrect API key provided", FailureCode::Auth),
            ("unexpected status 403 Forbidden: no access", FailureCode::Auth),
            ("exceeded retry limit, last status: 429 Too Many Requests", FailureCode::RateLimited),
            ("Quota exceeded. Check your plan and billing details.", FailureCode::RateLimited),
            ("You\u{2019}ve hit your usage limit. Try again later.", FailureCode::RateLimited),
            (
                "We\u{2019}re currently experiencing high demand, which may cause temporary errors.",
                FailureCode::ProviderUnavailable,
            ),
            ("unexpected status 503 Service Unavailable: busy", FailureCode::ProviderUnavailable),
            (
                "stream disconnected before completion: error sending request",
                FailureCode::ProviderUnavailable,
            ),
            (
                "unexpected status 503 Service Unavailable: busy, url: http://127.0.0.1:40143/v1/responses",
                FailureCode::ProviderUnavailable,
            ),
            ("unexpected status 400 Bad Request: 429 items, at most 500", FailureCode::AgentExit),
            ("the model is not known", FailureCode::AgentExit),
        ];
        for (message, expected) in cases {
            assert_eq!(code(message), expected, "{message}");
        }
    }

    #[test]
    fn a_text_is_written_as_toml_reads_it() {
        assert_eq!(toml_text("a \"b\"\n\u{7f}\\"), r#""a \"b\"\n\u007f\\""#);
    }
}
