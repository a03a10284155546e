//! What can go wrong, with the facts that a person needs to mend it.

use std::io;
use std::path::PathBuf;

use agora_core::blobs::ReadError;
use agora_core::bundle::{BundleKind, EnvError, SubagentError, TreeError};
use agora_core::canonical::CanonicalError;
use agora_core::catalogue::{RegisterError, ResolveError};
use agora_core::credential::Hit;
use agora_core::login::Vendor;
use agora_core::provider::blob::StoreError;
use agora_core::provider::compute::ComputeError;
use agora_core::provider::ground::GroundError;
use agora_core::provider::ledger::{Beyond, LedgerError};
use agora_core::provider::registry::RegistryError;
use agora_core::provider::secret::SecretError;
use agora_core::provider::{Outage, Unavailable};
use agora_core::secret::SecretValueError;
use agora_core::state::Illegal;
use agora_core::template::RenderError;
use agora_core::{Name, ThreadId};

use agora_providers::ground::ApplyError;

use crate::carry::CarryError;
use crate::carry::accept::AcceptError;
use crate::definition::DefinitionError;
#[cfg(feature = "docker")]
use crate::image::BuildError;
use crate::inbox::Refusal;
use crate::secret::SecretSourceError;
use crate::settings::SettingsError;
use crate::tree::TreeFault;

