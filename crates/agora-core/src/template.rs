//! Prompt templates: Mustache without HTML escaping, in which an unknown variable is an error.
//!
//! The engine renders; this module supplies the look-up, so that it sees every name that is asked for. Tags are read
//! once here beforehand, to refuse what the engine would quietly accept (a section that is never closed) and to take
//! lines that hold only a section tag out of the text, as the Mustache specification wants.

mod scope;
mod tags;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::protocol::Response;
use scope::{Lookups, Probe, Scope, is_truthy};

/// Names that every dispatch defines; empty or false on a first one.
const DEFINED: [&str; 6] = ["answer", "answers", "partial_state", "resumed", "threadId", "dispatchId"];

/// How many lists or objects may enclose each other: the engine looks no further outward than that.
const DEEPEST: usize = 3;

/// Tells an agent whose thread is continued without a question where it stands.
const CARRY_ON: &str =
    "You worked on this before and are to go on. The workspace is as you left it. Do not redo what is done.";

/// Tells an agent that has no answer to go on with where the notes are that it goes on from.
const NOTES: &str =
    "What was worked out before is in `.agora/resume.json`, as `partial_state`: go on from there.";

/// A template that parses. Its source is kept to the letter, because it is part of a bundle's identity.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    source: String,
    /// The source as the engine gets it: comments and stand-alone lines gone.
    tidy: String,
}

/// Says why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("line {line}: a `{{{{` has no closing `}}}}`")]
    UnclosedTag { line: usize },
    #[error("line {line}: a tag has no usable name: `{name}`")]
    Name { line: usize, name: String },
    #[error("line {line}: the section `{name}` is never closed")]
    UnclosedSection { line: usize, name: String },
    #[error("line {line}: `{{{{/{name}}}}}` closes no section")]
    UnopenedSection { line: usize, name: String },
    #[error("line {line}: partials (`{{{{> …}}}}`) are not supported: a template is whole in itself")]
    Partial { line: usize },
    #[error("line {line}: other delimiters (`{{{{= … =}}}}`) are not supported")]
    Delimiters { line: usize },
    #[error("the template is nested too deeply")]
    TooDeep,
}

/// Says why a template could not be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("the template asks for {}, which the input does not have", list(.0))]
    Unknown(BTreeSet<String>),
    #[error("lists and objects enclose each other more than {DEEPEST} deep")]
    TooDeep,
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl Template {
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let tidy = tags::tidy(source)?;
        // What is left for the engine to refuse is nesting beyond its stack.
        ramhorns::Template::new(tidy.as_str()).map_err(|_| TemplateError::TooDeep)?;
        Ok(Self { source: source.to_owned(), tidy })
    }

    /// Returns the text as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Fills the template in. A plain variable that is not there is an error; a section over one is just left out.
    pub fn render(&self, data: &Map<String, Value>) -> Result<String, RenderError> {
        let data = Value::Object(data.clone());
        let lookups = Lookups::default();
        let template = ramhorns::Template::new(self.tidy.as_str()).map_err(|_| RenderError::TooDeep)?;
        let text = template.render(&Scope::root(&data, &lookups));
        lookups.verdict(DEEPEST).map(|()| text)
    }

    /// Tells whether the template uses a variable, or a part of it.
    pub fn mentions(&self, name: &str) -> bool {
        self.probe().all().any(|asked| asked.split('.').next() == Some(name))
    }

    /// Derives what the input must have, for a subagent that does not say: what is asked for outside every section is
    /// required, what only a section asks about is optional.
    pub fn derived_inputs(&self) -> Map<String, Value> {
        let probe = self.probe();
        let required = input_keys(probe.plain());
        let optional = input_keys(probe.sections());
        let properties: Map<String, Value> =
            required.iter().cloned().chain(optional).map(|key| (key, json!({}))).collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        schema.insert("required".to_owned(), json!(required));
        schema
    }

    /// Returns what [`Template::derived_inputs`] requires and an input does not have. No validator is needed to know it, which
    /// would take milliseconds to be made.
    pub fn missing_inputs(&self, input: &Map<String, Value>) -> Vec<String> {
        input_keys(self.probe().plain()).into_iter().filter(|key| !input.contains_key(key)).collect()
    }

    fn probe(&self) -> Probe {
        let probe = Probe::default();
        if let Ok(template) = ramhorns::Template::new(self.tidy.as_str()) {
            template.render(&probe);
        }
        probe
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}

fn input_keys(variables: Vec<String>) -> BTreeSet<String> {
    variables.into_iter().filter_map(|variable| input_key(&variable)).collect()
}

/// Returns the input's key that a variable stands for: `task` for `task` and for `input.task.title`.
fn input_key(variable: &str) -> Option<String> {
    let mut parts = variable.split('.');
    let first = parts.next()?;
    let key = if first == "input" { parts.next()? } else { first };
    (!key.is_empty() && !DEFINED.contains(&first)).then(|| key.to_owned())
}

