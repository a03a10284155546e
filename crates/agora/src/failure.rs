//! From an error to what a person reads: what failed, why, and what to do next. The one place that knows both.

use std::error::Error as _;

use agora_core::answer::AnswerError;
use agora_core::catalogue::ResolveError;
use agora_core::login::Vendor;
use agora_core::provider::Outage;
use agora_core::provider::compute::ComputeError;
use agora_core::provider::ground::GroundError;
use agora_core::provider::ledger::LedgerError;
use agora_core::provider::secret::SecretError;
use agora_core::secret::SecretValueError;
use agora_core::{Name, ThreadId};
#[cfg(feature = "docker")]
use agora_engine::BuildError;
use agora_engine::{
    AcceptError, ApplyError, CarryError, Error, ErrorKind, NotEntitled, Refusal, SecretSourceError, TreeFault,
};

use crate::answer_line;
use crate::exit::Exit;
use crate::plain::plain;

/// The last dispatch of all, which is not there only where nothing ever ran.
const LAST: &str = "@";

/// How many options a hint names.
const NAMED: usize = 20;

/// Why the command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A stable word that a program can branch on.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hints: Vec<String>,
}

impl Failure {
    /// The request was wrong.
    pub(crate) fn wrong(code: &'static str, message: impl Into<String>) -> Self {
        Self { exit: Exit::Wrong, code, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// Something outside is missing.
    pub(crate) fn outside(code: &'static str, message: impl Into<String>) -> Self {
        Self { exit: Exit::Outside, ..Self::wrong(code, message) }
    }

    /// Says what failed and why in one line.
    pub(crate) fn in_a_line(&self) -> String {
        std::iter::once(&self.message).chain(&self.causes).map(String::as_str).collect::<Vec<_>>().join(": ")
    }

    /// Somebody at the terminal stopped it.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { exit: Exit::Interrupted, ..Self::wrong("interrupted", message) }
    }

    /// A bug of ours.
    pub(crate) fn bug(message: impl Into<String>) -> Self {
        Self { exit: Exit::Bug, ..Self::wrong("bug", message) }
    }

    pub(crate) fn because(mut self, cause: impl ToString) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Error::SecretSource { source: SecretSourceError::Prompt(cause), variable } = &error
            && cause.kind() == std::io::ErrorKind::Interrupted
        {
            return Self::interrupted(format!("the secret for `{variable}` was not given"));
        }
        let exit = match error.kind() {
            _ if matches!(error, Error::Apply { why: ApplyError::Interrupted, .. }) => Exit::Interrupted,
            ErrorKind::Request => Exit::Wrong,
            ErrorKind::Outside => Exit::Outside,
        };
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // A transparent error says what its source says.
            if causes.last() != Some(&text) {
                causes.push(text);
            }
            source = cause.source();
        }
        let message = match &error {
            Error::UnknownId { text, .. } if text == LAST => "nothing has run yet".to_owned(),
            _ => error.to_string(),
        };
        Self { exit, code: error.code(), message, causes, hints: hints(&error) }
    }
}

