//! The report: what is known of a run beside its events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash::ContentHash;
use crate::id::DispatchId;
use crate::question::Question;
use crate::time::Timestamp;
use crate::wall::Built;

/// What an agent used. Of one dispatch, or of a whole thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub models: Vec<ModelUsage>,
    /// `None` where the runtime reports no price.
    pub cost_usd: Option<f64>,
    pub turns: u64,
    pub duration_ms: u64,
}

/// What one model was used for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelUsage {
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Returns all tokens that were read or written.
    pub fn tokens(&self) -> u64 {
        let of = |model: &ModelUsage| {
            let parts =
                [model.input_tokens, model.output_tokens, model.cache_read_tokens, model.cache_write_tokens];
            parts.into_iter().fold(0, u64::saturating_add)
        };
        self.models.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Adds what a later dispatch used.
    pub fn plus(mut self, more: &Self) -> Self {
        for model in &more.models {
            match self.models.iter_mut().find(|known| known.model == model.model) {
                Some(known) => {
                    known.input_tokens = known.input_tokens.saturating_add(model.input_tokens);
                    known.output_tokens = known.output_tokens.saturating_add(model.output_tokens);
                    known.cache_read_tokens = known.cache_read_tokens.saturating_add(model.cache_read_tokens);
                    known.cache_write_tokens =
                        known.cache_write_tokens.saturating_add(model.cache_write_tokens);
                    known.cost_usd = add(known.cost_usd, model.cost_usd);
                }
                None => self.models.push(model.clone()),
            }
        }
        self.cost_usd = add(self.cost_usd, more.cost_usd);
        self.turns = self.turns.saturating_add(more.turns);
        self.duration_ms = self.duration_ms.saturating_add(more.duration_ms);
        self
    }

    /// Returns what is left when an earlier total is taken off, for runtimes that report totals of a session.
    pub fn since(mut self, earlier: &Self) -> Self {
        for model in &mut self.models {
            if let Some(known) = earlier.models.iter().find(|known| known.model == model.model) {
                model.input_tokens = model.input_tokens.saturating_sub(known.input_tokens);
                model.output_tokens = model.output_tokens.saturating_sub(known.output_tokens);
                model.cache_read_tokens = model.cache_read_tokens.saturating_sub(known.cache_read_tokens);
                model.cache_write_tokens = model.cache_write_tokens.saturating_sub(known.cache_write_tokens);
                model.cost_usd = less(model.cost_usd, known.cost_usd);
            }
        }
        // Not added up: a runtime's counts are whatever it printed.
        let is_used = |model: &ModelUsage| model.input_tokens > 0 || model.output_tokens > 0;
        self.models.retain(|model| is_used(model) || model.cost_usd > Some(0.0));
        self.cost_usd = less(self.cost_usd, earlier.cost_usd);
        self
    }
}

fn add(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
    }
}

fn less(total: Option<f64>, earlier: Option<f64>) -> Option<f64> {
    // A hundred-millionth of a dollar is below every price; the rest is what subtraction of floats leaves.
    total.map(|total| ((total - earlier.unwrap_or(0.0)).max(0.0) * 1e8).round() / 1e8)
}

/// A runtime's conversation: which one, and what it takes to go on with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMark {
    /// The adapter that knows it.
    pub runtime: String,
    /// The runtime's own version: a session is used only where it is compatible.
    pub version: Option<String>,
    pub id: String,
    /// What the runtime counts for the whole session so far.
    #[serde(default)]
    pub total: Usage,
    /// The tool call that waits for its answer, as the runtime gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<Value>,
}

/// A file of the worker's, in its `out` directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// From the `out` directory.
    pub path: String,
    pub size: u64,
    pub sha256: ContentHash,
}

/// What the agent changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchReport {
    pub artifact: Artifact,
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
    /// Files in which a secret was hidden, or which were left out because of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redacted_files: Vec<String>,
    /// Files that a capability or the setup script had changed before the agent did: only the agent's changes are in the patch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// Such files that are in the patch as they ended, with what was not the agent's: the two could not be told apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<String>,
    /// Files that are not in the patch, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// How many files a person is told by name.
const NAMED: usize = 5;

impl PatchReport {
    /// Says what a person should know of it: what is not in it, and what in it is not only the agent's.
    pub fn told(&self) -> Vec<String> {
        self.whole_told().into_iter().chain(self.left_out_told()).collect()
    }

    fn whole_told(&self) -> Option<String> {
        let named: Vec<String> = self.whole.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
        let more = self.whole.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let (them, they) = if self.whole.len() == 1 { ("it", "it") } else { ("them", "they") };
        let said = format!(
            "a capability or the setup script had changed {}{more}, too: the patch has {them} as {they} ended, with what was not the agent's",
            named.join(", ")
        );
        (!self.whole.is_empty()).then_some(said)
    }

    fn left_out_told(&self) -> Vec<String> {
        let named = self.left_out.iter().take(NAMED);
        let mut told: Vec<String> =
            named.map(|left| format!("`{}` is not in the patch: {}", left.path, left.why)).collect();
        let more = self.left_out.len().saturating_sub(NAMED);
        told.extend((more > 0).then(|| format!("{more} more are not in the patch; `--json` lists them")));
        told
    }
}