/// What a template is filled in with: the input, its keys, and the names that are always there.
#[derive(Clone, Debug)]
pub struct PromptData {
    fields: Map<String, Value>,
    /// The answer that a thread goes on with, as it is told where the template does not say it.
    response: Option<String>,
    /// What a thread is told that its owner continues.
    carry_on: Option<String>,
}

/// What a resumed dispatch knows more than a first one.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumption {
    /// The answer when one item was asked, else empty.
    pub answer: Value,
    pub answers: Map<String, Value>,
    pub partial_state: Value,
}

impl PromptData {
    /// Puts the data of a dispatch together. A name that is always defined wins over an input's key.
    pub fn new(
        input: &Map<String, Value>,
        thread: &str,
        dispatch: &str,
        resumption: Option<Resumption>,
    ) -> Self {
        let resumed = resumption.is_some();
        let response = resumption
            .as_ref()
            .map(|resumption| Response::new(resumption.answers.clone(), &resumption.partial_state).produce());
        let resumption = resumption.unwrap_or_else(|| Resumption {
            answer: json!(""),
            answers: Map::new(),
            partial_state: json!(""),
        });
        let mut fields = input.clone();
        fields.insert("input".to_owned(), Value::Object(input.clone()));
        fields.insert("answer".to_owned(), resumption.answer);
        fields.insert("answers".to_owned(), Value::Object(resumption.answers));
        fields.insert("partial_state".to_owned(), resumption.partial_state);
        fields.insert("resumed".to_owned(), json!(resumed));
        fields.insert("threadId".to_owned(), json!(thread));
        fields.insert("dispatchId".to_owned(), json!(dispatch));
        Self { fields, response, carry_on: None }
    }

    /// Gives a dispatch that has no answer to go on with what was worked out before, if anything was.
    pub fn with_partial_state(mut self, state: &Value) -> Self {
        if !state.is_null() {
            self.fields.insert("partial_state".to_owned(), state.clone());
        }
        self
    }

    /// Makes it the data of a thread that its owner continues, perhaps with a word more.
    pub fn continued(mut self, message: Option<&str>) -> Self {
        self.fields.insert("resumed".to_owned(), json!(true));
        self.carry_on = Some(match message {
            Some(message) => format!("{message}\n\n{CARRY_ON}"),
            None => CARRY_ON.to_owned(),
        });
        self
    }

    /// Writes the prompt. It begins with what the template has no place for: the answer or the message, and where the notes are.
    pub fn prompt(&self, template: Option<&Template>) -> Result<String, RenderError> {
        let prompt = self.body(template)?;
        Ok(match (self.preamble(template).as_deref(), self.notes(template)) {
            (None, None) => prompt,
            (Some(told), None) | (None, Some(told)) => format!("{told}\n\n{prompt}"),
            (Some(preamble), Some(notes)) => format!("{preamble}\n{notes}\n\n{prompt}"),
        })
    }

    /// Writes what a runtime is told that still knows the conversation: the answer or the message alone, unless the
    /// template has a place for the answer.
    pub fn follow_up(&self, template: Option<&Template>) -> Result<String, RenderError> {
        let told = match self.carry_on {
            // A conversation that is continued is not told the template, so that its answer would be lost.
            Some(_) => self.preamble(None),
            None => self.preamble(template),
        };
        told.map_or_else(|| self.prompt(template), Ok)
    }

    /// Returns what is told first: the answer, unless the template says it itself (all answers, or the one there is), and after it what
    /// the owner says.
    fn preamble(&self, template: Option<&Template>) -> Option<String> {
        let is_placed = self.places("answer", template) || self.places("answers", template);
        let response = self.response.as_deref().filter(|_| !is_placed);
        let told: Vec<&str> = response.into_iter().chain(self.carry_on.as_deref()).collect();
        (!told.is_empty()).then(|| told.join("\n\n"))
    }

    /// Returns where the notes are, unless the template says them itself. An answer is told together with them.
    fn notes(&self, template: Option<&Template>) -> Option<&'static str> {
        let are_told = self.has("answers") || self.places("partial_state", template);
        (self.has("partial_state") && !are_told).then_some(NOTES)
    }

    fn places(&self, name: &str, template: Option<&Template>) -> bool {
        self.has(name) && template.is_some_and(|template| template.mentions(name))
    }

    fn has(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(is_truthy)
    }

    /// Writes what is asked: by the template; without one the input's `task`, else the input as JSON.
    fn body(&self, template: Option<&Template>) -> Result<String, RenderError> {
        match (template, self.fields.get("input")) {
            (Some(template), _) => template.render(&self.fields),
            (None, Some(Value::Object(input))) => Ok(match input.get("task") {
                Some(Value::String(task)) => task.clone(),
                _ => Value::Object(input.clone()).to_string(),
            }),
            (None, _) => Ok(String::new()),
        }
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
