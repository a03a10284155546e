//! The checkpoint: Markdown in which an agent writes down how far it came, for whoever goes on.

use serde_json::{Map, Value, json};

use super::{CannotHold, Lost, Written, lost_of, one_line, only_item};
use crate::limits::SENTINEL_BYTES;
use crate::question::{Question, RawItem, RawQuestion};
use crate::sentinel::Malformed;
use crate::time::{TimeParseError, Timestamp};

/// The headings, as they stand in the file.
const HEADINGS: [&str; 5] =
    ["Progress Summary", "Files Analyzed", "Next Step", "Pending Decision", "Context for Continuation"];

/// A checkpoint. Every text is without blank ends; what was not there is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub agent: String,
    pub task: String,
    pub timestamp: Option<Timestamp>,
    /// What stands before the first heading.
    pub notes: String,
    pub progress: String,
    pub files: Vec<String>,
    pub next_step: String,
    pub pending_decision: String,
    pub context: String,
}

/// Who paused on what, for a checkpoint that is made from a question.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub agent: &'a str,
    pub task: &'a str,
    pub at: Timestamp,
}

/// Says why a text is no checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error("it has {0} bytes, the most is {SENTINEL_BYTES} (1 MiB)")]
    TooLarge(u64),
    #[error("it has none of a checkpoint's headings")]
    NoHeading,
    #[error("its timestamp is no time")]
    Timestamp(#[source] TimeParseError),
}

impl Checkpoint {
    /// Reads a checkpoint. A heading that is not known, or comes again, is text.
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        if text.len() as u64 > SENTINEL_BYTES {
            return Err(CheckpointError::TooLarge(text.len() as u64));
        }
        let (head, sections) = sections(text);
        if sections.iter().all(Option::is_none) {
            return Err(CheckpointError::NoHeading);
        }
        let mut checkpoint = Self::default();
        checkpoint.read_head(&head)?;
        let [progress, files, next_step, pending_decision, context] = sections.map(Option::unwrap_or_default);
        let files = files.lines().map(listed).filter(|file| !file.is_empty()).collect();
        Ok(Self { progress, files, next_step, pending_decision, context, ..checkpoint })
    }

    /// Reads the title and the fields above the first heading.
    fn read_head(&mut self, head: &str) -> Result<(), CheckpointError> {
        let mut notes = Vec::new();
        for line in head.lines() {
            let field = |name: &str| line.trim().strip_prefix(&format!("**{name}:**")).map(str::trim);
            let title = line.strip_prefix("# ").and_then(|title| title.trim().strip_suffix("Checkpoint"));
            match (title, field("Timestamp"), field("Task"), field("Agent")) {
                (Some(title), ..) if self.agent.is_empty() => self.agent = one_line(title),
                (_, Some(time), ..) if !time.is_empty() => {
                    self.timestamp = Some(time.parse().map_err(CheckpointError::Timestamp)?);
                }
                (_, _, Some(task), _) if self.task.is_empty() => self.task = one_line(task),
                (.., Some(agent)) if !agent.is_empty() => self.agent = one_line(agent),
                _ => notes.push(line),
            }
        }
        self.notes = unescaped(notes.join("\n").trim());
        Ok(())
    }

    /// Writes the file.
    pub fn produce(&self) -> String {
        let (agent, task) = (one_line(&self.agent), one_line(&self.task));
        let mut text = format!("# {agent} Checkpoint\n\n");
        for (name, value) in [
            ("Timestamp", self.timestamp.map(|time| time.to_string())),
            ("Task", Some(task)),
            ("Agent", Some(agent)),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                text.extend([format!("**{name}:** {value}\n")]);
            }
        }
        let notes = self.notes.trim();
        if !notes.is_empty() {
            text.extend([format!("\n{}\n", escaped(notes))]);
        }
        let files: String = self.files.iter().map(|file| format!("- {}\n", one_line(file))).collect();
        let bodies = [&self.progress, &files, &self.next_step, &self.pending_decision, &self.context];
        for (heading, body) in HEADINGS.iter().zip(bodies) {
            text.extend([format!("\n## {heading}\n\n{}\n", escaped(body.trim()))]);
        }
        text
    }

    /// Returns what is to be decided, if that is said.
    pub fn decision(&self) -> Option<String> {
        let decision = self.pending_decision.trim();
        (!decision.is_empty()).then(|| decision.to_owned())
    }

    /// Returns the question: the pending decision, as free text. The rest is what goes back to the agent.
    pub fn question(&self) -> Result<Question, Malformed> {
        let item = RawItem { question: self.decision().ok_or(Malformed::NoQuestion)?, ..RawItem::default() };
        let mut state = Map::new();
        let texts = [
            ("agent", &self.agent),
            ("task", &self.task),
            ("notes", &self.notes),
            ("progress", &self.progress),
            ("next_step", &self.next_step),
        ];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        state.extend(texts.map(|(key, text)| (key.to_owned(), json!(text))));
        state.extend(self.timestamp.map(|time| ("timestamp".to_owned(), json!(time))));
        if !self.files.is_empty() {
            state.insert("files".to_owned(), json!(self.files));
        }
        let context = Some(self.context.clone()).filter(|context| !context.is_empty());
        let partial_state = Value::Object(state);
        let raw = RawQuestion { questions: vec![item], context, partial_state, ..RawQuestion::default() };
        Question::new(raw).map_err(Malformed::Question)
    }

    /// Writes a question down. It holds its words, its context, and what of the partial state is told under a checkpoint's keys:
    /// `agent`, `task`, `timestamp`, `notes`, `progress`, `files`, `next_step`.
    pub fn of(question: &Question, about: About<'_>) -> Result<Written<Self>, CannotHold> {
        let (item, rest) = only_item(question)?;
        let mut lost = lost_of(&item);
        lost.extend((!item.options.is_empty()).then_some(Lost::Options));
        let mut form = Self {
            agent: one_line(about.agent),
            task: one_line(about.task),
            timestamp: Some(about.at),
            pending_decision: item.question.trim().to_owned(),
            context: rest.context.unwrap_or_default().trim().to_owned(),
            ..Self::default()
        };
        lost.extend((!form.take_state(rest.partial_state)).then_some(Lost::State));
        lost.sort_unstable();
        let size = form.produce().len() as u64;
        if size > SENTINEL_BYTES {
            return Err(CannotHold::TooLarge(size));
        }
        Ok(Written { form, lost })
    }

    /// Takes in what a checkpoint has a place for, and tells whether that was all.
    fn take_state(&mut self, state: Value) -> bool {
        let fields = match state {
            Value::Null => return true,
            Value::Object(fields) => fields,
            _ => return false,
        };
        let mut all = true;
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("agent", Value::String(text)) => self.agent = one_line(&text),
                ("task", Value::String(text)) => self.task = one_line(&text),
                ("notes", Value::String(text)) => text.trim().clone_into(&mut self.notes),
                ("progress", Value::String(text)) => text.trim().clone_into(&mut self.progress),
                ("next_step", Value::String(text)) => text.trim().clone_into(&mut self.next_step),
                ("timestamp", Value::String(text)) => match text.parse() {
                    Ok(time) => self.timestamp = Some(time),
                    Err(_) => all = false,
                },
                ("files", value) => match serde_json::from_value::<Vec<String>>(value) {
                    Ok(files) => self.files = files.iter().map(|file| one_line(file)).collect(),
                    Err(_) => all = false,
                },
                _ => all = false,
            }
        }
        all
    }
}

