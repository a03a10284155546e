//! Subagents: what agent runs, with which words, and what it may use.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::{LONGEST_DISPATCH_SECONDS, PROMPT_BYTES, VERIFY_SECONDS};
use crate::name::{Name, NameParseError};
use crate::reference::BundleRef;
use crate::strict::Object;
use crate::template::{Template, TemplateError};

/// A subagent as it is written in a file: everything optional, nothing checked yet.
///
/// Unknown fields are refused by name, because a misspelt `verify` that is quietly ignored looks like a green one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RawSubagent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<BundleRef>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What a Claude agent file says in its own words (`tools`, `permissionMode` …), for the claude-code adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude: Option<Map<String, Value>>,
}

/// A subagent that can be registered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSubagent", into = "RawSubagent")]
pub struct Subagent {
    pub description: Option<String>,
    pub system_prompt: Option<String>,
    pub prompt_template: Option<Template>,
    pub model: Option<Model>,
    pub runtime: Runtime,
    /// In the order that decides who wins an overlay.
    pub capabilities: Vec<BundleRef>,
    pub inputs: Option<Map<String, Value>>,
    pub output_schema: Option<Map<String, Value>>,
    pub verify: Option<Verify>,
    pub ask: Ask,
    pub budget: Option<Budget>,
    pub claude: Option<Map<String, Value>>,
}

/// The model: a size that each runtime maps to what it has, or the runtime's own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    Fast,
    Standard,
    Max,
    Native(String),
}

/// What runs the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    ClaudeCode,
    Codex,
    /// Any program, by its arguments.
    Command(Vec<String>),
    /// An executable that speaks the adapter protocol, by its name.
    External(Name),
}

impl Runtime {
    /// Returns the word for the runtime, as it is written in a file.
    pub fn as_str(&self) -> &str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Command(_) => "command",
            Self::External(name) => name.as_str(),
        }
    }
}

/// How readily the agent should ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    Never,
    #[default]
    WhenBlocked,
    Eager,
}

/// A command that looks at the work afterwards. It reports; it never changes the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verify {
    pub command: String,
    #[serde(default = "default_verify_seconds")]
    pub timeout_seconds: u32,
}

fn default_verify_seconds() -> u32 {
    VERIFY_SECONDS
}

/// What a thread may use up, all its dispatches together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Object<RawBudget>")]
pub struct Budget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    pub on_limit: OnLimit,
}

/// The most that a limit may be.
const MOST_TURNS: u64 = 100_000;
const MOST_TOKENS: u64 = 1_000_000_000_000;
const MOST_MINUTES: u64 = 525_600;
const MOST_USD: u32 = 1_000_000;

impl Budget {
    /// Says what is wrong with it as a budget that somebody gives. One that is recorded may have been raised beyond that since.
    pub fn check(&self) -> Result<(), SubagentError> {
        let limits = [
            ("budget.turns", self.turns.map(u64::from), MOST_TURNS),
            ("budget.tokens", self.tokens, MOST_TOKENS),
            ("budget.minutes", self.minutes.map(u64::from), MOST_MINUTES),
        ];
        for (field, value, most) in limits {
            if let Some(value) = value {
                in_range(field, value, most)?;
            }
        }
        match self.usd {
            Some(usd) if !(usd > 0.0 && usd <= f64::from(MOST_USD)) => Err(SubagentError::Money(usd)),
            None if limits.iter().all(|(_, value, _)| value.is_none()) => Err(SubagentError::EmptyBudget),
            Some(_) | None => Ok(()),
        }
    }
}

/// A budget as it is written. People write it, and the name of a type of Rust's tells them nothing.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
struct RawBudget {
    turns: Value,
    tokens: Value,
    minutes: Value,
    usd: Value,
    on_limit: OnLimit,
}

/// Says why a part of a budget cannot be counted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum BudgetError {
    #[error("`{field}` is {given}, and must be a whole number from 1 to {most}")]
    Whole { field: &'static str, given: Value, most: u64 },
    #[error("`usd` is {0}, and must be a number")]
    Usd(Value),
}

