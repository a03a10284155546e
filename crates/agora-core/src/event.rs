//! The six lifecycle events of a dispatch. Closed: a seventh needs a decision of its own.

use serde::{Deserialize, Serialize};

use crate::hash::ContentHash;
use crate::id::{DispatchId, QuestionId};
use crate::name::Name;
use crate::question::Question;
use crate::reason::Failure;
use crate::time::Timestamp;

/// A bundle as it was resolved: the exact content that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedBundle {
    pub name: Name,
    pub content_hash: ContentHash,
    pub registered_at: Timestamp,
}

/// Everything that a dispatch's names resolved to: its audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    pub subagent: ResolvedBundle,
    pub capabilities: Vec<ResolvedBundle>,
    pub env: Vec<ResolvedBundle>,
}

/// What happened to a dispatch. A terminal event's `durationMs` counts from `dispatch.started`, 0 before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all_fields = "camelCase")]
pub enum Event {
    /// Names validated, references resolved; the worker has not started.
    #[serde(rename = "dispatch.accepted")]
    Accepted { dispatch_id: DispatchId, resolved: Resolved },
    /// Worker booted, adapter loaded, bundles verified.
    #[serde(rename = "dispatch.started")]
    Started { dispatch_id: DispatchId },
    /// The adapter reported success, and there is no question.
    #[serde(rename = "dispatch.finished")]
    Finished { dispatch_id: DispatchId, duration_ms: u64 },
    /// The agent asked and stopped. A pause is not a failure.
    #[serde(rename = "dispatch.needs_input")]
    NeedsInput { dispatch_id: DispatchId, duration_ms: u64, question_id: QuestionId, question: Question },
    /// Anything else.
    #[serde(rename = "dispatch.failed")]
    Failed { dispatch_id: DispatchId, duration_ms: u64, failure: Failure },
    /// A cancel was honoured.
    #[serde(rename = "dispatch.cancelled")]
    Cancelled { dispatch_id: DispatchId, duration_ms: u64 },
}

impl Event {
    /// The kinds, as they stand on the wire.
    pub const KINDS: [&'static str; 6] = [
        "dispatch.accepted",
        "dispatch.started",
        "dispatch.finished",
        "dispatch.needs_input",
        "dispatch.failed",
        "dispatch.cancelled",
    ];

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "dispatch.accepted",
            Self::Started { .. } => "dispatch.started",
            Self::Finished { .. } => "dispatch.finished",
            Self::NeedsInput { .. } => "dispatch.needs_input",
            Self::Failed { .. } => "dispatch.failed",
            Self::Cancelled { .. } => "dispatch.cancelled",
        }
    }

    pub fn dispatch_id(&self) -> &DispatchId {
        match self {
            Self::Accepted { dispatch_id, .. }
            | Self::Started { dispatch_id }
            | Self::Finished { dispatch_id, .. }
            | Self::NeedsInput { dispatch_id, .. }
            | Self::Failed { dispatch_id, .. }
            | Self::Cancelled { dispatch_id, .. } => dispatch_id,
        }
    }

    /// Tells whether nothing of this dispatch may follow.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Accepted { .. } | Self::Started { .. } => false,
            Self::Finished { .. }
            | Self::NeedsInput { .. }
            | Self::Failed { .. }
            | Self::Cancelled { .. } => true,
        }
    }
}
