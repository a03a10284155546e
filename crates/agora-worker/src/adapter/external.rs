//! Adapters in any language: a program that reads an invocation as JSON on standard input, and answers with what its
//! runtime reported as JSON on standard output. `docs/adapters.md` is its contract.
//!
//! ```text
//!  find (program) ──▶ put down, unchanged ──▶ invocation ──▶ the adapter ──▶ answer (answer, by its fields)
//! ```

mod answer;
mod fields;
mod program;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agora_core::Name;
use serde_json::{Value, json};

use super::{Invocation, Job};
use crate::child::{Input, SoftSignal};
use crate::fault::{Fault, workspace};
use crate::steps::fetch::FetchedCapability;
use answer::Hearing;
use program::Program;

/// Where an adapter of this kind may keep its conversation, below the agent's home.
pub(crate) const SESSION_DIR: &str = ".agora-session";

/// Where a capability brings adapters.
const IN_CAPABILITY: &str = "agora-adapters";

/// The version of what is said to an adapter, and of what it may answer.
const SCHEMA: u32 = 1;

/// Hears an output that no program printed.
#[cfg(any(test, fuzzing))]
pub(super) fn listener(name: Name) -> Box<dyn super::Listener> {
    Box::new(Hearing::alone(name))
}

/// An adapter that is a program.
#[derive(Clone, Debug)]
pub(crate) struct External {
    name: Name,
    found: Found,
}

#[derive(Clone, Debug)]
enum Found {
    /// Nobody installed it, in the directory where that is done: a capability may bring it.
    NotInstalled(Option<PathBuf>),
    /// These bytes run, whatever becomes of the file that they were read from.
    Program(Program),
}

impl External {
    /// Looks for an adapter that was installed. One that comes with a capability is found once those are there.
    pub(crate) fn load(name: &str, dir: Option<&Path>) -> Result<Self, Fault> {
        let missing = |why: String| Fault::NoAdapter { runtime: name.to_owned(), why };
        let parsed: Name =
            name.parse().map_err(|error: agora_core::name::NameParseError| missing(error.to_string()))?;
        let installed = dir.map(|dir| program::installed(dir, &parsed)).transpose();
        let found = match installed.map_err(|unfit| missing(unfit.to_string()))?.flatten() {
            Some(program) => Found::Program(program),
            None => Found::NotInstalled(dir.map(Path::to_owned)),
        };
        Ok(Self { name: parsed, found })
    }

    /// Takes the program from the capabilities, if it was not installed: whoever owns the machine comes first. The last
    /// capability that has one wins.
    pub(crate) fn complete(self, capabilities: &[FetchedCapability]) -> Result<Self, Fault> {
        let Found::NotInstalled(dir) = &self.found else { return Ok(self) };
        let missing = |why: String| Fault::NoAdapter { runtime: self.name.to_string(), why };
        let path = format!("{IN_CAPABILITY}/{}", self.name);
        for capability in capabilities.iter().rev() {
            if let Some(bytes) = capability.file(&path).map_err(workspace("reading the adapter"))? {
                let packed = program::packed(&path, &capability.name, bytes);
                let found = Found::Program(packed.map_err(|unfit| missing(unfit.to_string()))?);
                return Ok(Self { name: self.name, found });
            }
        }
        let installed = match dir {
            Some(dir) => format!("`{}` has none of that name", dir.display()),
            None => "this worker has no directory of installed ones".to_owned(),
        };
        let built_in = "built in are `claude-code`, `codex` and `command`";
        Err(missing(format!("{built_in}; {installed}; and no capability of the dispatch brings `{path}`")))
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(super) fn plan(&self, job: &Job<'_>) -> Result<Invocation, Fault> {
        let program = match &self.found {
            Found::Program(program) => self.put_down(program, job)?,
            Found::NotInstalled(_) => {
                let why = "the capabilities were not looked through".to_owned();
                return Err(Fault::NoAdapter { runtime: self.name.to_string(), why });
            }
        };
        let sessions = job.place.home().join(SESSION_DIR);
        make_directory(&sessions)
            .and_then(|()| job.place.give(&sessions))
            .map_err(workspace("making the session's directory"))?;
        Ok(Invocation {
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Input::Bytes(invocation(job)?.to_string().into_bytes()),
            soft: SoftSignal::Terminate,
            listener: Box::new(Hearing::new(&self.name, job)),
            resumed: job.session.is_some(),
        })
    }

    /// Writes the program where it can be run. Not where a setup script put something: that is taken away, and not
    /// written through.
    fn put_down(&self, program: &Program, job: &Job<'_>) -> Result<PathBuf, Fault> {
        let name = format!("adapter-{}", self.name);
        let path = job.place.aids().join(&name);
        let write = || -> io::Result<()> {
            make_directory(&job.place.aids())?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file = File::options().write(true).create_new(true).open(&path)?;
            file.write_all(program.bytes())?;
            file.set_permissions(fs::Permissions::from_mode(0o555))?;
            job.place.give(&job.place.aids())
        };
        write().map_err(workspace("writing the adapter"))?;
        Ok(job.place.inside().aids.join(name))
    }
}

/// Makes a directory of something that may be there already. A link is not a directory, wherever it leads.
fn make_directory(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => return Ok(()),
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::create_dir(path)
}

fn invocation(job: &Job<'_>) -> Result<Value, Fault> {
    let inside = job.place.inside();
    let (task, manifest) = (job.task, &job.task.manifest);
    let answered = task.occasion.answered().map(|answered| answered.file(&manifest.thread_id));
    Ok(json!({
        "schema": SCHEMA,
        "dispatchId": manifest.dispatch_id,
        "threadId": manifest.thread_id,
        "workspace": text(&inside.work)?,
        "home": text(&inside.home)?,
        "sessionDir": text(&inside.home.join(SESSION_DIR))?,
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
    }))
}

/// JSON has no word for a path that is not UTF-8.
fn text(path: &Path) -> Result<&str, Fault> {
    let unsayable = || io::Error::other(format!("the path `{}` is not UTF-8", path.display()));
    path.to_str().ok_or_else(unsayable).map_err(workspace("telling the adapter where to work"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_that_json_cannot_say_is_a_fault_and_no_panic() {
        assert!(text(Path::new("/dispatch/ä")).is_ok());
        let fault = text(Path::new(OsStr::from_bytes(b"/dispatch/\xff"))).unwrap_err();
        assert!(fault.to_string().contains("is not UTF-8"), "{fault}");
    }

    #[test]
    fn a_link_at_the_sessions_place_becomes_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let (elsewhere, place) = (root.path().join("elsewhere"), root.path().join("session"));
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &place).unwrap();
        make_directory(&place).unwrap();
        assert!(fs::symlink_metadata(&place).unwrap().is_dir() && elsewhere.is_dir());
        fs::write(place.join("kept"), "").unwrap();
        make_directory(&place).unwrap();
        assert!(place.join("kept").exists(), "what was put back stays");
    }
}