/// Why something that was asked of [`crate::Agora`] was not done. Nothing was changed, unless a variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("`{path}` cannot be part of a capability")]
    File {
        path: String,
        #[source]
        fault: TreeFault,
    },
    #[error("`{dir}` cannot be a capability")]
    Tree {
        dir: PathBuf,
        #[source]
        source: TreeError,
    },
    #[error("{place} holds what looks like a credential: line {line}, pattern `{pattern}`", line = hit.line, pattern = hit.pattern)]
    Credential { place: String, hit: Hit },
    #[error("`{file}` cannot be read")]
    Unreadable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{file}` is not a usable definition")]
    Definition {
        file: PathBuf,
        #[source]
        source: DefinitionError,
    },
    #[error("the subagent `{name}` cannot be registered")]
    Subagent {
        name: Name,
        #[source]
        source: SubagentError,
    },
    #[error("`{field}` is not a usable JSON Schema: {why}")]
    Schema { field: &'static str, why: String },
    #[error("the file names its subagent `{written}`, but it is being registered as `{given}`")]
    OtherName { written: String, given: Name },
    #[error("the env bundle `{name}` cannot be registered")]
    Env {
        name: Name,
        #[source]
        source: EnvError,
    },
    #[error("the secret for `{variable}` cannot be taken")]
    SecretSource {
        variable: String,
        #[source]
        source: SecretSourceError,
    },
    #[error("the secret for `{variable}` is refused")]
    SecretValue {
        variable: String,
        #[source]
        source: SecretValueError,
    },
    #[error(transparent)]
    Secret(SecretError),
    #[error(transparent)]
    Resolve(ResolveError),
    #[error(transparent)]
    Register(RegisterError),
    #[error(transparent)]
    Registry(RegistryError),
    #[error(transparent)]
    Read(ReadError),
    #[error("the bundle has no canonical form")]
    Canonical(#[source] CanonicalError),
    #[error("the prompt cannot be written")]
    Render(#[source] RenderError),
    #[error("the entry of the {kind} `{name}` cannot be used")]
    Entry {
        kind: BundleKind,
        name: Name,
        #[source]
        source: Box<Self>,
    },
    #[error("the {kind} `{name}` extends `{base}`, which is neither in the file nor registered")]
    UnknownBase { kind: BundleKind, name: Name, base: Name },
    #[error("the {kind} `{name}` extends itself, by way of {}", .way.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))]
    Circle { kind: BundleKind, name: Name, way: Vec<Name> },
    #[error("`{dir}` has neither `.claude/agents/*.md` nor `.claude/skills/*/`")]
    NothingToSync { dir: PathBuf },
    #[error("the {kind} `{name}` changed on disk while it was being registered")]
    ChangedMeanwhile { kind: BundleKind, name: Name },
    #[error(transparent)]
    Home(Unavailable),
    #[error("`{field}` cannot be used: {why}")]
    Request { field: &'static str, why: String },
    #[error("there is no target `{name}`")]
    UnknownTarget { name: Name, known: Vec<Name> },
    #[error("nothing is known as `{text}`")]
    UnknownId { text: String, near: Vec<Name> },
    #[error("`{text}` begins the ids of several threads")]
    AmbiguousId { text: String, matches: Vec<String> },
    #[error(transparent)]
    Ground(GroundError),
    #[error("{why}")]
    Apply { thread: ThreadId, why: ApplyError },
    #[error(transparent)]
    Accept(AcceptError),
    #[error(transparent)]
    Answer(Refusal),
    #[error("another `agora serve` runs for this home")]
    ServedAlready,
    #[error("the thread `{0}` has asked nothing")]
    NothingAsked(ThreadId),
    #[error(transparent)]
    Carry(CarryError),
    #[error("the machine does not say which start of it this is")]
    Machine(#[source] io::Error),
    #[error("the machine gives no random numbers")]
    NoEntropy(#[source] io::Error),
    #[error("this agora was opened without a program for its workers")]
    NoWorker,
    #[error("there is nothing that `{}` could log in with", vendor.name)]
    NoLogin { vendor: &'static Vendor },
    #[error("{} is not what `{}` logs in with", listed(given), vendor.name)]
    NotALogin { vendor: &'static Vendor, given: Vec<String> },
    #[cfg(feature = "docker")]
    #[error(transparent)]
    Image(BuildError),
    #[error("agora cannot {doing} codex's login in `{}`", path.display())]
    CodexHome {
        doing: String,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no `agora.toml` in `{}` nor above it", from.display())]
    NoProject { from: PathBuf },
    #[error("there is no place to keep anything: neither AGORA_HOME nor HOME is set")]
    NoHome,
    #[error("`{file}` cannot be used")]
    Settings {
        file: PathBuf,
        #[source]
        source: SettingsError,
    },
}

/// Who has to do something about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Whoever asked: the request was wrong.
    Request,
    /// Whoever keeps the machine: something outside is missing, full or damaged.
    Outside,
}

impl Error {
    /// Tells who has to do something about it.
    pub fn kind(&self) -> ErrorKind {
        self.classify().0
    }

    /// Tells whether what is recorded of one thread is damaged. The others are not concerned, and `Thread::discard` takes it out.
    pub fn is_of_one_thread(&self) -> bool {
        matches!(self, Self::Carry(CarryError::Ledger(LedgerError::ThreadDamaged { .. })))
    }

    /// Returns the stable word for it, which a program can branch on.
    pub fn code(&self) -> &'static str {
        self.classify().1
    }

    /// The one table from what happened to what is told. No wildcard: a new error is not told until it is placed here.
    fn classify(&self) -> (ErrorKind, &'static str) {
        use ErrorKind::{Outside, Request};
        match self {
            Self::File { .. } => (Request, "file-refused"),
            Self::Tree { .. } => (Request, "capability-refused"),
            Self::Credential { .. } => (Request, "credential-found"),
            Self::Unreadable { .. } => (Request, "file-unreadable"),
            Self::Definition { .. } => (Request, "definition-invalid"),
            Self::Subagent { .. } => (Request, "subagent-invalid"),
            Self::Schema { .. } => (Request, "schema-invalid"),
            Self::OtherName { .. } => (Request, "name-mismatch"),
            Self::Env { .. } => (Request, "env-invalid"),
            Self::SecretSource { .. } => (Request, "secret-source"),
            Self::SecretValue { .. } => (Request, "secret-refused"),
            Self::Secret(error) => secret(error),
            Self::Resolve(error) => resolve(error),
            Self::Register(RegisterError::Store(error)) => store(error),
            Self::Register(RegisterError::Registry { source, .. }) | Self::Registry(source) => {
                registry(source)
            }
            Self::Read(ReadError::Store { source, .. }) => store(source),
            Self::Read(ReadError::Manifest { .. }) => (Outside, "bundle-malformed"),
            Self::Canonical(_) => (Request, "not-canonical"),
            Self::Render(_) => (Request, "prompt-incomplete"),
            Self::Entry { source, .. } => source.classify(),
            Self::UnknownBase { .. } => (Request, "unknown-name"),
            Self::Circle { .. } => (Request, "extends-circle"),
            Self::NothingToSync { .. } => (Request, "nothing-to-sync"),
            Self::ChangedMeanwhile { .. } => (Request, "changed-meanwhile"),
            Self::Home(error) => unavailable(error),
            Self::Request { .. } => (Request, "request-invalid"),
            Self::UnknownTarget { .. } => (Request, "unknown-target"),
            Self::UnknownId { .. } => (Request, "unknown-id"),
            Self::AmbiguousId { .. } => (Request, "ambiguous-id"),
            Self::Ground(GroundError::Refused { .. }) => (Request, "workspace-refused"),
            Self::Ground(GroundError::Git { .. }) => (Outside, "git-failed"),
            Self::Ground(GroundError::Unavailable(error)) => unavailable(error),
            Self::Apply { why, .. } => apply(why),
            Self::Accept(AcceptError::KeyReused(_)) => (Request, "idempotency-key-reused"),
            Self::Accept(AcceptError::NotAllowed(Beyond::Live(_))) => (Request, "limit-live"),
            Self::Accept(AcceptError::NotAllowed(Beyond::All(_))) => (Request, "limit-dispatches"),
            Self::Accept(AcceptError::DispatchTaken(_)) => (Request, "dispatch-exists"),
            Self::Accept(AcceptError::NotNow { why: Illegal::QuestionOpen, .. }) => {
                (Request, "question-open")
            }
            Self::Accept(AcceptError::NotNow { .. } | AcceptError::Held(_)) => (Request, "thread-busy"),
            Self::Accept(AcceptError::NoTerminal(_)) => (Request, "target-without-terminal"),
            Self::Accept(AcceptError::NotEntitled { .. }) => (Request, "not-entitled"),
            Self::Answer(Refusal::CannotStart { why, .. }) => secret(why),
            Self::Answer(refusal) => (Request, answer(refusal)),
            Self::NothingAsked(_) => (Request, "nothing-asked"),
            Self::ServedAlready => (Request, "served-already"),
            Self::Accept(AcceptError::Carry(error)) | Self::Carry(error) => carry(error),
            Self::Machine(_) | Self::NoEntropy(_) => (Outside, "machine-unknown"),
            Self::NoWorker => (Outside, "no-worker"),
            Self::NoLogin { .. } => (Outside, "no-credential"),
            Self::NotALogin { .. } => (Request, "not-a-credential"),
            Self::NoHome => (Outside, "no-home"),
            Self::CodexHome { .. } => (Outside, "codex-login"),
            Self::NoProject { .. } => (Request, "no-project"),
            Self::Settings { .. } => (Request, "config-invalid"),
            #[cfg(feature = "docker")]
            Self::Image(error) => image(error),
        }
    }
}

fn answer(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unknown(_) => "unknown-question",
        Refusal::NotOpen(_) => "question-not-open",
        Refusal::AnsweredBefore { .. } => "answered-before",
        Refusal::Closed { how: Illegal::DeclinedAlready, .. } => "question-declined",
        Refusal::Closed { how: Illegal::ExpiredAlready, .. } => "question-expired",
        Refusal::Closed { how: Illegal::StaleAlready, .. } => "question-stale",
        Refusal::Closed { how: Illegal::CancelledAlready, .. } => "question-cancelled",
        Refusal::Closed { .. } => "question-closed",
        Refusal::Unfit { .. } => "answer-unfit",
        Refusal::CannotStart { .. } => "secret-missing",
        Refusal::Changed { .. } => "confirm-changes",
        Refusal::Stale { .. } => "question-stale",
        Refusal::NotEntitled { .. } => "not-entitled",
        Refusal::Canonical(_) => "not-canonical",
    }
}

fn carry(error: &CarryError) -> (ErrorKind, &'static str) {
    use ErrorKind::{Outside, Request};
    match error {
        CarryError::Ledger(LedgerError::Unavailable(error))
        | CarryError::Shelf(error)
        | CarryError::Lease(error) => unavailable(error),
        CarryError::Ledger(LedgerError::Damaged(_)) => (Outside, "ledger-damaged"),
        CarryError::Ledger(LedgerError::ThreadDamaged { .. }) => (Outside, "thread-damaged"),
        CarryError::Ledger(LedgerError::Unreadable(_)) => (Request, "not-recordable"),
        CarryError::Ledger(
            LedgerError::Moved { .. }
            | LedgerError::Illegal(_)
            | LedgerError::DispatchTaken(_)
            | LedgerError::KeyTaken { .. }
            | LedgerError::NotAllowed(_),
        ) => (Outside, "ledger-moved"),
        CarryError::Compute(ComputeError::ImageMissing(_) | ComputeError::ImageUnfit { .. }) => {
            (Outside, "image-missing")
        }
        CarryError::Compute(_) => (Outside, "compute-unreachable"),
        CarryError::Secret(error) => secret(error),
        CarryError::UnknownThread(_) => (Request, "unknown-id"),
        CarryError::NoPapers(_) => (Outside, "ledger-damaged"),
        CarryError::Unsigned(_) => (Request, "not-canonical"),
    }
}

#[cfg(feature = "docker")]
fn image(error: &BuildError) -> (ErrorKind, &'static str) {
    match error {
        BuildError::Name(_) => (ErrorKind::Request, "image-name"),
        BuildError::NoProgram(_) => (ErrorKind::Outside, "program-missing"),
        BuildError::Program { .. } => (ErrorKind::Outside, "program-unfit"),
        BuildError::Files(_) => (ErrorKind::Outside, "storage-failed"),
        BuildError::Daemon(_) => (ErrorKind::Outside, "compute-unreachable"),
    }
}

fn apply(error: &ApplyError) -> (ErrorKind, &'static str) {
    use ErrorKind::{Outside, Request};
    match error {
        ApplyError::Nothing | ApplyError::Running => (Request, "nothing-to-apply"),
        ApplyError::NoPlace | ApplyError::NoTree(_) | ApplyError::Gone(_) => (Request, "no-source"),
        ApplyError::NoRef | ApplyError::NoRepository | ApplyError::Apart => (Request, "no-ref"),
        ApplyError::Refused { .. } => (Request, "patch-refused"),
        ApplyError::OnSight { .. } => (Request, "apply-wants-yes"),
        ApplyError::Conflicts(_) | ApplyError::Dirty(_) => (Request, "apply-conflicts"),
        ApplyError::Branch(_) => (Request, "branch-refused"),
        ApplyError::Unreadable(..) => (Outside, "source-unreadable"),
        ApplyError::Interrupted => (Outside, "interrupted"),
        ApplyError::NoGit => (Outside, "no-git"),
        ApplyError::Git(_) | ApplyError::OldGit(_) => (Outside, "git-failed"),
    }
}

fn listed(names: &[String]) -> String {
    format!("`{}`", names.join("`, `"))
}

/// Says an error and its causes in a line, each once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let more = source.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = source.source();
    }
    text
}

fn secret(error: &SecretError) -> (ErrorKind, &'static str) {
    match error {
        SecretError::NotFound(_) => (ErrorKind::Outside, "secret-missing"),
        SecretError::Expired { .. } => (ErrorKind::Outside, "secret-expired"),
        SecretError::Sealed(_) => (ErrorKind::Outside, "secret-sealed"),
        SecretError::KeyExposed { .. } => (ErrorKind::Outside, "key-exposed"),
        SecretError::KeyDamaged { .. } => (ErrorKind::Outside, "key-damaged"),
        SecretError::Unavailable(error) => unavailable(error),
    }
}

fn resolve(error: &ResolveError) -> (ErrorKind, &'static str) {
    match error {
        ResolveError::UnknownName { .. } => (ErrorKind::Request, "unknown-name"),
        ResolveError::UnknownHash { .. } => (ErrorKind::Request, "unknown-hash"),
        ResolveError::Ambiguous { .. } => (ErrorKind::Request, "ambiguous-reference"),
        ResolveError::TooEarly { .. } => (ErrorKind::Request, "no-version-yet"),
        ResolveError::Registry(error) => registry(error),
    }
}

fn registry(error: &RegistryError) -> (ErrorKind, &'static str) {
    match error {
        RegistryError::Moved => (ErrorKind::Outside, "registry-moved"),
        RegistryError::Damaged { .. } => (ErrorKind::Outside, "registry-damaged"),
        RegistryError::Unavailable(error) => unavailable(error),
    }
}

fn store(error: &StoreError) -> (ErrorKind, &'static str) {
    match error {
        StoreError::NotFound(_) => (ErrorKind::Outside, "bundle-missing"),
        StoreError::Altered(_) => (ErrorKind::Outside, "bundle-altered"),
        StoreError::TooLarge { .. } => (ErrorKind::Outside, "bundle-too-large"),
        StoreError::Unavailable(error) => unavailable(error),
    }
}

fn unavailable(error: &Unavailable) -> (ErrorKind, &'static str) {
    match error.outage {
        Outage::Full => (ErrorKind::Outside, "storage-full"),
        Outage::ReadOnly => (ErrorKind::Outside, "storage-read-only"),
        Outage::Denied => (ErrorKind::Outside, "storage-denied"),
        Outage::Failed => (ErrorKind::Outside, "storage-failed"),
    }
}
