//! The dispatch's manifest: everything that a worker is to do, under one hash.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::receipt::Receipt;
use super::report::{SessionMark, Usage};
use crate::answer::Answerer;
use crate::bundle::{Budget, Model, VariableName};
use crate::canonical::{self, CanonicalError};
use crate::event::{Resolved, ResolvedBundle};
use crate::ground::Author;
use crate::hash::ContentHash;
use crate::id::{DispatchId, QuestionId, ThreadId};
use crate::login::LoginSource;
use crate::name::{Name, Namespace};
use crate::question::Question;
use crate::text::serde_as_text;
use crate::time::Timestamp;
use crate::wall::Wish;

/// The version of the manifest's form. A worker refuses what it does not know rather than guess.
const SCHEMA: u32 = 1;

/// Where bytes are to be had. They are not trusted until their hash was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A file that the worker sees: `file:///…`.
    File(PathBuf),
}

/// Says why a text is not a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    #[error("a location begins with `file:///`")]
    UnknownScheme,
    #[error("a location has no `..`, no NUL and ends with a name")]
    Path,
}

impl Location {
    /// Names a file by its absolute path.
    pub fn file(path: &Path) -> Result<Self, LocationError> {
        path.to_str().ok_or(LocationError::Path).and_then(|path| format!("file://{path}").parse())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let path = text.strip_prefix("file://").filter(|path| path.starts_with('/'));
        let path = path.ok_or(LocationError::UnknownScheme)?;
        let plain = path[1..].split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if plain && !path.contains('\0') {
            Ok(Self::File(PathBuf::from(path)))
        } else {
            Err(LocationError::Path)
        }
    }
}

serde_as_text!(Location);

/// JSON that is kept to the letter. Other JSON in a hashed document is canonical, and an agent's numbers need not be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verbatim(pub Value);

impl Serialize for Verbatim {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Verbatim {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::strict::parse_wrapped(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A bundle that runs, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundleAt {
    pub name: Name,
    pub content_hash: ContentHash,
    pub registered_at: Timestamp,
    /// The bundle's manifest.
    pub manifest: Location,
    /// A capability's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<Location>,
}

impl BundleAt {
    fn resolved(&self) -> ResolvedBundle {
        ResolvedBundle {
            name: self.name.clone(),
            content_hash: self.content_hash,
            registered_at: self.registered_at,
        }
    }
}

/// Sealed bytes that an earlier dispatch of the thread left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SealedAt {
    pub location: Location,
    pub sha256: ContentHash,
}

/// Why a thread goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Continuation {
    /// Its question was answered. The receipt says by whom, and is checked by the worker.
    Answered(GivenAnswer),
    /// Its owner goes on from where it ended, perhaps with a word more.
    Continued {
        message: Option<String>,
        /// The answer that the dispatch before was given, and came to no good end with: nobody is asked twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Box<GivenAnswer>>,
    },
    /// A person goes on with it themself, at a terminal, in the runtime's own interactive program.
    TakenOver { by: Answerer },
}

/// An answer, beside the question that it was given to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GivenAnswer {
    pub question_id: QuestionId,
    pub question: Verbatim,
    pub receipt: Box<Receipt>,
}

impl GivenAnswer {
    /// Returns the question that was answered.
    pub fn question(&self) -> Result<Question, serde_json::Error> {
        serde_json::from_value(self.question.0.clone())
    }
}

impl Continuation {
    /// Returns the answer that the dispatch is given, whether or not it is the first that gets it.
    pub fn answer(&self) -> Option<&GivenAnswer> {
        match self {
            Self::Answered(answer) => Some(answer),
            Self::Continued { answer, .. } => answer.as_deref(),
            Self::TakenOver { .. } => None,
        }
    }

    /// Returns who took the thread over, if somebody did.
    pub fn person(&self) -> Option<&Answerer> {
        match self {
            Self::TakenOver { by } => Some(by),
            Self::Answered(_) | Self::Continued { .. } => None,
        }
    }
}

/// What the thread's last dispatch left behind. Each part is used when it is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Prior {
    /// The workspace as it was left.
    pub workspace: Option<SealedAt>,
    /// What the workspace was when the thread began, for its patch.
    pub baseline: Option<SealedAt>,
    /// The runtime's own conversation.
    pub session: Option<PriorSession>,
    /// The last dispatch whose work is not in that workspace, because it could not be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<DispatchId>,
    /// What the thread has used up.
    pub usage: Usage,
}

/// A runtime's conversation that can go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PriorSession {
    pub mark: SessionMark,
    pub files: SealedAt,
}

