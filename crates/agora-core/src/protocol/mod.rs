//! The portable user input protocol: how an agent that nobody watches asks, stops and goes on, in the three forms that agents
//! and orchestrators write. Each is read and written here and nowhere else, and each becomes a [`Question`].
//!
//! ```text
//!  form             the state is kept in             the pause shows by              module
//!  checkpoint       a Markdown file                  AWAITING_USER_INPUT {…}         checkpoint, awaiting
//!  task metadata    a task's metadata                needs_input: true               metadata
//!  state file       a JSON file                      PAUSED_FOR_INPUT: file          state_file
//!
//!  marker     finds the last of these in what an agent printed
//!  response   USER_INPUT_RESPONSE {…}: how the answer comes back, in every form
//! ```
//!
//! A form may have no place for a part of a question. Writing one returns what was [`Lost`], and what cannot be asked by it at all
//! is refused ([`CannotHold`]): nothing is dropped in silence.
//!
//! ```
//! use agora_core::answer::Given;
//! use agora_core::protocol::TaskMetadata;
//!
//! let task = br#"{"priority": 3, "needs_input": true, "question": "Which?", "question_options": ["A", "B"]}"#;
//! let task = TaskMetadata::parse(task)?;
//! let question = task.waiting().expect("it asks");
//! let replies = Given::from("b").understood(question)?; // Somebody's words, checked against the question.
//! let answer = replies.into_values().next().expect("one item, one reply");
//! let task = task.answered(answer, "2026-11-15T19:00:00Z".parse()?).produce();
//! assert_eq!((&task["user_answer"], &task["needs_input"]), (&"B".into(), &false.into()));
//! assert_eq!(task["priority"], 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod awaiting;
pub mod checkpoint;
pub mod marker;
pub mod metadata;
pub mod response;
pub mod state_file;

use crate::limits::SENTINEL_BYTES;
use crate::question::{Question, RawItem, RawQuestion};
use crate::strict;

pub use awaiting::Awaiting;
pub use checkpoint::Checkpoint;
pub use marker::{Marker, Paused, find};
pub use metadata::TaskMetadata;
pub use response::Response;
pub use state_file::StateFile;

/// A part of a question that a form has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// The item's own id: the answer is keyed by it.
    Id,
    Header,
    /// What may be chosen: whoever answers sees free text.
    Options,
    /// That several may be chosen.
    Several,
    /// That something else than the options may be said.
    Other,
    Default,
    /// That only a person may answer. Whoever hands the form on must see to it.
    HumanOnly,
    /// A part of what the agent had worked out.
    State,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Id => "the item's id",
            Self::Header => "the header",
            Self::Options => "the options",
            Self::Several => "that several may be chosen",
            Self::Other => "that something else may be said",
            Self::Default => "the default",
            Self::HumanOnly => "that only a person may answer",
            Self::State => "a part of the partial state",
        })
    }
}

/// Says why a question cannot be asked by a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotHold {
    #[error("the form asks one thing, and the question has {0} items")]
    SeveralItems(usize),
    #[error("written down it has {0} bytes, the most is {SENTINEL_BYTES} (1 MiB)")]
    TooLarge(u64),
    #[error("written down it is nested deeper than {}", strict::DEEPEST)]
    TooDeep,
}

/// Something written in a form, with what the form had no place for.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<Form> {
    pub form: Form,
    /// In the order of [`Lost`], each once.
    pub lost: Vec<Lost>,
}

/// Returns the only item of a question, its context and its state.
fn only_item(question: &Question) -> Result<(RawItem, RawQuestion), CannotHold> {
    let mut raw = RawQuestion::from(question.clone());
    match (raw.questions.pop(), raw.questions.len()) {
        (Some(item), 0) => Ok((item, raw)),
        (_, others) => Err(CannotHold::SeveralItems(others + 1)),
    }
}

/// Returns what a form loses of an item when it keeps only its words and its options.
fn lost_of(item: &RawItem) -> Vec<Lost> {
    let parts = [
        (item.id.as_ref().is_some_and(|id| id.as_str() != "q1"), Lost::Id),
        (item.header.is_some(), Lost::Header),
        (item.multi_select, Lost::Several),
        (item.allow_other, Lost::Other),
        (item.default.is_some(), Lost::Default),
        (item.human, Lost::HumanOnly),
    ];
    parts.into_iter().filter_map(|(is_there, lost)| is_there.then_some(lost)).collect()
}

/// Checks that a text of JSON can be read back.
fn readable(text: String) -> Result<String, CannotHold> {
    if text.len() as u64 > SENTINEL_BYTES {
        return Err(CannotHold::TooLarge(text.len() as u64));
    }
    if strict::depth(&text) > strict::DEEPEST {
        return Err(CannotHold::TooDeep);
    }
    Ok(text)
}

/// Puts a text on one line, whichever letters a reader breaks lines at. Spaces stay: the name of a file may have two in a row.
fn one_line(text: &str) -> String {
    let breaks =
        |letter| matches!(letter, '\n' | '\r' | '\x0b' | '\x0c' | '\u{85}' | '\u{2028}' | '\u{2029}');
    text.split(breaks).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