impl TryFrom<Object<RawBudget>> for Budget {
    type Error = BudgetError;

    /// Takes whatever can be counted: how much a new one may be is for [`Budget::check`].
    fn try_from(Object(raw): Object<RawBudget>) -> Result<Self, BudgetError> {
        let usd = match raw.usd {
            Value::Null => None,
            given => Some(given.as_f64().ok_or(BudgetError::Usd(given))?),
        };
        Ok(Self {
            turns: whole("turns", raw.turns, MOST_TURNS)?,
            tokens: whole("tokens", raw.tokens, MOST_TOKENS)?,
            minutes: whole("minutes", raw.minutes, MOST_MINUTES)?,
            usd,
            on_limit: raw.on_limit,
        })
    }
}

fn whole<T: TryFrom<u64>>(field: &'static str, given: Value, most: u64) -> Result<Option<T>, BudgetError> {
    match (given.as_u64().and_then(|number| T::try_from(number).ok()), given) {
        (_, Value::Null) => Ok(None),
        (Some(number), _) => Ok(Some(number)),
        (None, given) => Err(BudgetError::Whole { field, given, most }),
    }
}

/// What happens at a budget's end: agora asks whether to raise it, or the dispatch fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLimit {
    #[default]
    Ask,
    Fail,
}

/// Says why a definition is not a subagent.
#[derive(Debug, thiserror::Error)]
pub enum SubagentError {
    #[error("`{field}` is blank; leave it out or fill it in")]
    Blank { field: &'static str },
    #[error("`{field}` has {size} bytes, the most is {PROMPT_BYTES} (1 MiB)")]
    TooLong { field: &'static str, size: usize },
    #[error("`{field}` holds a NUL character")]
    Nul { field: &'static str },
    #[error("`promptTemplate` is not a usable template")]
    Template(#[source] TemplateError),
    #[error("`runtime: command` wants `command`, a list of arguments with the program first")]
    NoCommand,
    #[error("`command` is only for `runtime: command`; the runtime is `{0}`")]
    StrayCommand(String),
    #[error("`runtime` is `claude-code`, `codex`, `command` or an external adapter's name")]
    Runtime(#[source] NameParseError),
    #[error("the capability `{0}` is listed twice; its place decides who wins, so it can have only one")]
    CapabilityTwice(Name),
    #[error("`{field}` must be from {least} to {most}")]
    Range { field: &'static str, least: u64, most: u64 },
    #[error("`budget.usd` is {0}, and must be more than 0 and at most {MOST_USD}")]
    Money(f64),
    #[error("`budget` has no limit in it: `turns`, `tokens`, `minutes` or `usd`")]
    EmptyBudget,
    #[error("there is nothing to run: give `systemPrompt`, `promptTemplate`, or `runtime: command`")]
    Nothing,
}

impl Subagent {
    /// Checks a definition. Its `name` is for the caller, who knows what name it was registered under.
    pub fn new(raw: RawSubagent) -> Result<Self, SubagentError> {
        check_text("description", raw.description.as_deref())?;
        check_text("systemPrompt", raw.system_prompt.as_deref())?;
        check_text("promptTemplate", raw.prompt_template.as_deref())?;
        check_text("model", raw.model.as_deref())?;
        let prompt_template = match &raw.prompt_template {
            Some(text) => Some(Template::parse(text).map_err(SubagentError::Template)?),
            None => None,
        };
        let runtime = parse_runtime(raw.runtime.as_deref(), raw.command)?;
        let capabilities = raw.capabilities.unwrap_or_default();
        for (place, capability) in capabilities.iter().enumerate() {
            if capabilities[..place].iter().any(|earlier| earlier.name == capability.name) {
                return Err(SubagentError::CapabilityTwice(capability.name.clone()));
            }
        }
        if let Some(verify) = &raw.verify {
            check_text("verify.command", Some(&verify.command))?;
            in_range(
                "verify.timeoutSeconds",
                u64::from(verify.timeout_seconds),
                u64::from(LONGEST_DISPATCH_SECONDS),
            )?;
        }
        if let Some(budget) = &raw.budget {
            budget.check()?;
        }
        let has_words = raw.system_prompt.is_some() || prompt_template.is_some();
        if !has_words && !matches!(runtime, Runtime::Command(_) | Runtime::External(_)) {
            return Err(SubagentError::Nothing);
        }
        Ok(Self {
            description: raw.description,
            system_prompt: raw.system_prompt,
            prompt_template,
            model: raw.model.map(Model::from),
            runtime,
            capabilities,
            inputs: raw.inputs,
            output_schema: raw.output_schema,
            verify: raw.verify,
            ask: raw.ask.unwrap_or_default(),
            budget: raw.budget,
            claude: raw.claude.filter(|fields| !fields.is_empty()),
        })
    }
}

impl TryFrom<RawSubagent> for Subagent {
    type Error = SubagentError;

    fn try_from(raw: RawSubagent) -> Result<Self, SubagentError> {
        Self::new(raw)
    }
}

impl From<Subagent> for RawSubagent {
    /// Writes defaults out, so that a default left unsaid and the same one said are one bundle.
    fn from(subagent: Subagent) -> Self {
        let runtime = subagent.runtime.as_str().to_owned();
        Self {
            name: None,
            description: subagent.description,
            system_prompt: subagent.system_prompt,
            prompt_template: subagent.prompt_template.map(|template| template.source().to_owned()),
            model: subagent.model.map(String::from),
            runtime: Some(runtime),
            command: match subagent.runtime {
                Runtime::Command(command) => Some(command),
                Runtime::ClaudeCode | Runtime::Codex | Runtime::External(_) => None,
            },
            capabilities: Some(subagent.capabilities),
            inputs: subagent.inputs,
            output_schema: subagent.output_schema,
            verify: subagent.verify,
            ask: Some(subagent.ask),
            budget: subagent.budget,
            claude: subagent.claude,
        }
    }
}

impl From<String> for Model {
    fn from(text: String) -> Self {
        match text.as_str() {
            "fast" => Self::Fast,
            "standard" => Self::Standard,
            "max" => Self::Max,
            _ => Self::Native(text),
        }
    }
}

impl From<Model> for String {
    fn from(model: Model) -> Self {
        match model {
            Model::Fast => "fast".to_owned(),
            Model::Standard => "standard".to_owned(),
            Model::Max => "max".to_owned(),
            Model::Native(text) => text,
        }
    }
}

fn parse_runtime(runtime: Option<&str>, command: Option<Vec<String>>) -> Result<Runtime, SubagentError> {
    let runtime = match (runtime.unwrap_or("claude-code"), command) {
        ("command", Some(command)) => {
            if command.first().is_none_or(|program| program.trim().is_empty()) {
                return Err(SubagentError::NoCommand);
            }
            if command.iter().any(|argument| argument.contains('\0')) {
                return Err(SubagentError::Nul { field: "command" });
            }
            return Ok(Runtime::Command(command));
        }
        ("command", None) => return Err(SubagentError::NoCommand),
        (other, Some(_)) => return Err(SubagentError::StrayCommand(other.to_owned())),
        ("claude-code", None) => Runtime::ClaudeCode,
        ("codex", None) => Runtime::Codex,
        (other, None) => Runtime::External(other.parse().map_err(SubagentError::Runtime)?),
    };
    Ok(runtime)
}

fn check_text(field: &'static str, text: Option<&str>) -> Result<(), SubagentError> {
    match text {
        None => Ok(()),
        Some(text) if text.trim().is_empty() => Err(SubagentError::Blank { field }),
        Some(text) if text.len() > PROMPT_BYTES => Err(SubagentError::TooLong { field, size: text.len() }),
        Some(text) if text.contains('\0') => Err(SubagentError::Nul { field }),
        Some(_) => Ok(()),
    }
}

fn in_range(field: &'static str, value: u64, most: u64) -> Result<(), SubagentError> {
    if (1..=most).contains(&value) { Ok(()) } else { Err(SubagentError::Range { field, least: 1, most }) }
}

#[cfg(test)]
#[path = "subagent_tests.rs"]
mod tests;
