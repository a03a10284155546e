//! How far a question has come on its way: folded from its records, so that everybody knows what is due, and when.

use std::time::Duration;

use super::{CommandStep, Step, Terms};
use crate::record::{Record, RouteOutcome};
use crate::state::Illegal;
use crate::time::Timestamp;

/// A week. A reminder that comes more rarely is none; one that comes more often is noise after a month.
pub const LONGEST_REMINDER_GAP_MS: u64 = 7 * 86_400_000;

/// Somebody who is not entitled and tries again and again must not fill the ledger.
pub const MOST_REFUSALS: u32 = 100;

/// Where a question stands on its route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The step that it is at. As many as there are: none is left, and it waits.
    pub step: u32,
    /// What the commands that were asked came to.
    pub routed: Vec<(u32, RouteOutcome)>,
    pub reminders: u32,
    pub remind_at: Option<Timestamp>,
    pub escalate_at: Option<Timestamp>,
    /// How many answers to it did not count.
    pub refusals: u32,
}

impl Progress {
    pub(crate) fn begin(terms: &Terms) -> Self {
        Self { remind_at: terms.remind_at, escalate_at: terms.escalate_at, ..Self::default() }
    }

    /// Folds what happened to a question that is open, or says why it cannot have.
    pub(crate) fn take(&mut self, terms: &Terms, record: &Record) -> Result<(), Illegal> {
        match record {
            Record::QuestionRouted { step, outcome, escalate_at, .. } => {
                if *step != self.step || self.command(terms).is_none() {
                    return Err(Illegal::OtherStep);
                }
                self.routed.push((*step, *outcome));
                if *outcome != RouteOutcome::Answered {
                    self.step += 1;
                    self.escalate_at = *escalate_at;
                }
            }
            Record::QuestionEscalated { step, escalate_at, .. } => {
                if self.escalate_at.is_none() || *step != self.step + 1 {
                    return Err(Illegal::OtherStep);
                }
                self.step = *step;
                self.escalate_at = *escalate_at;
            }
            Record::QuestionReminded { next_at, .. } => {
                if self.remind_at.is_none() {
                    return Err(Illegal::NotDeclared);
                }
                self.reminders += 1;
                self.remind_at = Some(*next_at);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the command that is to be asked now.
    pub fn command<'t>(&self, terms: &'t Terms) -> Option<&'t CommandStep> {
        match terms.steps.get(usize::try_from(self.step).ok()?)? {
            Step::Command(command) => Some(command),
            Step::Inbox(_) => None,
        }
    }

    /// Returns the moment when something is to be done about the question, if it moves by time at all.
    pub fn due_at(&self, terms: &Terms) -> Option<Timestamp> {
        let expires_at = terms.expiry.map(|expiry| expiry.at);
        [self.remind_at, self.escalate_at, expires_at].into_iter().flatten().min()
    }

    /// Returns when to remind again, if somebody is reminded now. Counted from now: a machine that slept for a month does not
    /// remind a month's worth.
    pub fn next_reminder(&self, terms: &Terms, now: Timestamp) -> Timestamp {
        let first = terms.remind_after_ms.unwrap_or(LONGEST_REMINDER_GAP_MS);
        let doubled = 2_u64.saturating_pow(self.reminders.saturating_add(1)).saturating_mul(first);
        now.plus(Duration::from_millis(doubled.min(LONGEST_REMINDER_GAP_MS.max(first))))
    }
}
