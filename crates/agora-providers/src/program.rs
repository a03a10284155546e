//! A short program of the user's, heard out: words in, words out, and nothing of it left when nobody listens any more.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::aside::aside;

/// As much as an answer may have, and one byte more that tells that it is too much.
const SAID_BYTES: u64 = (1 << 20) + 1;
/// What of its complaints is told.
const WORDS_BYTES: u64 = 4096;

/// Finds a program on a path of directories: a file that can be run, in a directory that is named from the root. What lies around in
/// the current directory is nobody's choice.
pub fn on_path(path: &OsStr, name: &str) -> Option<PathBuf> {
    let runs = |file: &PathBuf| file.is_absolute() && file.is_file() && access(file, Access::EXEC_OK).is_ok();
    std::env::split_paths(path).map(|dir| dir.join(name)).find(runs)
}

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Program {
    pub argv: Vec<String>,
    pub dir: Option<String>,
    /// Beside what this process has.
    pub variables: Vec<(OsString, OsString)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It ended well, and printed this.
    Said(Vec<u8>),
    /// It ran, and it did not end well, or said too much.
    Failed(String),
    /// It could not be started.
    NotStarted(String),
}

/// The process group of a program that runs. Dropped, it is ended.
struct Group(Arc<Mutex<Option<Pid>>>);

impl Drop for Group {
    fn drop(&mut self) {
        // Still there, or gone and not waited for yet: its number is nobody else's.
        if let Some(leader) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Runs a program with this on its standard input, and hears it out. Whoever drops this before it is done kills it with all of its
/// process group.
pub async fn run(program: &Program, input: &str) -> Ran {
    let (name, arguments) = match program.argv.split_first() {
        Some((name, arguments)) => (name.clone(), arguments),
        None => return Ran::NotStarted("there is no command".to_owned()),
    };
    let child = match start(&name, arguments, program) {
        Ok(child) => child,
        Err(error) => return Ran::NotStarted(format!("`{name}` was not started: {error}")),
    };
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let group = Group(Arc::new(Mutex::new(leader)));
    let (alive, input, named) = (Arc::clone(&group.0), input.to_owned(), name.clone());
    let ran = aside("route-command", move || hear(&named, child, &input, &alive)).await;
    // What it started and left behind goes with it.
    drop(group);
    match ran {
        Ok(ran) => ran,
        Err(error) => Ran::Failed(format!("`{name}` was not heard out: {error}")),
    }
}

#[expect(clippy::disallowed_methods, reason = "a route names a program of the user's")]
fn start(name: &str, arguments: &[String], program: &Program) -> io::Result<Child> {
    let mut command = Command::new(name);
    command.args(arguments).envs(program.variables.iter().cloned()).process_group(0);
    if let Some(dir) = &program.dir {
        command.current_dir(dir);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn hear(name: &str, mut child: Child, input: &str, alive: &Mutex<Option<Pid>>) -> Ran {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = input.to_owned();
    // Aside: one that does not listen must not keep us from hearing that it ended.
    let writer = thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
    let complaints = thread::spawn(move || stderr.map(|stderr| read(stderr, WORDS_BYTES)));
    let said = stdout.map_or(Ok(Vec::new()), |stdout| read(stdout, SAID_BYTES));
    let said = match said {
        Ok(said) if said.len() as u64 == SAID_BYTES => {
            end(&mut child, alive);
            return Ran::Failed(format!("`{name}` printed more than 1 MiB"));
        }
        said => said,
    };
    let ended = end_of(&mut child, alive);
    drop(writer.join());
    let words = complaints.join().ok().flatten().and_then(Result::ok).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    match (ended, said) {
        (Ok(status), Ok(said)) if status.success() => Ran::Said(said),
        (Ok(status), Ok(_)) if words.is_empty() => Ran::Failed(format!("`{name}` ended with {status}")),
        (Ok(status), Ok(_)) => Ran::Failed(format!("`{name}` ended with {status}: {words}")),
        (Err(error), _) | (_, Err(error)) => Ran::Failed(format!("`{name}`: {error}")),
    }
}

/// Waits for the end, ends what the program left running, and only then lets its number go.
fn end_of(child: &mut Child, alive: &Mutex<Option<Pid>>) -> io::Result<ExitStatus> {
    if let Some(leader) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Looked at, not taken: while it is not, the number of the group cannot be anybody else's.
        while let Err(rustix::io::Errno::INTR) =
            waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        let _ = kill_process_group(leader, Signal::KILL);
    }
    *alive.lock().unwrap_or_else(PoisonError::into_inner) = None;
    child.wait()
}

fn end(child: &mut Child, alive: &Mutex<Option<Pid>>) {
    if let Some(leader) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(leader, Signal::KILL);
    }
    let _ = end_of(child, alive);
}

fn read(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_one_that_runs_and_was_chosen() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for (name, mode) in [("plain", 0o644), ("real", 0o755)] {
            let file = dir.path().join(name).join("git");
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path =
            std::env::join_paths(["bin".into(), dir.path().join("plain"), dir.path().join("real")]).unwrap();
        assert_eq!(on_path(&path, "git"), Some(dir.path().join("real/git")));
        assert_eq!(on_path(OsStr::new("."), "Cargo.toml"), None);
    }

    fn shell(script: &str) -> Program {
        let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        Program { argv, dir: None, variables: Vec::new() }
    }

    #[tokio::test]
    async fn what_a_program_prints_is_what_it_says() {
        assert_eq!(run(&shell("cat; printf more"), "words, ").await, Ran::Said(b"words, more".to_vec()));
        let failed = run(&shell("echo not here >&2; exit 3"), "").await;
        assert!(matches!(&failed, Ran::Failed(why) if why.contains("not here")), "{failed:?}");
        let missing = Program { argv: vec!["/no/such/program".to_owned()], ..shell("") };
        assert!(matches!(run(&missing, "").await, Ran::NotStarted(_)));
        let much = run(&shell("yes"), "").await;
        assert!(matches!(&much, Ran::Failed(why) if why.contains("1 MiB")), "{much:?}");
        // One that does not read is not waited for.
        assert_eq!(run(&shell("printf x"), &"long ".repeat(1 << 20)).await, Ran::Said(b"x".to_vec()));
    }

    #[tokio::test]
    async fn nothing_of_it_is_left_when_nobody_listens_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("alive");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        // A grandchild has the pipe open for as long as it lives.
        let script = format!("sleep 1000 3>'{}' & sleep 1000", fifo.display());
        let running = tokio::spawn(async move { run(&shell(&script), "").await });
        let mut reader =
            tokio::task::spawn_blocking(move || std::fs::File::open(fifo)).await.unwrap().unwrap();
        running.abort();
        let ended = tokio::task::spawn_blocking(move || reader.read_to_end(&mut Vec::new())).await.unwrap();
        assert_eq!(ended.unwrap(), 0, "the pipe closes when the last of them is gone");
    }
}