/// What to do next, where something can be done.
fn hints(error: &Error) -> Vec<String> {
    let hint = |text: &str| vec![text.to_owned()];
    match error {
        Error::Entry { source, .. } => {
            let mut hints = hints(source);
            hints.push("nothing was registered; mend the entry and run it again".to_owned());
            hints
        }
        Error::Credential { hit, .. } => vec![
            "a bundle can never be taken back: put the value in a secret, `agora env register --name NAME --secret KEY=env:KEY`"
                .to_owned(),
            format!("if it is no credential: `--allow-credential-pattern {}`", hit.pattern),
        ],
        Error::File { fault: TreeFault::Path(_), .. } => {
            hint("register a directory that holds only what the agent should get")
        }
        Error::File { .. } => hint("a capability has only files and directories; take it out and register again"),
        Error::Tree { .. } => hint("split it into several capabilities, or register a smaller directory"),
        Error::Resolve(error) => resolve_hints(error),
        Error::OtherName { written, .. } => vec![format!("register it with `--name {written}`, or leave `--name` out")],
        Error::SecretSource { source, variable } => secret_source_hints(variable, source),
        Error::SecretValue { source: SecretValueError::TooShort(_), .. } => {
            hint("so short a value cannot be hidden in what an agent prints; `agora env register --allow-short-secret` takes it all the same")
        }
        Error::Secret(SecretError::KeyExposed { file, .. }) => {
            vec![format!("`chmod 600 {file}`, and rotate what it protects if others use this machine")]
        }
        Error::Secret(SecretError::Sealed(_) | SecretError::KeyDamaged { .. }) => {
            hint("restore `keys/secrets.key` from a backup, or register the secrets again")
        }
        Error::Secret(why @ (SecretError::NotFound(_) | SecretError::Expired { .. })) => vec![missing_secret(why)],
        Error::NoLogin { vendor } => no_login_hints(vendor),
        Error::NotALogin { vendor, .. } => {
            let sets = vendor.logins.iter().filter(|login| login.stands_alone);
            let sets: Vec<_> = sets.map(|login| format!("`{}`", login.variables.join("` with `"))).collect();
            vec![format!("it is one of {}; more than that goes into an env bundle", sets.join(", "))]
        }
        Error::NoProject { .. } => hint("name the project with `agora trust DIR`; your own settings need no trust"),
        Error::Ground(GroundError::Refused { hint, .. } | GroundError::Git { hint, .. }) => {
            hint.iter().cloned().collect()
        }
        Error::Apply { thread, why } => apply_hints(thread, why),
        Error::NoHome => hint("set `AGORA_HOME` to a directory of your own"),
        Error::Render(_) => hint("give it in the input, or make it optional in the template: `{{#name}}…{{/name}}`"),
        Error::Circle { .. } => hint("let one of them stop extending the other"),
        Error::NothingToSync { .. } => hint("run it in a project that has them, or name one with `--from DIR`"),
        Error::ChangedMeanwhile { .. } => hint("run it again when nothing writes there"),
        Error::Answer(refusal) => answer_hints(refusal),
        Error::ServedAlready => hint("one is enough; it turns the timers of everything in this home"),
        Error::NothingAsked(_) => hint("`agora inbox` shows what is open"),
        Error::Request { .. }
        | Error::UnknownTarget { .. }
        | Error::UnknownId { .. }
        | Error::AmbiguousId { .. }
        | Error::Accept(_) => request_hints(error),
        #[cfg(feature = "docker")]
        Error::Image(error) => image_hints(error),
        Error::Carry(CarryError::Compute(error)) => compute_hints(error),
        Error::Carry(CarryError::Ledger(LedgerError::ThreadDamaged { thread_id, .. })) => vec![format!(
            "`agora cancel {thread_id}` gives it up, and keeps what is left of its record; other threads are not affected"
        )],
        _ => storage_hints(error.code()),
    }
}

/// What to do about a place where no worker can be started.
fn compute_hints(error: &ComputeError) -> Vec<String> {
    let hint = match error {
        ComputeError::ImageMissing(image) => {
            format!("`agora image build --name {image} --with claude` makes it from this machine's programs")
        }
        ComputeError::ImageUnfit { image, .. } => {
            format!("`agora image build --name {image} --with claude` makes it anew, with this agora")
        }
        ComputeError::Unreachable(error) | ComputeError::NotStarted(error) if error.outage == Outage::Denied => {
            "let this user speak to the daemon (its group is usually `docker`), or use Podman without root".to_owned()
        }
        ComputeError::Unreachable(_) => {
            "`agora doctor` shows which daemons answer; what was accepted is not lost, and `agora ls` looks after it"
                .to_owned()
        }
        ComputeError::NotStarted(_) | ComputeError::StartedAlready | ComputeError::NoTerminal => {
            "`agora doctor` looks at this machine".to_owned()
        }
    };
    vec![hint]
}

#[cfg(feature = "docker")]
fn image_hints(error: &BuildError) -> Vec<String> {
    let hint = match error {
        BuildError::Name(_) => {
            "a name has small letters, digits and `.`, `_`, `-`, `/`: `agora/worker`, `team/claude:1`"
        }
        BuildError::NoProgram(_) => "install it, or leave it out of `--with`",
        BuildError::Program { .. } => {
            "only programs that stand alone can be put in; install its native build"
        }
        BuildError::Files(_) => "run it again when nothing changes the programs",
        BuildError::Daemon(_) => "`agora doctor` shows which daemons answer",
    };
    vec![hint.to_owned()]
}

