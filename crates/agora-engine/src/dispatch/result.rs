//! What became of a dispatch, as `agora dispatch run --json` prints it and `describe` returns it later.

use agora_core::event::Resolved;
use agora_core::ground::Ground;
use agora_core::id::QuestionId;
use agora_core::login::LoginSource;
use agora_core::provider::compute::ImageId;
use agora_core::provider::ground::CameHome;
use agora_core::provider::ledger::{DispatchView, StateWord, ThreadView};
use agora_core::question::Question;
use agora_core::reason::Failure;
use agora_core::route::Terms;
use agora_core::stale::Difference;
use agora_core::state::{AskedQuestion, DispatchState, QuestionState};
use agora_core::wall::Built;
use agora_core::wire::manifest::Continuation;
use agora_core::wire::report::{
    LeftOut, Output, OutputFile, PatchReport, Report, ResumedWith, Usage, VerifyReport, Versions,
    WorkspaceReport,
};
use agora_core::{DispatchId, Name, ThreadId, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// What became of a dispatch. `needs_input` and `failure` exclude each other.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DispatchResult {
    pub dispatch_id: DispatchId,
    pub thread_id: ThreadId,
    /// `accepted`, `queued`, `starting`, `running`, `finished`, `needs_input`, `failed` or `cancelled`.
    pub state: &'static str,
    /// The worker's own code: 0 when it finished or asked. `None` while it runs.
    pub exit_code: Option<i32>,
    /// From its start to its end.
    pub duration_ms: u64,
    pub output: Output,
    /// The worker's event stream, JSON lines.
    pub stdout: String,
    /// What the worker said beside it.
    pub stderr: String,
    /// The exact content of everything that ran.
    pub resolved: Resolved,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_input: Option<NeedsInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What the agent had asked when a cancel came first: nobody is asked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_question: Option<QuestionDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_since_pause: Option<Patch>,
    pub outputs: Vec<OutputFile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs_left_out: Vec<LeftOut>,
    pub usage: Option<Usage>,
    /// What stood between the agent and everything else. `None`: its worker has not told yet, or never did.
    pub isolation: Option<Built>,
    /// Which set of credentials the agent had, never the value.
    pub auth: Option<String>,
    /// Where that is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_from: Option<LoginSource>,
    /// Who sat at it, such as `user:ann`, when a person had taken the thread over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    pub subagent: Name,
    pub target: Name,
    /// What its worker ran in, where that is an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageId>,
    pub labels: Vec<Name>,
    pub accepted_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Whether the thread can go on in the same workspace.
    pub workspace_saved: bool,
    /// What the agent worked on. `None`: a directory that began empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_with: Option<ResumedWith>,
    pub versions: Versions,
    /// What a person should know and nobody failed for.
    pub warnings: Vec<String>,
    /// How many come before it, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
}

/// A question's words, as every document has them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionDocument {
    /// The first item's words, for whoever has one item to show.
    pub question: String,
    /// The labels of the first item's options.
    pub options: Vec<String>,
    pub context: Option<String>,
    pub partial_state: Value,
    /// Every item with all that it says.
    pub questions: Vec<Value>,
    /// The question itself, for who shows it.
    #[serde(skip)]
    pub asked: Question,
}

/// What the agent asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NeedsInput {
    pub question_id: QuestionId,
    /// The first item's words, for whoever has one item to show.
    pub question: String,
    /// The labels of the first item's options.
    pub options: Vec<String>,
    pub context: Option<String>,
    pub partial_state: Value,
    /// Every item with all that it says.
    pub questions: Vec<Value>,
    /// What the question rested on and is another now, while it is open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<Difference>,
    /// The question itself, for who shows it.
    #[serde(skip)]
    pub asked: Question,
    /// What has become of it.
    #[serde(skip)]
    pub state: QuestionState,
    /// What holds for it: its route, who may answer, its timers.
    #[serde(skip)]
    pub terms: Terms,
}

/// What the agent changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// The patch's file among what the dispatch left.
    #[serde(rename = "ref")]
    pub reference: String,
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
    /// The same in the repository that the workspace was taken from, with the agent's own commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redacted_files: Vec<String>,
    /// Files that a capability or the setup script had changed before the agent did: only the agent's changes are in the patch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// Such files that are in it as they ended, with what was not the agent's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// What the agent worked on, and how it was laid out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    #[serde(flatten)]
    pub ground: Ground,
    #[serde(flatten)]
    pub via: Option<WorkspaceReport>,
}

/// What was read for a result.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) view: DispatchView,
    pub(crate) thread: ThreadView,
    pub(crate) report: Option<Report>,
    pub(crate) home: CameHome,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) place: Option<u64>,
}

