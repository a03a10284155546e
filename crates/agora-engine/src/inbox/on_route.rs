//! Where a question stands on its route, as programs and people read it.

use agora_core::record::RouteOutcome;
use agora_core::route::{Party, Terms};
use agora_core::state::{AskedQuestion, QuestionState};
use agora_core::Timestamp;
use serde::Serialize;

/// On which terms a question is asked, and what its route came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OnRoute {
    pub terms: Terms,
    /// Those it is shown to now.
    pub shown_to: Vec<Party>,
    pub steps: Vec<RoutedStep>,
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

impl From<&AskedQuestion> for OnRoute {
    fn from(asked: &AskedQuestion) -> Self {
        let AskedQuestion { state, terms, progress, .. } = asked;
        let open = *state == QuestionState::Open;
        Self {
            shown_to: if open { terms.shown_to(progress.step) } else { Vec::new() },
            next_at: progress.due_at(terms).filter(|_| open),
            terms: terms.clone(),
            steps: progress
                .routed
                .iter()
                .map(|(step, outcome)| RoutedStep { step: *step, outcome: *outcome })
                .collect(),
            reminders: progress.reminders,
            refused: progress.refusals,
        }
    }
}