/// What to do about a request that was not accepted, or an id that means nothing.
fn request_hints(error: &Error) -> Vec<String> {
    let hint = match error {
        Error::Request { field: "input", .. } => {
            "`agora explain SUBAGENT` shows what its input must have".to_owned()
        }
        Error::UnknownTarget { name, known } => {
            format!("there is {}; `[target.{name}]` in `agora.toml` makes another", names(known))
        }
        Error::UnknownId { near, .. } if !near.is_empty() => format!("did you mean {}?", names(near)),
        Error::UnknownId { text, .. } if text == LAST => {
            "`agora run 'TASK'` runs an agent; `agora demo` shows one, without an account".to_owned()
        }
        Error::UnknownId { .. } => "`agora ls` shows what there is".to_owned(),
        Error::AmbiguousId { matches, .. } => {
            let list: Vec<String> = matches.iter().map(|id| format!("`{id}`")).collect();
            format!("give more of it: {}", list.join(", "))
        }
        Error::Accept(AcceptError::NotNow { thread, .. }) if error.code() == "question-open" => {
            format!(
                "`agora show {thread}` shows it, and how to answer it; `agora cancel {thread}` gives it up"
            )
        }
        Error::Accept(AcceptError::NotNow { thread, .. }) => {
            format!("`agora logs -f {thread}` follows what runs, `agora cancel {thread}` ends it")
        }
        Error::Accept(AcceptError::Held(thread)) => format!(
            "it may wait to go on by itself: `agora cancel {thread}` ends that; then `agora takeover {thread}` again"
        ),
        Error::Accept(AcceptError::NoTerminal(_)) => {
            "`agora continue ID 'MESSAGE'` goes on there, without a terminal".to_owned()
        }
        Error::Accept(AcceptError::NotEntitled { thread, .. }) => {
            format!(
                "`agora route test {thread}` says who may; when it is answered, the thread can be taken over"
            )
        }
        Error::Accept(AcceptError::KeyReused(id)) => {
            format!("`agora show {id}` tells what became of that one; another request wants another key")
        }
        Error::Accept(AcceptError::DispatchTaken(id)) => {
            format!("`agora show {id}` tells what became of it; another dispatch wants another id")
        }
        _ => return storage_hints(error.code()),
    };
    vec![hint]
}

/// What to do about work that was not applied.
fn apply_hints(id: &ThreadId, error: &ApplyError) -> Vec<String> {
    let hint = match error {
        ApplyError::Nothing => format!("`agora show {id}` tells what it did"),
        ApplyError::Running => format!("`agora logs -f {id}` follows it; then `agora apply {id}` again"),
        ApplyError::NoPlace | ApplyError::NoRef => {
            format!("`agora apply {id} --patch` prints it; `git apply` takes that anywhere")
        }
        ApplyError::NoTree(_) => format!("`agora apply {id} --branch NAME` makes a branch of it there"),
        ApplyError::Gone(_) => {
            format!("put it back, or take it elsewhere: `agora apply {id} --patch | git apply`")
        }
        ApplyError::NoRepository => format!("`agora apply {id}` brings it into the files"),
        ApplyError::Apart => format!("`agora apply {id}` brings it into the files; commit it there with git"),
        ApplyError::Refused { .. } => {
            format!("nothing was changed; `agora apply {id} --patch` shows what it holds")
        }
        ApplyError::OnSight { .. } => {
            return vec![
                format!("nothing was changed; look at them with `agora apply {id} --patch`"),
                "the same command with `--yes` takes them all the same".to_owned(),
            ];
        }
        ApplyError::Conflicts(_) => {
            return vec![
                format!(
                    "nothing was changed; `agora apply {id} --branch NAME` makes a branch, which git merges with conflict marks"
                ),
                "or put your own changes aside with `git stash`, apply, and `git stash pop`".to_owned(),
            ];
        }
        ApplyError::Dirty(_) => format!(
            "nothing was changed; commit or `git stash` that first, or bring it into the files alone: `agora apply {id}`"
        ),
        ApplyError::Branch(_) => "choose another name: `--branch NAME`".to_owned(),
        ApplyError::NoGit => format!("install git, or take the patch elsewhere: `agora apply {id} --patch`"),
        ApplyError::OldGit(_) => format!(
            "nothing was changed; `agora apply {id} --branch NAME` makes a branch, which any git merges"
        ),
        ApplyError::Unreadable(path, _) => {
            format!(
                "nothing was changed; let this user read it, as with `chmod u+r {}`",
                answer_line::quoted(path)
            )
        }
        ApplyError::Interrupted => format!("nothing was changed; `agora apply {id}` again brings it"),
        ApplyError::Git(_) => format!("nothing was changed; `agora apply {id} --patch` prints it"),
    };
    vec![hint]
}

