//! Routes: who gets a question, who may answer it, when somebody is reminded, when it goes to others, and when it is too late.
//!
//! ```text
//!  agora.toml ─▶ Route ─▶ job: the routes that may match ─▶ Terms, stamped when the question opens ─▶ Progress, folded
//!                                                            who, which steps, which moments           which step, what is due
//! ```
//!
//! The terms stand in `question.opened`. From then on no file matters: every process that folds the thread knows the same timers,
//! and needs no clock to know them.

mod entitled;
mod party;
mod progress;
mod rule;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

pub use entitled::{AgentsMay, NotEntitled, entitled};
pub use party::{Party, PartyError, PartyKind};
pub use progress::{LONGEST_REMINDER_GAP_MS, MOST_REFUSALS, Progress};
pub use rule::{Asking, Match, Route, Routes, Steps, StepsError};

/// A program that is asked, on the host, as the user's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandStep {
    /// Never empty.
    pub argv: Vec<String>,
    /// Where it runs: the directory of the file that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    pub timeout_ms: u64,
}

impl CommandStep {
    /// Returns what it is called when it has answered: the program's name without its directory.
    pub fn name(&self) -> &str {
        let program = self.argv.first().map(String::as_str).unwrap_or_default();
        program.rsplit('/').next().unwrap_or(program)
    }
}

/// One step on a question's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It is asked at once, and the next step comes when it has no answer.
    Command(CommandStep),
    /// It is shown to them, and the next step comes when `escalate_after` is over.
    Inbox(Party),
}

/// What to do when what the question rested on has moved since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfStale {
    /// Whoever answers is told.
    #[default]
    Show,
    AskAgain,
    Fail,
}

/// When a question is over without an answer, and what then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expiry {
    pub at: Timestamp,
    pub then: AtEnd,
}

/// What follows when nobody answered in time. To wait is no end: a question that waits has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtEnd {
    Fail,
    /// The defaults that the asker named, one for each item.
    UseDefault,
}

/// What holds for one question, decided once, when it opens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terms {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// As the route says it. Nobody: any person, because nobody knows who dispatched it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub may_answer: Vec<Party>,
    /// Who was in each group that is named here, when the question opened.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<Party, Vec<Party>>,
    /// Whoever dispatched the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Party>,
    /// The gap before the first reminder. Each later one is twice as long, up to a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate_after_ms: Option<u64>,
    /// When its first step gives way to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Expiry>,
    pub if_stale: IfStale,
}

impl Terms {
    /// Returns the moment when a step gives way to the next, if it does so by time: people are asked there, and others come after.
    pub fn escalation(&self, step: u32, now: Timestamp) -> Option<Timestamp> {
        let place = usize::try_from(step).ok()?;
        let people = matches!(self.steps.get(place)?, Step::Inbox(_));
        let gap = self.escalate_after_ms.filter(|_| people && place + 1 < self.steps.len())?;
        Some(now.plus(std::time::Duration::from_millis(gap)))
    }

    /// Tells whether somebody is among those who may answer, by name or in a group.
    pub fn names(&self, who: &Party) -> bool {
        let holds =
            |party: &Party| party == who || self.members.get(party).is_some_and(|in_it| in_it.contains(who));
        self.may_answer.iter().any(holds)
    }

    /// Returns those it is shown to: everybody whose step has come, and all who may answer when no step is left and none was about people.
    pub fn shown_to(&self, step: u32) -> Vec<Party> {
        let people = |step: &Step| match step {
            Step::Inbox(party) => Some(party.clone()),
            Step::Command(_) => None,
        };
        let reached = usize::try_from(step).unwrap_or(usize::MAX).saturating_add(1);
        let mut shown: Vec<Party> = Vec::new();
        for party in self.steps.iter().take(reached).filter_map(people) {
            if !shown.contains(&party) {
                shown.push(party);
            }
        }
        // While a command is asked nobody else is: it may have an answer in a second.
        if shown.is_empty() && reached > self.steps.len() { self.may_answer.clone() } else { shown }
    }
}
