//! A run that a person sits at: the runtime's own interactive program, or a shell where it has none.
//!
//! What is typed and printed goes between the terminal and the program. Nothing of it is read or kept here: a person types secrets.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agora_core::provider::compute::Terminal;
use agora_core::reason::FailureCode;
use agora_core::wire::report::{SessionMark, Usage};
use rustix::fs::FileType;
use rustix::process::Signal;

use super::{End, Invocation, Job, Listener, RuntimeExit, Verdict};
use crate::child::{How, Input, SoftSignal, Why};
use crate::fault::Fault;
use crate::patch::root::Root;

/// How a shell says that it was hung up on.
const HUNG_UP: i32 = 128 + Signal::HUP.as_raw();

/// A directory with more than so many files is nobody's.
const MOST: usize = 100_000;

/// What the conversation is once the person has left it, and what it has used by then.
pub(super) type Afterwards = Box<dyn FnOnce() -> (Option<SessionMark>, Option<Usage>) + Send>;

/// What the code means that the program ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// How it went: 0 is well.
    Verdict,
    /// Nothing: a shell ends with that of the last command, whatever that was.
    OfTheLastCommand,
}

/// Hears nothing, and says how it ended.
pub(super) struct Attended {
    pub(super) program: &'static str,
    pub(super) code: Code,
    pub(super) afterwards: Afterwards,
    pub(super) warnings: Vec<String>,
}

impl Attended {
    /// Returns how an interactive program is run.
    pub(super) fn invoke(self, program: PathBuf, terminal: &Terminal) -> Invocation {
        Invocation {
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Input::Terminal(terminal.clone()),
            // Also what ends it when the terminal goes: a shell takes no other.
            soft: SoftSignal::HangUp,
            listener: Box::new(self),
            resumed: false,
        }
    }
}

impl Listener for Attended {
    fn line(&mut self, _: &[u8]) -> Option<Why> {
        None
    }

    fn conclude(self: Box<Self>, end: &End<'_>) -> RuntimeExit {
        let Self { program, code, afterwards, mut warnings } = *self;
        let killed = |signal: Signal| end.ended.how == How::Killed(signal.as_raw());
        let deaf = end.ended.stopped == Some(Why::Terminal) && killed(Signal::KILL);
        let gone = deaf || killed(Signal::HUP) || end.ended.how == How::Exited(HUNG_UP);
        let verdict = match end.ended.how {
            How::Exited(0) => Verdict::Success,
            _ if gone => {
                warnings.push("its terminal went away; what was done until then is kept".to_owned());
                Verdict::Success
            }
            How::Exited(_) if code == Code::OfTheLastCommand => Verdict::Success,
            How::Exited(_) | How::Killed(_) => {
                Verdict::failed(FailureCode::AgentExit, format!("{program} {}", end.how()))
            }
        };
        let (session, usage) = afterwards();
        RuntimeExit { session, usage, warnings, ..RuntimeExit::new(verdict, "") }
    }
}

/// Plans a shell in the workspace, behind the same wall, for a runtime that has no interactive program.
pub(super) fn shell(job: &Job<'_>, runtime: &str, terminal: &Terminal) -> Result<Invocation, Fault> {
    let session = job.session.cloned();
    let attended = Attended {
        program: "the shell",
        code: Code::OfTheLastCommand,
        // Nobody spoke to the runtime: its conversation is what it was.
        afterwards: Box::new(move || (session, None)),
        warnings: vec![format!("`{runtime}` has no interactive program: it was a shell in its workspace")],
    };
    let resumed = job.session.is_some();
    Ok(Invocation { resumed, ..attended.invoke(job.place.shell.clone(), terminal) })
}