/// What a dispatch may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    pub timeout_seconds: u32,
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    #[serde(default)]
    pub processes: Option<u32>,
    /// For the whole thread; what earlier dispatches used counts.
    #[serde(default)]
    pub budget: Option<Budget>,
}

/// What the workspace is made from. Everything in it is read, and never written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceAt {
    /// A directory of files that the workspace begins with. Threads share it.
    #[serde(default)]
    pub base: Option<Location>,
    /// The thread's own directory: `files` to lay over the base, `gone` with what of the base is not there.
    pub ground: Location,
    /// Directories outside that the workspace's repository reads objects from: what is behind the wall must see them.
    #[serde(default)]
    pub borrowed: Vec<Location>,
    /// Whether it may be made of layers, where the machine can.
    #[serde(default)]
    pub layers: Layers,
    /// Who works there, as git names people. `None` outside a repository.
    #[serde(default)]
    pub people: Option<People>,
}

/// Whether a workspace may be made of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layers {
    /// Where the machine can.
    #[default]
    Auto,
    /// It is a copy.
    Never,
}

/// Whose work it is, and who does it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct People {
    pub author: Author,
    pub committer: Author,
}

/// Everything that a worker is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DispatchManifest {
    schema: u32,
    pub namespace: Namespace,
    pub dispatch_id: DispatchId,
    pub thread_id: ThreadId,
    pub subagent: BundleAt,
    /// In the order that decides who wins the overlay.
    pub capabilities: Vec<BundleAt>,
    /// Later ones win.
    pub env: Vec<BundleAt>,
    /// Instead of the subagent's own.
    #[serde(default)]
    pub model: Option<String>,
    /// A JSON object.
    pub input: Verbatim,
    #[serde(default)]
    pub partial_state: Verbatim,
    #[serde(default)]
    pub continuation: Option<Continuation>,
    #[serde(default)]
    pub prior: Prior,
    pub limits: Limits,
    /// The dispatch's own secrets: which variable gets which of the bootstrap's.
    #[serde(default)]
    pub secrets: BTreeMap<VariableName, String>,
    /// Where the login is from, if the engine chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginSource>,
    /// What shall stand between the agent and everything else.
    #[serde(default)]
    pub wall: Wish,
    /// `None`: an empty directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceAt>,
}

/// What a dispatch must say; the rest has a default.
#[derive(Clone, Debug)]
pub struct Essentials {
    pub namespace: Namespace,
    pub dispatch_id: DispatchId,
    pub thread_id: ThreadId,
    pub subagent: BundleAt,
    pub input: Map<String, Value>,
    pub limits: Limits,
}

/// Says why bytes are not a manifest.
#[derive(Debug, thiserror::Error)]
pub enum DispatchManifestError {
    #[error("the dispatch's manifest has the schema {0}; this worker reads {SCHEMA}")]
    Schema(u32),
    #[error("the dispatch's manifest is malformed")]
    Malformed(#[source] serde_json::Error),
    #[error("the input is not a JSON object")]
    Input,
    #[error("the time limit is not from 1 to {} seconds", crate::limits::LONGEST_DISPATCH_SECONDS)]
    Time,
}

impl DispatchManifest {
    /// Starts a manifest: a first dispatch with nothing but a subagent.
    pub fn new(essentials: Essentials) -> Self {
        let Essentials { namespace, dispatch_id, thread_id, subagent, input, limits } = essentials;
        Self {
            schema: SCHEMA,
            namespace,
            dispatch_id,
            thread_id,
            subagent,
            capabilities: Vec::new(),
            env: Vec::new(),
            model: None,
            input: Verbatim(Value::Object(input)),
            partial_state: Verbatim::default(),
            continuation: None,
            prior: Prior::default(),
            limits,
            secrets: BTreeMap::new(),
            login: None,
            wall: Wish::default(),
            workspace: None,
        }
    }

    /// Returns the version of its form.
    pub fn schema(&self) -> u32 {
        self.schema
    }

    /// Writes the canonical bytes.
    pub fn encode(&self) -> Result<Vec<u8>, CanonicalError> {
        canonical::to_bytes(self)
    }

