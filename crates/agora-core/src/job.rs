//! A job: what a dispatch is to do, as it was accepted. Names are resolved and nothing is located yet, so that a home can be
//! moved between acceptance and start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::Answerer;
use crate::bundle::VariableName;
use crate::event::Resolved;
use crate::ground::Ground;
use crate::id::{DispatchId, ThreadId};
use crate::limits::LONGEST_DISPATCH_SECONDS;
use crate::login::LoginSource;
use crate::name::{Name, Namespace};
use crate::provider::compute::ImageId;
use crate::route::{Party, Routes};
use crate::state::{DispatchState, Thread, ThreadState};
use crate::time::Timestamp;
use crate::wire::manifest::{Continuation, Limits, Verbatim};

/// The version of a job's form.
const SCHEMA: u32 = 1;

/// What a dispatch is to do, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    schema: u32,
    pub namespace: Namespace,
    pub dispatch_id: DispatchId,
    pub thread_id: ThreadId,
    /// The exact content of everything that runs.
    pub resolved: Resolved,
    /// The adapter's word.
    pub runtime: String,
    /// Instead of the subagent's own.
    #[serde(default)]
    pub model: Option<String>,
    /// A JSON object.
    pub input: Verbatim,
    #[serde(default)]
    pub partial_state: Verbatim,
    /// Why the thread goes on. `None` for its first dispatch.
    #[serde(default)]
    pub continuation: Option<Continuation>,
    /// The dispatch whose workspace and conversation this one goes on with.
    #[serde(default)]
    pub after: Option<DispatchId>,
    pub limits: Limits,
    /// The dispatch's own secrets: which variable gets which name of the store.
    #[serde(default)]
    pub secrets: BTreeMap<VariableName, String>,
    /// Where its login is from. `None`: it has none, or an older agora chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginSource>,
    pub target: Name,
    /// What its worker runs in, where that is an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageId>,
    /// Higher ones first.
    #[serde(default)]
    pub priority: i32,
    #[serde(default)]
    pub labels: Vec<Name>,
    pub retention_days: u32,
    /// What its worker may take beside the agent's own time: the setup script, the verify command, and putting things away. One
    /// that takes longer hangs.
    pub overtime_seconds: u32,
    /// Goes into the key that the thread's workspace and conversation are sealed with.
    pub salt: String,
    /// Whether anybody watches it. A thread that nobody watches continues itself once when a provider's limit is over.
    #[serde(default)]
    pub attendance: Attendance,
    /// What the thread works on. `None`: an empty directory.
    #[serde(default)]
    pub ground: Option<Box<Ground>>,
    /// Whoever dispatched it. `None`: nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Party>,
    /// The routes that its questions may take: those of the `agora.toml` that it was dispatched with, wherever it is carried.
    #[serde(default, skip_serializing_if = "Routes::is_empty")]
    pub routes: Routes,
}

/// Who is there while a dispatch runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attendance {
    /// Somebody waits for it, and decides what comes next.
    #[default]
    Watched,
    /// Nobody does.
    Detached,
    /// Nobody does, and it has continued itself already.
    Retried,
}

/// What the next dispatch of a thread logs in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLogin {
    /// All of the job's secrets: those of the login, and the others as they were.
    pub secrets: BTreeMap<VariableName, String>,
    pub source: Option<LoginSource>,
}

/// What a job must say; the rest has a default.
#[derive(Clone, Debug)]
pub struct JobEssentials {
    pub namespace: Namespace,
    pub dispatch_id: DispatchId,
    pub thread_id: ThreadId,
    pub resolved: Resolved,
    pub runtime: String,
    pub input: Map<String, Value>,
    pub limits: Limits,
    pub target: Name,
    pub retention_days: u32,
    pub overtime_seconds: u32,
    pub salt: String,
}

/// Says why bytes are not a job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("the job has the schema {0}; this agora reads {SCHEMA}")]
    Schema(u32),
    #[error("the job is malformed")]
    Malformed(#[source] serde_json::Error),
}

impl Job {
    /// Starts a job: a first dispatch with nothing but a subagent.
    pub fn new(essentials: JobEssentials) -> Self {
        let JobEssentials {
            namespace,
            dispatch_id,
            thread_id,
            resolved,
            runtime,
            input,
            limits,
            target,
            retention_days,
            overtime_seconds,
            salt,
        } = essentials;
        Self {
            schema: SCHEMA,
            namespace,
            dispatch_id,
            thread_id,
            resolved,
            runtime,
            model: None,
            input: Verbatim(Value::Object(input)),
            partial_state: Verbatim::default(),
            continuation: None,
            after: None,
            limits,
            secrets: BTreeMap::new(),
            login: None,
            target,
            image: None,
            priority: 0,
            labels: Vec::new(),
            retention_days,
            overtime_seconds,
            salt,
            attendance: Attendance::Watched,
            ground: None,
            owner: None,
            routes: Routes::default(),
        }
    }

    /// Writes the job. What would not read back is refused: a dispatch without a job can neither be started nor looked at.
    pub fn encode(&self) -> Result<String, JobError> {
        let text = serde_json::to_string(self).map_err(JobError::Malformed)?;
        Self::decode(&text)?;
        Ok(text)
    }

    pub fn decode(text: &str) -> Result<Self, JobError> {
        // Looked at alone first, so that a newer job is not called malformed.
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(JobError::Malformed)?;
        if head.schema != SCHEMA {
            return Err(JobError::Schema(head.schema));
        }
        serde_json::from_str(text).map_err(JobError::Malformed)
    }

    /// Returns the job of the next dispatch of the thread: the same, from where this one left off.
    pub fn next(self, dispatch_id: DispatchId, continuation: Continuation, attendance: Attendance) -> Self {
        let after = Some(self.dispatch_id);
        Self { dispatch_id, continuation: Some(continuation), after, attendance, ..self }
    }

    /// Gives the job what was chosen to log in with, if something was.
    #[must_use]
    pub fn logging_in(self, login: Option<&NextLogin>) -> Self {
        match login.cloned() {
            Some(NextLogin { secrets, source }) => Self { secrets, login: source, ..self },
            None => self,
        }
    }

    /// Returns who sits at the terminal of this dispatch, when a person took the thread over.
    pub fn person(&self) -> Option<&Answerer> {
        self.continuation.as_ref().and_then(Continuation::person)
    }

    /// Returns how long the agent may take. A person has the longest day there is; what comes after them has its own limit again.
    pub fn seconds(&self) -> u32 {
        match self.person() {
            Some(_) => LONGEST_DISPATCH_SECONDS,
            None => self.limits.timeout_seconds,
        }
    }

    /// Tells whether it goes on with a thread. Those come first: somebody has waited for them already.
    pub fn is_continued(&self) -> bool {
        self.continuation.is_some()
    }
}

/// Returns when a thread moves on by itself: a timer of its question, or the end of a provider's limit.
pub fn due_at(thread: &Thread, last: &Job) -> Option<Timestamp> {
    thread.question_due_at().or_else(|| retry_at(thread, last))
}

/// Returns when a thread continues itself: a provider said when its limit ends, nobody watches, and it has not tried yet.
pub fn retry_at(thread: &Thread, last: &Job) -> Option<Timestamp> {
    if thread.has_ended() || last.attendance != Attendance::Detached {
        return None;
    }
    let (_, dispatch) = thread.dispatches().last()?;
    match (thread.state(), dispatch) {
        (ThreadState::Failed(_), DispatchState::Failed(failure)) => failure.retry_at,
        _ => None,
    }
}
