//! The story of a question, as programs and people read it.

use agora_core::record::RouteOutcome;
use agora_core::route::{Party, Terms};
use agora_core::state::{AskedQuestion, QuestionState};
use agora_core::{QuestionId, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// Where a question stands, on which terms, and what its route came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QuestionStory {
    pub question_id: QuestionId,
    /// `asked`, `open`, `answered`, `declined`, `expired` or `cancelled`.
    pub state: &'static str,
    pub question: Value,
    pub terms: Terms,
    /// Those it is shown to now.
    pub shown_to: Vec<Party>,
    pub route: Vec<RoutedStep>,
    pub reminders: u32,
    /// When the next thing happens by itself, while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// How many answers to it were refused.
    pub refused: u32,
}

/// What a command of the route came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RoutedStep {
    pub step: u32,
    pub outcome: RouteOutcome,
}

impl From<&AskedQuestion> for QuestionStory {
    fn from(asked: &AskedQuestion) -> Self {
        let AskedQuestion { id, question, state, terms, progress, .. } = asked;
        let open = *state == QuestionState::Open;
        Self {
            question_id: id.clone(),
            state: match state {
                QuestionState::Asked => "asked",
                QuestionState::Open => "open",
                QuestionState::Answered => "answered",
                QuestionState::Declined => "declined",
                QuestionState::Expired => "expired",
                QuestionState::Cancelled => "cancelled",
            },
            question: serde_json::to_value(question).unwrap_or_default(),
            shown_to: if open { terms.shown_to(progress.step) } else { Vec::new() },
            next_at: progress.due_at(terms).filter(|_| open),
            terms: terms.clone(),
            route: progress
                .routed
                .iter()
                .map(|(step, outcome)| RoutedStep { step: *step, outcome: *outcome })
                .collect(),
            reminders: progress.reminders,
            refused: progress.refusals,
        }
    }
}