/// A file that was not captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    pub path: String,
    pub why: String,
}

/// A file that the agent put into `.agora/outputs/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputFile {
    /// From `.agora/outputs/`.
    pub path: String,
    pub artifact: Artifact,
    /// A secret was hidden in it.
    pub redacted: bool,
}

/// What the verify command found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyReport {
    pub passed: bool,
    pub report: String,
    pub duration_ms: u64,
}

/// The agent's final words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    pub text: String,
    /// What the subagent's `outputSchema` asked for.
    pub structured: Option<Value>,
}

/// What a resumed dispatch had to go on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumedWith {
    pub workspace: bool,
    pub session: bool,
    pub partial_state: bool,
}

/// Which programs ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    pub agora: String,
    /// The schema of the dispatch's manifest.
    #[serde(default)]
    pub manifest: u32,
    pub adapter: String,
    pub runtime: Option<String>,
}

/// How the workspace was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceReport {
    /// `overlayfs`, `reflink` or `copy`.
    pub via: String,
    /// Why it is no overlay, where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The agent's own commits, as loose objects of git in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitsReport {
    /// The commit that the agent's HEAD named at the end.
    pub head: String,
    /// Where else it left commits of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<LeftRef>,
    pub artifact: Artifact,
}

/// A ref of the agent's that HEAD did not name at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftRef {
    /// As people call it.
    pub name: String,
    pub commit: String,
}

/// Everything that is known of a run beside its events. A run that ended early has less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub dispatch_id: DispatchId,
    pub ended_at: Timestamp,
    /// The agent's own code; 128 and the signal's number when a signal ended it. `None` when it never ran.
    pub exit_code: Option<i32>,
    pub output: Output,
    pub usage: Option<Usage>,
    /// Which set of credentials the agent had, never the value.
    pub auth: Option<String>,
    pub verify: Option<VerifyReport>,
    pub patch: Option<PatchReport>,
    pub patch_since_pause: Option<PatchReport>,
    pub outputs: Vec<OutputFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs_left_out: Vec<LeftOut>,
    pub session: Option<SessionMark>,
    pub workspace_saved: bool,
    pub resumed_with: Option<ResumedWith>,
    /// The last dispatch of the thread whose work this one began without, because it could not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<DispatchId>,
    /// What stood between the agent and everything else.
    #[serde(default = "Built::none")]
    pub wall: Built,
    pub versions: Versions,
    /// `None` for a workspace that began empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<CommitsReport>,
    /// Everything else in the `out` directory.
    pub artifacts: Vec<Artifact>,
    /// What was asked but not opened, because the dispatch was cancelled.
    pub kept_question: Option<Question>,
    /// What a person should know and nobody failed for.
    pub warnings: Vec<String>,
}

impl Report {
    /// What the sealed workspace is called among the artifacts.
    pub const WORKSPACE: &str = "workspace.sealed";

    /// Tells whether there is a workspace to go on with, if not all of it.
    pub fn leaves_workspace(&self) -> bool {
        self.artifacts.iter().any(|artifact| artifact.path == Self::WORKSPACE)
    }

    /// Starts a report of a run that has not come far yet.
    pub fn new(dispatch_id: DispatchId, at: Timestamp) -> Self {
        Self {
            dispatch_id,
            ended_at: at,
            exit_code: None,
            output: Output::default(),
            usage: None,
            auth: None,
            verify: None,
            patch: None,
            patch_since_pause: None,
            outputs: Vec::new(),
            outputs_left_out: Vec::new(),
            session: None,
            workspace_saved: false,
            resumed_with: None,
            lacks: None,
            wall: Built::none(),
            versions: Versions::default(),
            workspace: None,
            commits: None,
            artifacts: Vec::new(),
            kept_question: None,
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, cost: Option<f64>, turns: u64) -> Usage {
        let model =
            ModelUsage { model: "m".into(), input_tokens: input, cost_usd: cost, ..ModelUsage::default() };
        Usage { models: vec![model], cost_usd: cost, turns, duration_ms: 0 }
    }

    #[test]
    fn a_sessions_total_less_what_it_was_is_what_this_run_used() {
        let (before, after) = (usage(200, Some(0.0016), 2), usage(500, Some(0.0032), 3));
        let run = after.clone().since(&before);
        assert_eq!((run.models[0].input_tokens, run.cost_usd), (300, Some(0.0016)));
        assert_eq!(before.plus(&run).models, after.models);
        let unused = usage(200, Some(0.0016), 0).since(&usage(200, Some(0.0016), 2));
        assert_eq!((unused.models.len(), unused.cost_usd), (0, Some(0.0)));
    }

    #[test]
    fn no_price_is_not_a_price_of_nothing() {
        assert_eq!(usage(1, None, 1).plus(&usage(1, None, 1)).cost_usd, None);
        assert_eq!(usage(1, None, 1).plus(&usage(1, Some(0.5), 1)).cost_usd, Some(0.5));
        assert_eq!(usage(3, None, 1).plus(&usage(4, None, 1)).tokens(), 7);
    }
}
