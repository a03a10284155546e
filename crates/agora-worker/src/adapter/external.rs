//! Adapters in any language: a program that reads an invocation as JSON on standard input, and answers with what its
//! runtime reported as JSON on standard output. `docs/adapters.md` is its contract.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agora_core::reason::FailureCode;
use agora_core::time::Timestamp;
use agora_core::wire::report::{SessionMark, Usage};
use agora_core::{Name, sentinel};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{End, Invocation, Job, Listener, RuntimeExit, Verdict};
use crate::child::{Input, SoftSignal, Why};
use crate::fault::{Fault, workspace};
use crate::needs_input::Unreadable;
use crate::steps::fetch::FetchedCapability;

/// Where an adapter of this kind may keep its conversation, below the agent's home.
pub(crate) const SESSION_DIR: &str = ".agora-session";

/// Where a capability brings adapters.
const IN_CAPABILITY: &str = "agora-adapters";

/// The version of what is said to an adapter.
const SCHEMA: u32 = 1;

/// An adapter that is a program.
#[derive(Clone, Debug)]
pub(crate) struct External {
    name: Name,
    /// Once it is found.
    program: Option<Program>,
}

#[derive(Clone, Debug)]
enum Program {
    /// Somebody put it into `$AGORA_HOME/adapters`.
    Installed(PathBuf),
    /// A capability brings it: these bytes, checked.
    Packed(Arc<Vec<u8>>),
}

impl External {
    /// Looks for an adapter that was installed. One that comes with a capability is found once those are there.
    pub(crate) fn load(name: &str, dir: Option<&Path>) -> Result<Self, Fault> {
        let missing = |why: String| Fault::NoAdapter { runtime: name.to_owned(), why };
        let parsed: Name =
            name.parse().map_err(|error: agora_core::name::NameParseError| missing(error.to_string()))?;
        let Some(dir) = dir else { return Ok(Self { name: parsed, program: None }) };
        let path = dir.join(parsed.as_str());
        match fs::symlink_metadata(&path) {
            Ok(_) => {
                check_owner(dir).and_then(|()| check_owner(&path)).map_err(missing)?;
                Ok(Self { name: parsed, program: Some(Program::Installed(path)) })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self { name: parsed, program: None })
            }
            Err(error) => Err(missing(format!("`{}` cannot be looked at: {error}", path.display()))),
        }
    }

    /// Takes the program from the capabilities, if it was not installed. The last capability that has one wins.
    pub(crate) fn complete(self, capabilities: &[FetchedCapability]) -> Result<Self, Fault> {
        if self.program.is_some() {
            return Ok(self);
        }
        let path = format!("{IN_CAPABILITY}/{}", self.name);
        for capability in capabilities.iter().rev() {
            if let Some(bytes) = capability.file(&path).map_err(workspace("reading the adapter"))? {
                return Ok(Self { program: Some(Program::Packed(Arc::new(bytes))), ..self });
            }
        }
        let why = format!("no capability brings `{path}`, and none is installed under that name");
        Err(Fault::NoAdapter { runtime: self.name.to_string(), why })
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(super) fn plan(&self, job: &Job<'_>) -> Result<Invocation, Fault> {
        let program = match &self.program {
            Some(Program::Installed(path)) => path.clone(),
            Some(Program::Packed(bytes)) => self.put_down(job, bytes)?,
            None => {
                return Err(Fault::NoAdapter {
                    runtime: self.name.to_string(),
                    why: "it was not found".into(),
                });
            }
        };
        let sessions = job.place.home().join(SESSION_DIR);
        fs::create_dir_all(&sessions).map_err(workspace("making the session's directory"))?;
        Ok(Invocation {
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Input::Bytes(invocation(job, &sessions).to_string().into_bytes()),
            soft: SoftSignal::Terminate,
            listener: Box::new(Answer { name: self.name.clone(), lines: Vec::new() }),
            resumed: job.session.is_some(),
        })
    }

    /// Writes the program where it can be run, and where a setup script could not have changed it.
    fn put_down(&self, job: &Job<'_>, bytes: &[u8]) -> Result<PathBuf, Fault> {
        let path = job.place.aids().join(format!("adapter-{}", self.name));
        let write = || -> std::io::Result<()> {
            fs::write(&path, bytes)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o555))
        };
        write().map_err(workspace("writing the adapter"))?;
        Ok(path)
    }
}

