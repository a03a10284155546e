//! What an adapter answers: heard, read strictly, and trusted no further than it must be.
//!
//! An adapter speaks for its agent. It does not say how long something took, which limit the worker saw, or that it
//! ended well when it did not.

use agora_core::Name;
use agora_core::limits::SENTINEL_BYTES;
use agora_core::reason::{FailureCode, Retry};
use agora_core::sentinel::{self, Malformed};
use agora_core::strict::{self, StrictError};
use agora_core::time::Timestamp;
use agora_core::wire::report::{ModelUsage, SessionMark, Usage};
use serde_json::{Map, Value};

use super::super::{End, Job, Listener, RuntimeExit, Verdict};
use super::fields::{Fields, Wrong};
use crate::child::{How, Why};
use crate::needs_input::Unreadable;

/// An answer over several lines. One on a single line may have as much, by the cap on lines.
const LONGEST: usize = 16 * 1024 * 1024;
/// A failure's words, which stand in an event. Longer ones are not cut: half of a secret is not recognised.
const DETAIL_BYTES: usize = 8 * 1024;
const SESSION_BYTES: usize = 512;
const NAME_BYTES: usize = 128;
const MODELS: usize = 64;

/// The codes that an adapter may give, beside `budget`.
const CODES: [FailureCode; 4] =
    [FailureCode::AgentExit, FailureCode::Auth, FailureCode::RateLimited, FailureCode::ProviderUnavailable];

/// Why there is no answer that counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unusable {
    #[error("it printed no answer: one JSON object, as the last line or as all of standard output")]
    Nothing,
    #[error("its answer is not UTF-8")]
    NotUtf8,
    #[error("its answer does not count: {0}; print it as one line, or print nothing else")]
    Json(StrictError),
    #[error("its answer does not count: {0}")]
    Field(Wrong),
    #[error("its answer does not count: `success` is true, and there is a `failure`")]
    Both,
}

impl From<Wrong> for Unusable {
    fn from(wrong: Wrong) -> Self {
        Self::Field(wrong)
    }
}

/// Hears an adapter, and keeps what may be its answer.
pub(super) struct Hearing {
    name: Name,
    /// Whether anybody asked for a structured output.
    wants_structure: bool,
    /// The conversation that goes on.
    given: Option<SessionMark>,
    whole: Whole,
    /// The last line that begins like an object. What comes before it is talk.
    last: Vec<u8>,
}

/// All that was printed, as long as it may be one document.
#[derive(Debug, Default)]
enum Whole {
    #[default]
    Blank,
    Begun(Vec<u8>),
    NotOne,
}

impl Whole {
    fn line(&mut self, line: &[u8]) {
        match self {
            Self::Blank if line.trim_ascii().is_empty() => {}
            Self::Blank if begins_object(line) => *self = Self::Begun([line, b"\n"].concat()),
            Self::Begun(lines) if lines.len() + line.len() < LONGEST => {
                lines.extend_from_slice(line);
                lines.push(b'\n');
            }
            Self::Blank | Self::Begun(_) | Self::NotOne => *self = Self::NotOne,
        }
    }
}

fn begins_object(line: &[u8]) -> bool {
    without_mark(line).trim_ascii_start().starts_with(b"{")
}

/// Some runtimes begin their output with a byte order mark.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

impl Hearing {
    pub(super) fn new(name: &Name, job: &Job<'_>) -> Self {
        Self {
            name: name.clone(),
            wants_structure: job.task.subagent.output_schema.is_some(),
            given: job.session.cloned(),
            whole: Whole::default(),
            last: Vec::new(),
        }
    }

    /// One that hears the beginning of a thread.
    #[cfg(any(test, fuzzing))]
    pub(super) fn alone(name: Name) -> Self {
        Self { name, wants_structure: true, given: None, whole: Whole::default(), last: Vec::new() }
    }

    /// Reads the answer: all of the output where that is one object, else the last line that begins like one.
    fn object(&self) -> Result<Map<String, Value>, Unusable> {
        if let Whole::Begun(lines) = &self.whole
            && let Ok(fields) = parse(lines)
        {
            return Ok(fields);
        }
        if self.last.is_empty() { Err(Unusable::Nothing) } else { parse(&self.last) }
    }