/// Takes a text apart: what stands before the first heading, and what stands under each.
fn sections(text: &str) -> (String, [Option<String>; 5]) {
    let mut head = String::new();
    let mut sections: [Option<String>; 5] = [const { None }; 5];
    let mut at = None;
    for line in text.lines() {
        let heading = line.strip_prefix("## ").map(str::trim);
        let place = heading.and_then(|heading| HEADINGS.iter().position(|known| *known == heading));
        match (place, at) {
            (Some(place), _) if sections[place].is_none() => {
                sections[place] = Some(String::new());
                at = Some(place);
            }
            (_, Some(place)) => {
                let section: &mut Option<String> = &mut sections[place];
                section.get_or_insert_default().extend([line, "\n"]);
            }
            (_, None) => head.extend([line, "\n"]),
        }
    }
    (head, sections.map(|section| section.map(|body| unescaped(body.trim()))))
}

/// Takes the bullet from a line of a list.
fn listed(line: &str) -> String {
    let line = line.trim();
    one_line(line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line))
}

/// Keeps lines of a text from being read as what they are not, by Markdown's own means.
fn escaped(text: &str) -> String {
    let line = |line: &str| if begins_something(line) { format!("\\{line}") } else { line.to_owned() };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn unescaped(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix('\\') {
        Some(rest) if begins_something(rest) => rest.to_owned(),
        Some(_) | None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Tells whether a line begins as a heading or a field does, perhaps behind backslashes.
fn begins_something(line: &str) -> bool {
    let bare = line.trim_start_matches('\\');
    bare.starts_with("## ") || bare.starts_with("# ") || bare.trim_start().starts_with("**")
}
