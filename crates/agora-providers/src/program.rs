//! A short program of the user's, heard out: words in, words out, and nothing of it left when nobody listens any more.

mod mark;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::aside::aside;
use crate::words;
use mark::Mark;

pub use mark::VARIABLE as MARK;

/// As much as an answer may have, and one byte more that tells that it is too much.
const SAID_BYTES: u64 = (1 << 20) + 1;

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

/// A program that runs: its process group, until it has ended, and the mark of everything that it started.
#[derive(Clone)]
struct Running {
    leader: Arc<Mutex<Option<Pid>>>,
    mark: Mark,
}

impl Running {
    /// Ends it with everything that it started, unless it has ended.
    fn end(&self) {
        // Still there, or gone and not waited for yet: its number is nobody else's.
        if let Some(leader) = *self.leader() {
            let _ = kill_process_group(leader, Signal::KILL);
            self.mark.kill_all();
        }
    }

    /// Waits for the end, ends what is left of its group, and only then lets its number go.
    fn end_of(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let leader = *self.leader();
        if let Some(leader) = leader {
            // Looked at, not taken: while it is not, the number of the group cannot be anybody else's.
            while let Err(rustix::io::Errno::INTR) =
                waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            {}
            let _ = kill_process_group(leader, Signal::KILL);
        }
        *self.leader() = None;
        child.wait()
    }

    fn leader(&self) -> MutexGuard<'_, Option<Pid>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a program when nobody listens to it any more.
struct Listening(Running);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Runs a program with this on its standard input, and hears it out. Whoever drops this before it is done kills it with everything
/// that it started, also in sessions of their own.
pub async fn run(program: &Program, input: &str) -> Ran {
    let (name, arguments) = match program.argv.split_first() {
        Some((name, arguments)) => (name.clone(), arguments),
        None => return Ran::NotStarted("there is no command".to_owned()),
    };
    let started = Mark::draw().and_then(|mark| Ok((start(&name, arguments, program, &mark)?, mark)));
    let (child, mark) = match started {
        Ok(started) => started,
        Err(error) => return Ran::NotStarted(format!("`{name}` was not started: {error}")),
    };
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let running = Running { leader: Arc::new(Mutex::new(leader)), mark };
    let listening = Listening(running.clone());
    let (input, named) = (input.to_owned(), name.clone());
    let ran = aside("route-command", move || hear(&named, child, &input, &running)).await;
    drop(listening);
    match ran {
        Ok(ran) => ran,
        Err(error) => Ran::Failed(format!("`{name}` was not heard out: {error}")),
    }
}

#[expect(clippy::disallowed_methods, reason = "a route names a program of the user's")]
fn start(name: &str, arguments: &[String], program: &Program, mark: &Mark) -> io::Result<Child> {
    let mut command = Command::new(name);
    command.args(arguments).envs(program.variables.iter().cloned()).env(MARK, mark.value()).process_group(0);
    if let Some(dir) = &program.dir {
        command.current_dir(dir);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn hear(name: &str, mut child: Child, input: &str, running: &Running) -> Ran {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = input.to_owned();
    // Aside: one that does not listen must not keep us from hearing that it ended.
    thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
    let complaints = thread::spawn(move || stderr.map(words::beginning));
    let said = stdout.map_or(Ok(Vec::new()), |stdout| read(stdout, SAID_BYTES));
    if matches!(&said, Ok(said) if said.len() as u64 == SAID_BYTES) {
        running.end();
        let _ = running.end_of(&mut child);
        return Ran::Failed(format!("`{name}` printed more than 1 MiB"));
    }
    let ended = running.end_of(&mut child);
    let why = match (ended, said) {
        // What it left in sessions of their own it meant to leave.
        (Ok(status), Ok(said)) if status.success() => return Ran::Said(said),
        (Ok(status), Ok(_)) => format!("`{name}` ended with {status}"),
        (Err(error), _) | (_, Err(error)) => format!("`{name}`: {error}"),
    };
    // Nobody is left then who could say more.
    running.mark.kill_all();
    let words = complaints.join().ok().flatten().unwrap_or_default();
    match String::from_utf8_lossy(&words).trim() {
        "" => Ran::Failed(why),
        words => Ran::Failed(format!("{why}: {words}")),
    }
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
        // One that complains at length, and answers all the same, is heard.
        let loud = run(
            &shell("i=0; while [ $i -lt 3000 ]; do echo a word of complaint >&2; i=$((i+1)); done; printf x"),
            "",
        )
        .await;
        assert_eq!(loud, Ran::Said(b"x".to_vec()));
        let loud = run(&shell("head -c 200000 /dev/zero | tr '\\0' c >&2; exit 3"), "").await;
        assert!(
            matches!(&loud, Ran::Failed(why) if why.contains("status: 3: ccc") && why.len() < 5000),
            "{loud:?}"
        );
        // One that does not read is not waited for.
        assert_eq!(run(&shell("printf x"), &"long ".repeat(1 << 20)).await, Ran::Said(b"x".to_vec()));
    }

    /// Runs a script that opens a pipe by `3>"$1"` in what it starts, and returns how it ended with the reader of that pipe, once
    /// somebody has it open.
    async fn with_pipe(script: &'static str) -> (tokio::task::JoinHandle<Ran>, std::fs::File) {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("alive");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let argv = ["/bin/sh", "-c", script, "sh", fifo.to_str().unwrap()].map(str::to_owned).to_vec();
        let running = tokio::spawn(async move { run(&Program { argv, ..shell("") }, "").await });
        let opened = tokio::task::spawn_blocking(move || std::fs::File::open(fifo)).await;
        (running, opened.unwrap().unwrap())
    }

    /// Returns when the last of those who have a pipe open is gone.
    async fn closed(mut reader: std::fs::File) {
        let ended = tokio::task::spawn_blocking(move || reader.read_to_end(&mut Vec::new())).await.unwrap();
        assert_eq!(ended.unwrap(), 0);
    }

    #[tokio::test]
    async fn nothing_of_it_is_left_when_nobody_listens_any_more() {
        for script in [
            "sleep 1000 3>\"$1\" & sleep 1000",
            // In a session of its own, and one whose parent is gone as well.
            "setsid sleep 1000 3>\"$1\" & sleep 1000",
            "(setsid sleep 1000 3>\"$1\" &); sleep 1000",
        ] {
            let (running, reader) = with_pipe(script).await;
            running.abort();
            closed(reader).await;
        }
    }

    #[tokio::test]
    async fn what_it_leaves_in_a_session_of_its_own_is_ended_with_its_failure_and_keeps_no_answer_back() {
        let (running, reader) = with_pipe("setsid sleep 1000 3>\"$1\" >/dev/null & exit 3").await;
        assert!(matches!(running.await.unwrap(), Ran::Failed(_)));
        closed(reader).await;
        // It still has the complaints' pipe open, and the answer is there.
        let said = run(&shell("setsid sleep 1000 >/dev/null & echo $!"), "").await;
        let Ran::Said(id) = said else { panic!("{said:?}") };
        let id: i32 = String::from_utf8(id).unwrap().trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
    }
}