    /// Says how the adapter ended.
    fn story(&self, end: &End<'_>) -> String {
        end.story(&format!("the adapter `{}`", self.name))
    }

    /// Makes what there is of an exit when the answer does not count. The conversation is still the one that was given.
    fn without_answer(&self, unusable: &Unusable, end: &End<'_>) -> RuntimeExit {
        let detail = format!("{}; {unusable}", self.story(end));
        let exit = RuntimeExit::new(Verdict::failed(FailureCode::AgentExit, detail), "");
        RuntimeExit { session: self.given.clone(), ..exit }
    }

    /// Reads everything but the question.
    fn exit(&self, mut fields: Fields, asks: Asks, end: &End<'_>) -> Result<RuntimeExit, Unusable> {
        let success = fields.flag("success")?;
        if success.is_none() && asks == Asks::Nothing {
            return Err(Wrong::Missing("success").into());
        }
        let failure = fields.object("failure")?;
        let text = fields.text("text")?.unwrap_or_default();
        let structured = fields.take("structured").filter(|_| self.wants_structure);
        let usage = fields.object("usage")?.map(usage).transpose()?;
        let session = fields.short("session", SESSION_BYTES)?;
        let runtime_version = fields.short("runtimeVersion", NAME_BYTES)?;
        fields.end()?;
        let (verdict, warnings) = match (success, failure) {
            (Some(true), Some(_)) => return Err(Unusable::Both),
            (Some(true), None) => (self.success(end), Vec::new()),
            (Some(false), Some(failure)) => self.failure(failure, end)?,
            (Some(false), None) => (self.unexplained(FailureCode::AgentExit, None, end), Vec::new()),
            // The question decides.
            (None, _) => (Verdict::Success, Vec::new()),
        };
        let mark = |id| SessionMark {
            runtime: self.name.to_string(),
            version: runtime_version.clone(),
            id,
            total: Usage::default(),
            deferred: None,
        };
        let (session, exit) = (session.map(mark), RuntimeExit::new(verdict, text));
        Ok(RuntimeExit { structured, usage, session, runtime_version, warnings, ..exit })
    }

    /// A success counts when the adapter ended well, or was told to end.
    fn success(&self, end: &End<'_>) -> Verdict {
        match (end.ended.how, end.ended.stopped) {
            (How::Exited(0), _) | (_, Some(_)) => Verdict::Success,
            (How::Exited(_) | How::Killed(_), None) => {
                let rule = "it reported success, which counts only when it ends with code 0";
                Verdict::failed(FailureCode::AgentExit, format!("{}; {rule}", self.story(end)))
            }
        }
    }

    fn failure(&self, mut fields: Fields, end: &End<'_>) -> Result<(Verdict, Vec<String>), Unusable> {
        let given = fields.text("code")?;
        let detail = fields.text("detail")?.filter(|detail| !detail.trim().is_empty());
        let moment = |text: &str| text.parse::<Timestamp>().ok();
        let retry_at = fields.parsed("retryAt", "a time like 2026-11-15T19:00:00Z", moment)?;
        let part = fields.parsed("limit", "`turns`, `tokens` or `usd`", budget_part)?;
        fields.end()?;
        if given.as_deref() == Some(FailureCode::Budget.as_str()) {
            let part = part.ok_or(Wrong::Missing("failure.limit"))?;
            return Ok((Verdict::Budget(part), Vec::new()));
        }
        let (code, stray_code) = self.code(given.as_deref());
        let goes_away = code.retry() == Retry::MaySucceed;
        let stray_time = retry_at.filter(|_| !goes_away).map(|_| {
            format!("the adapter `{}` gave a `retryAt` for `{code}`, which no waiting mends", self.name)
        });
        let retry_at = retry_at.filter(|_| goes_away);
        let verdict = match detail {
            Some(detail) => Verdict::Failed { code, detail: self.shown(detail), retry_at },
            None => self.unexplained(code, retry_at, end),
        };
        Ok((verdict, stray_code.into_iter().chain(stray_time).collect()))
    }