/// Finds the file that was written last, among those of a form, at a depth below a directory of the agent's home: its name, and the file.
/// Nothing is followed, also not on the way down: the agent made all of it.
pub(super) fn newest(
    home: &Path,
    below: &Path,
    depth: usize,
    form: &dyn Fn(&str) -> bool,
) -> Option<(String, File)> {
    let root = Root::open(home).and_then(|home| home.enter(below.as_os_str().as_bytes())).ok()?;
    let (mut last, mut left) = (None, vec![(Vec::new(), depth)]);
    while let Some((dir, depth)) = left.pop() {
        for path in root.list(&dir, MOST).unwrap_or_default() {
            let Ok(stat) = root.stat(&path) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if depth > 0 && kind == FileType::Directory {
                left.push((path, depth - 1));
            } else if depth == 0 && kind == FileType::RegularFile {
                let name =
                    path.rsplit(|byte| *byte == b'/').next().and_then(|name| str::from_utf8(name).ok());
                if let Some(name) = name.filter(|name| form(name)) {
                    let written = (stat.st_mtime, stat.st_mtime_nsec);
                    last = last.max(Some((written, path.clone(), name.to_owned())));
                }
            }
        }
    }
    let (_, path, name) = last?;
    Some((name, root.file(&path).ok()?.0))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::child::Ended;

    fn ended(how: How, stopped: Option<Why>) -> RuntimeExit {
        ended_with(Code::Verdict, how, stopped)
    }

    fn ended_with(code: Code, how: How, stopped: Option<Why>) -> RuntimeExit {
        let attended =
            Attended { program: "claude", code, afterwards: Box::new(|| (None, None)), warnings: Vec::new() };
        let ended = Ended {
            how,
            stopped,
            out_of_memory: false,
            too_many_processes: false,
            duration: std::time::Duration::ZERO,
            leftovers: false,
        };
        Box::new(attended).conclude(&End { ended: &ended, stdout: "", stderr: "" })
    }

    #[test]
    fn leaving_is_no_failure_however_one_leaves() {
        for (how, stopped, warnings) in [
            (How::Exited(0), None, 0),
            // Its own end closes the terminal, too.
            (How::Exited(0), Some(Why::Terminal), 0),
            (How::Exited(HUNG_UP), None, 1),
            (How::Killed(1), None, 1),
            (How::Killed(9), Some(Why::Terminal), 1),
        ] {
            let exit = ended(how, stopped);
            assert!(matches!(exit.verdict, Verdict::Success), "{how:?}");
            assert_eq!(exit.warnings.len(), warnings, "{how:?}");
        }
    }

    #[test]
    fn a_program_that_failed_has_failed() {
        for (how, stopped) in
            [(How::Exited(3), None), (How::Exited(3), Some(Why::Terminal)), (How::Killed(9), None)]
        {
            assert!(matches!(ended(how, stopped).verdict, Verdict::Failed { .. }), "{how:?}");
        }
        let shell = |how| ended_with(Code::OfTheLastCommand, how, None).verdict;
        assert!(matches!(shell(How::Exited(3)), Verdict::Success), "a shell says what its last command said");
        assert!(matches!(shell(How::Killed(9)), Verdict::Failed { .. }));
    }

    #[test]
    fn the_newest_file_is_found_and_no_link_is() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, age: u64| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 - age)).unwrap();
        };
        write("a/old.jsonl", 9);
        write("b/new.jsonl", 5);
        write("b/newer.txt", 1);
        write("b/c/deeper.jsonl", 1);
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("b/link.jsonl")).unwrap();
        let form = |name: &str| name.ends_with(".jsonl");
        let found = |below: &str| {
            let (name, mut file) = newest(dir.path(), Path::new(below), 1, &form)?;
            let mut text = String::new();
            std::io::Read::read_to_string(&mut file, &mut text).unwrap();
            Some((name, text))
        };
        assert_eq!(found(""), Some(("new.jsonl".to_owned(), "b/new.jsonl".to_owned())));
        assert_eq!(found("nowhere"), None);
        // Whatever part of the way is a link, nothing is beyond it.
        let home = tempfile::tempdir_in(dir.path()).unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        for below in ["link", "link/a", "link/a/old.jsonl"] {
            assert!(newest(home.path(), Path::new(below), 0, &form).is_none(), "{below}");
        }
    }
}