impl From<Read> for DispatchResult {
    fn from(read: Read) -> Self {
        let Read { view, thread, report, home, stdout, stderr, place } = read;
        let job = view.job;
        let isolation = report.as_ref().map(|report| report.wall.clone());
        let report = report.unwrap_or_else(|| Report::new(job.dispatch_id.clone(), view.accepted_at));
        let (failure, needs_input) = match &view.state {
            DispatchState::Failed(failure) => (Some(failure.clone()), None),
            DispatchState::NeedsInput => (None, question_of(&thread, &job.dispatch_id)),
            DispatchState::Accepted
            | DispatchState::Running
            | DispatchState::Finished
            | DispatchState::Cancelled => (None, None),
        };
        let patch = |name: &str, git_ref: Option<&String>, patch: PatchReport| Patch {
            git_ref: git_ref.cloned(),
            reference: format!("{}/{name}", job.dispatch_id),
            files: patch.files,
            insertions: patch.insertions,
            deletions: patch.deletions,
            redacted_files: patch.redacted_files,
            merged: patch.merged,
            whole: patch.whole,
            left_out: patch.left_out,
        };
        let told = report.patch.iter().flat_map(PatchReport::told);
        let warnings = report.warnings.iter().chain(&home.warnings).cloned().chain(told).collect();
        Self {
            state: shown_state(StateWord::from(&view.state), view.claim.is_some()),
            exit_code: exit_code(&view.state),
            duration_ms: view.duration_ms.unwrap_or(0),
            output: report.output,
            stdout,
            stderr,
            needs_input,
            failure,
            kept_question: report.kept_question.map(QuestionDocument::new),
            verify: report.verify,
            patch: report.patch.map(|of| patch("patch.diff", home.git_ref.as_ref(), of)),
            patch_since_pause: report.patch_since_pause.map(|of| patch("patch-since-pause.diff", None, of)),
            outputs: report.outputs,
            outputs_left_out: report.outputs_left_out,
            usage: report.usage,
            isolation,
            auth: report.auth,
            auth_from: job.login,
            accepted_at: view.accepted_at,
            started_at: view.started_at,
            ended_at: view.ended_at,
            workspace_saved: report.workspace_saved,
            resumed_with: report.resumed_with,
            versions: report.versions,
            warnings,
            workspace: job.ground.map(|ground| Workspace { ground: *ground, via: report.workspace }),
            place,
            person: job.continuation.as_ref().and_then(Continuation::person).map(|by| by.principal.clone()),
            dispatch_id: job.dispatch_id,
            thread_id: job.thread_id,
            subagent: job.resolved.subagent.name.clone(),
            resolved: job.resolved,
            target: job.target,
            image: job.image,
            labels: job.labels,
        }
    }
}

/// Returns the state as people see it: what was accepted waits for room, or its worker is on its way.
pub fn shown_state(state: StateWord, claimed: bool) -> &'static str {
    match (state, claimed) {
        (StateWord::Accepted, false) => "queued",
        (StateWord::Accepted, true) => "starting",
        (other, _) => other.as_str(),
    }
}

fn exit_code(state: &DispatchState) -> Option<i32> {
    match state {
        DispatchState::Accepted | DispatchState::Running => None,
        DispatchState::Finished | DispatchState::NeedsInput => Some(0),
        DispatchState::Failed(_) | DispatchState::Cancelled => Some(1),
    }
}

/// A dispatch asks at most one question: the last of the thread, when the dispatch is the last one that asked.
fn question_of(thread: &ThreadView, dispatch: &DispatchId) -> Option<NeedsInput> {
    let asked = thread.thread.dispatches().iter().filter(|(_, state)| *state == DispatchState::NeedsInput);
    let place = asked.clone().position(|(id, _)| id == dispatch)?;
    let asked = thread.thread.questions().get(place)?;
    Some(NeedsInput::new(asked))
}

impl QuestionDocument {
    pub(crate) fn new(asked: Question) -> Self {
        let first = asked.items().first();
        let whole = serde_json::to_value(&asked).unwrap_or_default();
        Self {
            question: first.map(|item| item.question().to_owned()).unwrap_or_default(),
            options: first
                .map(|item| item.options().iter().map(|option| option.label.clone()).collect())
                .unwrap_or_default(),
            context: asked.context().map(str::to_owned),
            partial_state: asked.partial_state().clone(),
            questions: whole["questions"].as_array().cloned().unwrap_or_default(),
            asked,
        }
    }
}

impl NeedsInput {
    pub(crate) fn new(asked: &AskedQuestion) -> Self {
        let AskedQuestion { id, state, terms, .. } = asked;
        let QuestionDocument { question, options, context, partial_state, questions, asked } =
            QuestionDocument::new(asked.question.clone());
        Self {
            question_id: id.clone(),
            question,
            options,
            context,
            partial_state,
            questions,
            stale: Vec::new(),
            asked,
            state: *state,
            terms: terms.clone(),
        }
    }
}