    /// Takes a code that is an adapter's to give. With any other it is still a failure, and the adapter is told.
    fn code(&self, given: Option<&str>) -> (FailureCode, Option<String>) {
        let Some(given) = given else { return (FailureCode::AgentExit, None) };
        if let Some(code) = CODES.into_iter().find(|code| code.as_str() == given) {
            return (code, None);
        }
        let codes = CODES.map(|code| code.to_string()).join("`, `");
        let rule = format!("an adapter may give `{codes}` and `budget`");
        let warning = format!("the adapter `{}` gave a failure code that is not its own: {rule}", self.name);
        (FailureCode::AgentExit, Some(warning))
    }

    fn shown(&self, detail: String) -> String {
        match detail.len() {
            0..=DETAIL_BYTES => detail,
            size => format!(
                "the adapter `{}` reported a failure in {size} bytes of words, where at most {DETAIL_BYTES} are shown: \
                 its log has them",
                self.name
            ),
        }
    }

    fn unexplained(&self, code: FailureCode, retry_at: Option<Timestamp>, end: &End<'_>) -> Verdict {
        let rule = "it reported a failure and not why, which belongs in `failure.detail`";
        Verdict::Failed { code, detail: format!("{}; {rule}", self.story(end)), retry_at }
    }
}

/// Whether an answer asks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Something,
    Nothing,
}

impl Listener for Hearing {
    fn line(&mut self, line: &[u8]) -> Option<Why> {
        self.whole.line(line);
        if begins_object(line) {
            self.last.clear();
            self.last.extend_from_slice(line);
        }
        None
    }

    fn conclude(self: Box<Self>, end: &End<'_>) -> RuntimeExit {
        let mut fields = match self.object() {
            Ok(object) => Fields::new(object),
            Err(unusable) => return self.without_answer(&unusable, end),
        };
        let asked = fields.take("question").map(question);
        let asks = if asked.is_some() { Asks::Something } else { Asks::Nothing };
        let exit = self.exit(fields, asks, end).unwrap_or_else(|unusable| {
            let exit = self.without_answer(&unusable, end);
            // The question counts whatever is wrong beside it, so that nobody would hear of that otherwise.
            let warnings = asked.iter().map(|_| format!("the adapter `{}`: {unusable}", self.name)).collect();
            RuntimeExit { warnings, ..exit }
        });
        RuntimeExit { asked, ..exit }
    }
}

fn parse(bytes: &[u8]) -> Result<Map<String, Value>, Unusable> {
    let text = str::from_utf8(without_mark(bytes)).map_err(|_| Unusable::NotUtf8)?;
    match strict::parse(text).map_err(Unusable::Json)? {
        Value::Object(fields) => Ok(fields),
        // Begins like an object, so that it is one or no JSON.
        _ => Err(Unusable::Nothing),
    }
}

/// Reads a question in the sentinel's shape. One that cannot be read was meant to be asked, as in a file.
fn question(value: Value) -> Result<agora_core::question::Question, Unreadable> {
    let size = value.to_string().len() as u64;
    let read = match value {
        _ if size > SENTINEL_BYTES => Err(Malformed::TooLarge(size)),
        Value::Object(fields) => sentinel::from_fields(fields),
        _ => Err(Malformed::NotAnObject),
    };
    read.map_err(Unreadable::Output)
}

fn budget_part(text: &str) -> Option<&'static str> {
    ["turns", "tokens", "usd"].into_iter().find(|part| *part == text)
}

/// Reads what the agent used. How long it took is the worker's to say.
fn usage(mut fields: Fields) -> Result<Usage, Wrong> {
    let models = fields.objects("models", MODELS)?.into_iter().map(model_usage);
    let usage = Usage {
        models: models.collect::<Result<_, _>>()?,
        cost_usd: fields.price("costUsd")?,
        turns: fields.count("turns")?,
        duration_ms: 0,
    };
    fields.end().map(|()| usage)
}

fn model_usage(mut fields: Fields) -> Result<ModelUsage, Wrong> {
    let usage = ModelUsage {
        model: fields.short("model", NAME_BYTES)?.ok_or(Wrong::Missing("usage.models[].model"))?,
        input_tokens: fields.count("inputTokens")?,
        output_tokens: fields.count("outputTokens")?,
        cache_read_tokens: fields.count("cacheReadTokens")?,
        cache_write_tokens: fields.count("cacheWriteTokens")?,
        cost_usd: fields.price("costUsd")?,
    };
    fields.end().map(|()| usage)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
