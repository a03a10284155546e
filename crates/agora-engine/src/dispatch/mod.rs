//! A dispatch, as it is asked for, and as it is told afterwards.

pub(crate) mod login;
pub(crate) mod resolve;
pub(crate) mod result;

use std::collections::BTreeMap;
use std::path::PathBuf;

use agora_core::bundle::{Budget, VariableName};
use agora_core::ground::GroundRequest;
use agora_core::job::Attendance;
use agora_core::limits::{DISPATCH_SECONDS, RETENTION_DAYS};
use agora_core::provider::ledger::Allowance;
use agora_core::secret::SecretValue;
use serde_json::{Map, Value};

/// What is asked for: one run of one subagent. Nothing of it is checked before [`crate::Agora::dispatch`].
///
/// ```
/// use agora_engine::Dispatch;
/// use serde_json::json;
///
/// let dispatch = Dispatch::to("planner").input(json!({"task": "split the parser"})).label("nightly");
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing runs before it is handed to `Agora::dispatch`"]
pub struct Dispatch {
    pub(crate) subagent: String,
    pub(crate) target: String,
    /// `None`: the bundle `default`, if there is one.
    pub(crate) env: Option<Vec<String>>,
    pub(crate) capabilities: Capabilities,
    pub(crate) input: Value,
    pub(crate) partial_state: Value,
    pub(crate) model: Option<String>,
    pub(crate) runtime: Option<String>,
    pub(crate) secrets: BTreeMap<VariableName, SecretValue>,
    pub(crate) timeout_seconds: u32,
    pub(crate) budget: Option<Budget>,
    pub(crate) retention_days: u32,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) processes: Option<u32>,
    pub(crate) labels: Vec<String>,
    /// Labels that say by which door it came. They are not part of what is asked for.
    pub(crate) marks: Vec<String>,
    pub(crate) priority: i32,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) one_of: Option<usize>,
    pub(crate) dispatch_id: Option<String>,
    pub(crate) attendance: Attendance,
    pub(crate) ground: GroundRequest,
    pub(crate) owner: Option<String>,
    /// Not part of what is asked for, either.
    pub(crate) allowance: Option<Allowance>,
}

/// Which capabilities are laid over the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Capabilities {
    /// Those of the subagent.
    #[default]
    Assigned,
    /// These instead.
    Instead(Vec<String>),
    /// Those of the subagent, then these.
    Beside(Vec<String>),
}

impl Dispatch {
    /// Starts a request: a subagent by its name, by `name@sha256:…`, or by `name@<RFC 3339 time>`.
    pub fn to(subagent: impl Into<String>) -> Self {
        Self {
            subagent: subagent.into(),
            target: "local".to_owned(),
            env: None,
            capabilities: Capabilities::Assigned,
            input: Value::Object(Map::new()),
            partial_state: Value::Null,
            model: None,
            runtime: None,
            secrets: BTreeMap::new(),
            timeout_seconds: DISPATCH_SECONDS,
            budget: None,
            retention_days: RETENTION_DAYS,
            memory_bytes: None,
            processes: None,
            labels: Vec::new(),
            marks: Vec::new(),
            priority: 0,
            idempotency_key: None,
            one_of: None,
            dispatch_id: None,
            attendance: Attendance::Watched,
            ground: GroundRequest::Empty,
            owner: None,
            allowance: None,
        }
    }

    /// Names another subagent than it began with.
    pub fn subagent(mut self, subagent: impl Into<String>) -> Self {
        self.subagent = subagent.into();
        self
    }

