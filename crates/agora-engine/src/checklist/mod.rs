//! The user input protocol's checklist, over what the records hold of a thread: each pause did what the protocol asks for, did not,
//! or cannot be proven to have.
//!
//! The rules are functions of [`Facts`]; everything that is read for them is read here. Words are whoever's who shows it.

mod calls;
mod facts;
mod rules;

use agora_core::hash::ContentHash;
use agora_core::wire::report::ResumedWith;
use agora_core::{DispatchId, QuestionId, ThreadId};
use serde::Serialize;

use crate::agora::Agora;
use crate::error::Error;

pub use calls::Calls;
pub(crate) use facts::Facts;

/// What the protocol asks of a pause, in the order in which it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Point {
    /// The agent saved all that it needs to go on.
    StateSaved,
    /// The question says why it is asked.
    ContextGiven,
    /// There is something to choose from, and each choice says what it implies.
    OptionsImply,
    /// Whoever watches could see that it paused.
    PauseSeen,
    /// The question can be read and shown as it was asked.
    QuestionKept,
    /// The answer stands beside the state, before anything was done with it.
    AnswerKept,
    /// The agent got both back.
    BothGivenBack,
    /// Nothing was done twice.
    NothingRedone,
    /// All of it outlives the processes that did it.
    RestartSurvived,
}

/// How a point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Passed,
    Failed,
    /// There is nothing to judge, or not yet.
    NotApplicable,
    /// The records do not tell.
    Unproven,
}

/// What a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Evidence {
    /// How many entries the partial state has at its top, and whether workspace and session were sealed with it.
    State {
        entries: usize,
        workspace: bool,
        session: bool,
    },
    Context {
        characters: usize,
    },
    /// Over all items that have options: how many there are, and how many say what they imply.
    Options {
        options: usize,
        implied: usize,
        fewest: usize,
    },
    /// No item has options.
    FreeText,
    /// Where in the ledger the pause and its opening stand.
    Pause {
        asked_seq: u64,
        opened_seq: Option<u64>,
    },
    /// The question's hash now, and whether it is the one that was opened.
    Question {
        hash: ContentHash,
        same: bool,
    },
    /// Where the answer stands, where the dispatch that goes on with it, whether it ended the thread instead, and whether its
    /// receipt is genuine.
    Answer {
        answered_seq: u64,
        accepted_seq: Option<u64>,
        ends: bool,
        receipt: Option<bool>,
    },
    /// Nobody answered: it is open, or came to another end.
    Unanswered {
        state: &'static str,
    },
    /// The dispatch that goes on has not come to an end yet.
    Underway {
        dispatch_id: DispatchId,
    },
    /// With what the next dispatch began, and whose leavings these are.
    GivenBack {
        dispatch_id: DispatchId,
        after: Option<DispatchId>,
        with: ResumedWith,
    },
    /// What the next dispatch did, as far as its runtime tells.
    Work {
        dispatch_id: DispatchId,
        workspace: bool,
        session: bool,
        turns: Option<u64>,
        calls: Option<Calls>,
    },
    /// Whether the ledger read from its beginning gives the question and its state, and whether what the agent goes on with is
    /// still there (`None`: nobody needs it any more).
    Restart {
        entries: usize,
        same: bool,
        sealed: Option<bool>,
    },
}

/// One point with what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    pub point: Point,
    pub verdict: Verdict,
    pub evidence: Evidence,
}

/// One pause, point by point.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedPause {
    pub question_id: QuestionId,
    pub points: Vec<Checked>,
}

/// A thread's pauses, in their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checklist {
    pub thread_id: ThreadId,
    pub pauses: Vec<CheckedPause>,
}

impl Checklist {
    /// Tells whether no point of any pause failed.
    pub fn passed(&self) -> bool {
        self.pauses.iter().flat_map(|pause| &pause.points).all(|point| point.verdict != Verdict::Failed)
    }
}

impl Agora {
    /// Checks every pause of a thread against the user input protocol.
    ///
    /// ```no_run
    /// # async fn example(agora: agora_engine::Agora) -> Result<(), Box<dyn std::error::Error>> {
    /// let thread = agora.find("@").await?;
    /// let checklist = agora.check_protocol(thread.id()).await?;
    /// assert!(checklist.passed(), "{checklist:#?}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_protocol(&self, thread: &ThreadId) -> Result<Checklist, Error> {
        let mut pauses = Vec::new();
        for facts in self.facts(thread).await? {
            pauses.push(CheckedPause { question_id: facts.asked.id.clone(), points: rules::check(&facts) });
        }
        if pauses.is_empty() {
            return Err(Error::NothingAsked(thread.clone()));
        }
        Ok(Checklist { thread_id: thread.clone(), pauses })
    }
}