    /// Reads a manifest whose hash was checked.
    pub fn decode(bytes: &[u8]) -> Result<Self, DispatchManifestError> {
        // The schema is looked at alone first, so that a newer manifest is not called malformed.
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_slice(bytes).map_err(DispatchManifestError::Malformed)?;
        if head.schema != SCHEMA {
            return Err(DispatchManifestError::Schema(head.schema));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(DispatchManifestError::Malformed)?;
        if !manifest.input.0.is_object() {
            return Err(DispatchManifestError::Input);
        }
        if !(1..=crate::limits::LONGEST_DISPATCH_SECONDS).contains(&manifest.limits.timeout_seconds) {
            return Err(DispatchManifestError::Time);
        }
        Ok(manifest)
    }

    /// Returns every place that the worker reads from, to be named as the worker sees it.
    pub fn locations_mut(&mut self) -> impl Iterator<Item = &mut Location> {
        let bundles = [&mut self.subagent].into_iter().chain(&mut self.capabilities).chain(&mut self.env);
        let bundles = bundles.flat_map(|bundle| [&mut bundle.manifest].into_iter().chain(&mut bundle.pack));
        let Prior { workspace, baseline, session, lacks: _, usage: _ } = &mut self.prior;
        let session = session.iter_mut().map(|session| &mut session.files);
        let sealed = workspace.iter_mut().chain(baseline).chain(session);
        bundles.chain(sealed.map(|sealed| &mut sealed.location))
    }

    /// Returns the directories that the workspace is made from, and those that its repository borrows from.
    pub fn directories_mut(&mut self) -> impl Iterator<Item = &mut Location> {
        self.workspace
            .iter_mut()
            .flat_map(|at| at.base.iter_mut().chain([&mut at.ground]).chain(&mut at.borrowed))
    }

    /// Returns the audit trail: the exact content of each bundle.
    pub fn resolved(&self) -> Resolved {
        Resolved {
            subagent: self.subagent.resolved(),
            capabilities: self.capabilities.iter().map(BundleAt::resolved).collect(),
            env: self.env.iter().map(BundleAt::resolved).collect(),
        }
    }

    /// Returns the input.
    pub fn input(&self) -> Map<String, Value> {
        self.input.0.as_object().cloned().unwrap_or_default()
    }

    /// Returns the model that was asked for instead of the subagent's.
    pub fn model(&self) -> Option<Model> {
        self.model.clone().map(Model::from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn manifest() -> DispatchManifest {
        let subagent = BundleAt {
            name: "planner".parse().unwrap(),
            content_hash: ContentHash::of(b"s"),
            registered_at: Timestamp::from_millis(0),
            manifest: "file:///in/s".parse().unwrap(),
            pack: None,
        };
        let limits = Limits { timeout_seconds: 7200, memory_bytes: None, processes: None, budget: None };
        DispatchManifest::new(Essentials {
            namespace: "default".parse().unwrap(),
            dispatch_id: "d_1".parse().unwrap(),
            thread_id: "t_1".parse().unwrap(),
            subagent,
            input: json!({"task": "x", "nanos": 1_763_233_200_000_000_000_u64}).as_object().unwrap().clone(),
            limits,
        })
    }

    #[test]
    fn it_reads_back_with_every_digit_of_the_input() {
        let manifest = manifest();
        let bytes = manifest.encode().unwrap();
        assert_eq!(DispatchManifest::decode(&bytes).unwrap(), manifest);
        let again: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(canonical::to_bytes(&again).unwrap(), bytes, "its bytes are canonical");
    }

    #[test]
    fn what_a_worker_does_not_know_is_refused() {
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut value = serde_json::to_value(manifest()).unwrap();
            change(&mut value);
            DispatchManifest::decode(value.to_string().as_bytes()).unwrap_err()
        };
        assert!(matches!(changed(&|value| value["schema"] = json!(2)), DispatchManifestError::Schema(2)));
        assert!(matches!(changed(&|value| value["input"] = json!("[]")), DispatchManifestError::Input));
        assert!(matches!(
            changed(&|value| value["limits"]["timeoutSeconds"] = json!(0)),
            DispatchManifestError::Time
        ));
        assert!(matches!(changed(&|value| value["verfy"] = json!(1)), DispatchManifestError::Malformed(_)));
        assert!(matches!(changed(&|value| value["input"] = json!("{")), DispatchManifestError::Malformed(_)));
    }

    #[test]
    fn a_location_is_an_absolute_path() {
        for text in ["file:///a", "file:///a b/ä.json"] {
            assert_eq!(text.parse::<Location>().map(|location| location.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["", "/a", "file://", "file:///", "file://a/b", "file:///a/../b", "file:///a//b", "https://x/y"]
        {
            assert!(text.parse::<Location>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = DispatchManifest::decode(&bytes);
        }

        /// One byte of a good manifest changed: refused, or a manifest that writes itself back.
        #[test]
        fn no_change_panics(place: usize, byte: u8) {
            let mut bytes = manifest().encode().unwrap();
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Ok(read) = DispatchManifest::decode(&bytes) {
                prop_assert_eq!(DispatchManifest::decode(&read.encode().unwrap()).unwrap(), read);
            }
        }
    }
}