/// Refuses what somebody else could have put there.
fn check_owner(path: &Path) -> Result<(), String> {
    let data = fs::symlink_metadata(path).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let own = rustix::process::geteuid().as_raw();
    let wrong = if data.is_symlink() {
        Some("is a symbolic link")
    } else if data.uid() != own && data.uid() != 0 {
        Some("belongs to somebody else")
    } else if data.mode() & 0o022 != 0 {
        Some("can be written by others")
    } else if data.is_file() && data.mode() & 0o100 == 0 {
        Some("is not executable")
    } else {
        None
    };
    wrong.map_or(Ok(()), |wrong| Err(format!("`{}` {wrong}", path.display())))
}

fn invocation(job: &Job<'_>, sessions: &Path) -> Value {
    let (task, manifest) = (job.task, &job.task.manifest);
    let answered = task.occasion.answered().map(|answered| answered.file(&manifest.thread_id));
    json!({
        "schema": SCHEMA,
        "dispatchId": manifest.dispatch_id,
        "threadId": manifest.thread_id,
        "workspace": job.place.work(),
        "home": job.place.home(),
        "sessionDir": sessions,
        "prompt": job.prompt,
        "followUp": job.follow_up,
        "systemPrompt": task.subagent.system_prompt,
        "teaching": job.teaching,
        "model": task.model().map(String::from),
        "input": manifest.input.0,
        "partialState": manifest.partial_state.0,
        "resume": answered,
        "session": job.session.map(|session| &session.id),
        "outputSchema": task.subagent.output_schema,
        "budget": {"turns": job.left.turns, "tokens": job.left.tokens, "usd": job.left.usd},
        "timeoutSeconds": manifest.limits.timeout_seconds,
    })
}

/// What an adapter answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Said {
    success: bool,
    #[serde(default)]
    text: String,
    #[serde(default)]
    structured: Option<Value>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    failure: Option<SaidFailure>,
    /// In the sentinel's shape.
    #[serde(default)]
    question: Option<Map<String, Value>>,
    /// The conversation's id, to go on with later.
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    runtime_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SaidFailure {
    #[serde(default)]
    code: Option<FailureCode>,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    retry_at: Option<Timestamp>,
}

/// Keeps the last line that is a JSON object: what the adapter prints before it is talk.
struct Answer {
    name: Name,
    lines: Vec<u8>,
}

impl Listener for Answer {
    fn line(&mut self, line: &[u8]) -> Option<Why> {
        if line.trim_ascii_start().starts_with(b"{") {
            self.lines = line.to_vec();
        }
        None
    }

    fn conclude(self: Box<Self>, end: &End<'_>) -> RuntimeExit {
        let said: Said = match serde_json::from_slice(&self.lines) {
            Ok(said) => said,
            Err(error) => {
                let how = end.story(&format!("the adapter `{}`", self.name));
                let place = format!("line {}, column {}", error.line(), error.column());
                let detail = format!("{how}, without an answer that could be read ({place})");
                return RuntimeExit::new(Verdict::failed(FailureCode::AgentExit, detail), "");
            }
        };
        let verdict = match (said.success, said.failure) {
            (true, None) => Verdict::Success,
            (_, Some(failure)) => Verdict::Failed {
                code: failure.code.filter(is_the_agents).unwrap_or(FailureCode::AgentExit),
                detail: failure.detail,
                retry_at: failure.retry_at,
            },
            (false, None) => {
                let detail = format!("the adapter `{}` reported a failure and not why", self.name);
                Verdict::failed(FailureCode::AgentExit, detail)
            }
        };
        let asked = said.question.map(|fields| sentinel::from_fields(fields).map_err(Unreadable::Output));
        let mark = |id| SessionMark {
            runtime: self.name.to_string(),
            version: said.runtime_version.clone(),
            id,
            total: Usage::default(),
            deferred: None,
        };
        RuntimeExit {
            structured: said.structured,
            usage: said.usage,
            session: said.session.map(mark),
            asked,
            runtime_version: said.runtime_version.clone(),
            ..RuntimeExit::new(verdict, said.text)
        }
    }
}

/// An adapter speaks for its agent, not for storage or the worker.
fn is_the_agents(code: &FailureCode) -> bool {
    code.reason() == Some(agora_core::reason::FailureReason::ProviderFailed)
}