    /// Names the place where it runs. Else `local`.
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = target.into();
        self
    }

    /// Returns the name of the place where it runs.
    pub fn target_name(&self) -> &str {
        &self.target
    }

    /// Adds an env bundle; later ones win. The first takes the place of `default`.
    pub fn env(mut self, env: impl Into<String>) -> Self {
        self.env.get_or_insert_default().push(env.into());
        self
    }

    /// Lays these capabilities over the workspace, instead of those of the subagent.
    pub fn capabilities<T: Into<String>>(mut self, capabilities: impl IntoIterator<Item = T>) -> Self {
        self.capabilities = Capabilities::Instead(capabilities.into_iter().map(Into::into).collect());
        self
    }

    /// Lays these capabilities over the workspace, after those of the subagent.
    pub fn add_capabilities<T: Into<String>>(mut self, capabilities: impl IntoIterator<Item = T>) -> Self {
        self.capabilities = Capabilities::Beside(capabilities.into_iter().map(Into::into).collect());
        self
    }

    /// Gives the input: a JSON object, up to 1 MiB.
    pub fn input(mut self, input: impl Into<Value>) -> Self {
        self.input = input.into();
        self
    }

    /// Gives what was worked out before, as any JSON up to 1 MiB.
    pub fn partial_state(mut self, state: impl Into<Value>) -> Self {
        self.partial_state = state.into();
        self
    }

    /// Uses another model than the subagent's.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Uses another runtime than the subagent's.
    pub fn runtime(mut self, runtime: impl Into<String>) -> Self {
        self.runtime = Some(runtime.into());
        self
    }

    /// Gives a secret for this thread alone. It is encrypted at rest, and gone when the thread has ended.
    pub fn secret(mut self, variable: VariableName, value: SecretValue) -> Self {
        self.secrets.insert(variable, value);
        self
    }

    /// Limits the agent's time: from 1 second to a day.
    pub fn timeout_seconds(mut self, seconds: u32) -> Self {
        self.timeout_seconds = seconds;
        self
    }

    /// Limits what the whole thread may use up, instead of the subagent's budget.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Keeps what is left of the thread so many days after its end.
    pub fn retention_days(mut self, days: u32) -> Self {
        self.retention_days = days;
        self
    }

    /// Limits the memory of the agent with all that it starts.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Limits how many processes the agent has at once.
    pub fn processes(mut self, most: u32) -> Self {
        self.processes = Some(most);
        self
    }

    /// Adds a label, by which the thread is found again.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.push(label.into());
        self
    }

    /// Adds a label that says by which door the request came. Under an idempotency key it is the same request by every door.
    pub fn mark(mut self, label: impl Into<String>) -> Self {
        self.marks.push(label.into());
        self
    }

    /// Has it accepted only as far as this allows, in the same write: whoever else accepts at that moment, in whichever process, there are
    /// never more.
    pub fn allowance(mut self, allowance: Allowance) -> Self {
        self.allowance = Some(allowance);
        self
    }

    /// Lets it start before others that wait: higher ones first, 0 where nothing is said.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Names the request: the same request under the same key is one dispatch, however often it is asked for.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Says of how many this is one that were asked for together. Under an idempotency key the same one of another number is another request.
    pub fn one_of(mut self, together: usize) -> Self {
        self.one_of = Some(together);
        self
    }

    /// Chooses the id.
    pub fn dispatch_id(mut self, id: impl Into<String>) -> Self {
        self.dispatch_id = Some(id.into());
        self
    }

    /// Gives the agent a directory to work on: inside a git repository, that repository as it is now. It is read when the dispatch is
    /// accepted, and never written: the agent works on a copy. Without this, the workspace begins empty.
    pub fn workspace(mut self, dir: impl Into<PathBuf>) -> Self {
        let base = match self.ground {
            GroundRequest::Directory { base, .. } => base,
            GroundRequest::Empty | GroundRequest::Url { .. } => None,
        };
        self.ground = GroundRequest::Directory { path: dir.into(), base };
        self
    }

    /// Gives the agent a commit of the repository that the workspace lies in, instead of the working tree. Without a workspace, of the
    /// one that the current directory lies in.
    pub fn base(mut self, rev: impl Into<String>) -> Self {
        self.ground = match self.ground {
            GroundRequest::Empty => {
                GroundRequest::Directory { path: PathBuf::from("."), base: Some(rev.into()) }
            }
            GroundRequest::Directory { path, .. } => {
                GroundRequest::Directory { path, base: Some(rev.into()) }
            }
            GroundRequest::Url { url, .. } => GroundRequest::Url { url, rev: Some(rev.into()) },
        };
        self
    }

    /// Gives the agent a repository that is fetched from a URL: its default branch, or what [`Self::base`] names.
    pub fn workspace_from(mut self, url: impl Into<String>) -> Self {
        self.ground = GroundRequest::Url { url: url.into(), rev: None };
        self
    }

    /// Says who dispatches, such as `user:ann`: where no route says otherwise, they are the one who may answer. Where nobody says,
    /// any person may.
    pub fn owner(mut self, party: impl Into<String>) -> Self {
        self.owner = Some(party.into());
        self
    }

    /// Says that nobody watches: then it continues itself, once, when a provider's limit is over.
    pub fn unwatched(mut self) -> Self {
        self.attendance = Attendance::Detached;
        self
    }
}