/// What to do about an answer that did not count.
fn answer_hints(refusal: &Refusal) -> Vec<String> {
    match refusal {
        Refusal::Unfit { question_id, question, why: AnswerError::Several(_) } => {
            vec![format!("`{}` answers all of them", answer_line::line(question_id, question.items()))]
        }
        Refusal::Unfit { question, why: AnswerError::NotAccepted(id), .. } => {
            let asked = question.items().iter().find(|item| item.id() == id);
            let options = asked.map(|item| item.options()).unwrap_or_default();
            let mut labels: Vec<String> = (1..)
                .zip(options)
                .take(NAMED)
                .map(|(number, choice)| format!("{number} `{}`", plain(&choice.label)))
                .collect();
            let more = options.len().saturating_sub(NAMED);
            labels.extend((more > 0).then(|| format!("and {more} more")));
            if labels.is_empty() { Vec::new() } else { vec![format!("one of these: {}", labels.join(", "))] }
        }
        Refusal::AnsweredBefore { question_id, .. } | Refusal::Closed { question_id, .. } => {
            vec![format!("`agora thread show {question_id}` tells how it went on")]
        }
        Refusal::Unknown(_) => vec!["`agora inbox` shows what is open".to_owned()],
        Refusal::CannotStart { question_id, why } => vec![
            format!("{}; nothing was recorded", missing_secret(why)),
            format!("the question stays open: then answer it again; `agora show {question_id}` shows how"),
        ],
        Refusal::NotEntitled { why: NotEntitled::HumansOnly, question_id, .. } => {
            vec![format!("a person answers it at a terminal: `agora show {question_id}` shows how")]
        }
        Refusal::NotEntitled { may_answer, .. } if !may_answer.is_empty() => {
            let who: Vec<String> = may_answer.iter().map(|party| format!("`{party}`")).collect();
            vec![format!("those who may: {}", who.join(", "))]
        }
        Refusal::NotEntitled { .. } => vec!["any person may, by `agora answer`".to_owned()],
        Refusal::Changed { question_id, stale } => {
            let confirm = format!(
                "the same answer with `--despite-changes` counts all the same; `agora show {question_id}` shows the question"
            );
            stale.iter().map(|difference| plain(&difference.text())).chain([confirm]).collect()
        }
        Refusal::Stale { question_id, stale } => {
            let over = format!("its thread has failed; `agora thread show {question_id}` tells how it went");
            stale.iter().map(|difference| plain(&difference.text())).chain([over]).collect()
        }
        Refusal::NotOpen(_) | Refusal::Unfit { .. } | Refusal::Canonical(_) => Vec::new(),
    }
}

/// Says what brings a secret back that is gone, by whose it is.
fn missing_secret(why: &SecretError) -> String {
    let name = match why {
        SecretError::NotFound(name) | SecretError::Expired { name, .. } => name.as_str(),
        _ => "",
    };
    let vendor = Vendor::ALL.into_iter().find(|vendor| name.starts_with(&vendor.folder()));
    match vendor {
        Some(vendor) => format!("`agora auth {}` stores another", vendor.name),
        None if name.starts_with("thread/") => {
            "it was given for this thread alone, and went with it: dispatch again with it".to_owned()
        }
        None => "store it again: `agora env register --name ENV … --secret KEY=env:KEY`".to_owned(),
    }
}

fn no_login_hints(vendor: &Vendor) -> Vec<String> {
    let usual = vendor.logins.iter().flat_map(|login| login.variables).next().copied().unwrap_or_default();
    vec![
        format!("`agora auth {}` stores one for every dispatch", vendor.name),
        format!("or for this one alone: `--secret {usual}=env:{usual}`"),
    ]
}

fn resolve_hints(error: &ResolveError) -> Vec<String> {
    match error {
        ResolveError::UnknownName { kind, near, .. } if near.is_empty() => {
            vec![format!("`agora {kind} list` shows what there is")]
        }
        ResolveError::UnknownName { near, .. } => vec![format!("did you mean {}?", names(near))],
        ResolveError::UnknownHash { kind, name, .. } | ResolveError::TooEarly { kind, name, .. } => {
            vec![format!("`agora {kind} versions {name}` shows what there is")]
        }
        ResolveError::Ambiguous { name, matches, .. } => {
            let list: Vec<String> = matches.iter().take(5).map(|hash| format!("`{name}@{hash}`")).collect();
            vec![format!("give more digits: {}", list.join(", "))]
        }
        ResolveError::Registry(_) => storage_hints("registry-damaged"),
    }
}

fn secret_source_hints(variable: &str, error: &SecretSourceError) -> Vec<String> {
    match error {
        SecretSourceError::NoVariable(name) => {
            vec![format!("`export {name}=…` first, or use `{variable}=file:PATH`")]
        }
        SecretSourceError::Prompt(_) => {
            vec![format!("use `{variable}=env:NAME`, `{variable}=file:PATH` or `{variable}=stdin`")]
        }
        SecretSourceError::UnknownForm => {
            vec![format!("to store the value of a variable: `--secret {variable}=env:{variable}`")]
        }
        _ => Vec::new(),
    }
}

fn storage_hints(code: &str) -> Vec<String> {
    let hint = match code {
        "storage-full" => "make room on the disk and run it again; nothing was changed",
        "storage-read-only" => "set `AGORA_HOME` to a directory that can be written",
        "storage-denied" => "set `AGORA_HOME` to a directory of your own, or mend its permissions",
        "registry-damaged" => "restore the file from a backup; other names are not affected",
        "bundle-altered" | "bundle-missing" | "bundle-malformed" => {
            "register the same content again: that mends the store"
        }
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}

fn names(names: &[Name]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
