//! The short kind: a program that is asked one thing and must answer soon.
//!
//! It gets an empty environment, an own process group and a deadline, and nothing of that group is alive when the
//! call returns.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::family::Member;

/// How long a reader may still take once the whole group is dead. Only a grandchild that left the group and kept
/// the pipe open makes this run out; what was read by then is lost, and nobody waits for such a program.
const AFTER_DEATH: Duration = Duration::from_secs(1);

/// A program that is asked one thing. It sees only the variables given here.
#[derive(Clone, Debug)]
pub struct Brief {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// After this the whole process group is killed.
    pub deadline: Duration,
    /// How many bytes of each stream are kept. The rest is read and dropped, so that the program is not stuck.
    pub keep: usize,
}

/// What the program said before it ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Why a program was not heard out.
#[derive(Debug, thiserror::Error)]
pub enum HearError {
    #[error("could not start `{program}`")]
    Start { program: PathBuf, source: io::Error },
    #[error("`{program}` did not end within {} seconds and was killed", deadline.as_secs_f32())]
    TooLate { program: PathBuf, deadline: Duration },
    #[error("could not wait for `{program}`")]
    Wait { program: PathBuf, source: io::Error },
}

/// Runs the program to its end, or to its deadline, and returns what it said.
pub fn hear(brief: &Brief) -> Result<Heard, HearError> {
    let program = &brief.program;
    let mut child = start(brief).map_err(|source| HearError::Start { program: program.clone(), source })?;
    let heard = hear_out(&mut child, brief);
    if heard.is_err() {
        // An early return must not leave the group behind; after a normal end this has already happened.
        end_group(&child);
        let _ = child.wait();
    }
    heard
}

fn hear_out(child: &mut Child, brief: &Brief) -> Result<Heard, HearError> {
    let wait_error = |source| HearError::Wait { program: brief.program.clone(), source };
    let stdout = keep_reading(child.stdout.take(), brief.keep).map_err(wait_error)?;
    let stderr = keep_reading(child.stderr.take(), brief.keep).map_err(wait_error)?;
    let ended = watch(child).map_err(wait_error)?;

    if ended.recv_timeout(brief.deadline).is_err() {
        let (program, deadline) = (brief.program.clone(), brief.deadline);
        return Err(HearError::TooLate { program, deadline });
    }
    end_group(child);
    let status = child.wait().map_err(wait_error)?;
    Ok(Heard { status, stdout: read_so_far(&stdout), stderr: read_so_far(&stderr) })
}

#[expect(clippy::disallowed_methods, reason = "this module is the one place that starts a process")]
fn start(brief: &Brief) -> io::Result<Member> {
    let mut command = Command::new(&brief.program);
    command
        .args(&brief.arguments)
        .env_clear()
        .envs(brief.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(Path::new("/"))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Member::start(&mut command)
}

/// Tells when the child has ended, without reaping it: its id, and so its group's, stays taken until the group
/// was killed, and cannot meanwhile become somebody else's.
fn watch(child: &Child) -> io::Result<Receiver<()>> {
    let id = pid_of(child);
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("child-watch".into()).spawn(move || {
        let Some(id) = id else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(id), options), Err(Errno::INTR)) {}
        let _ = sender.send(());
    })?;
    Ok(receiver)
}

/// Reads a stream to its end on a thread of its own and hands over the first `keep` bytes.
fn keep_reading(stream: Option<impl Read + Send + 'static>, keep: usize) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("child-read".into()).spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stream) = stream {
            let limit = u64::try_from(keep).unwrap_or(u64::MAX);
            let _ = (&mut stream).take(limit).read_to_end(&mut kept);
            let _ = io::copy(&mut stream, &mut io::sink());
        }
        let _ = sender.send(kept);
    })?;
    Ok(receiver)
}

fn read_so_far(stream: &Receiver<Vec<u8>>) -> Vec<u8> {
    stream.recv_timeout(AFTER_DEATH).unwrap_or_default()
}

/// Kills whatever is left of the child's group: also what it started and did not wait for.
fn end_group(child: &Child) {
    if let Some(id) = pid_of(child) {
        let _ = kill_process_group(id, Signal::KILL);
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn shell(script: &str) -> Brief {
        Brief {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("GREETING".into(), "hello".into())],
            deadline: Duration::from_secs(20),
            keep: 4096,
        }
    }

    #[test]
    fn both_streams_and_the_code_arrive() {
        let heard = hear(&shell("echo $GREETING $HOME; echo oh >&2; exit 3")).unwrap();
        let expected =
            Heard { status: ExitStatus::from_raw(3 << 8), stdout: b"hello\n".into(), stderr: b"oh\n".into() };
        assert_eq!(heard, expected);
    }

    #[test]
    fn a_flood_is_cut_and_not_an_obstacle() {
        let heard = hear(&shell("head -c 1048576 /dev/zero | tr '\\0' x")).unwrap();
        assert_eq!((heard.stdout, heard.status.code()), (vec![b'x'; 4096], Some(0)));
    }

    /// A named pipe whose end of file comes when the last program that held it open is dead.
    #[cfg(target_os = "linux")]
    struct Lifeline {
        dir: tempfile::TempDir,
        ended: Receiver<()>,
    }

    #[cfg(target_os = "linux")]
    impl Lifeline {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let pipe = dir.path().join("pipe");
            rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
            let (sender, ended) = mpsc::channel();
            thread::spawn(move || {
                std::fs::read(pipe).unwrap();
                sender.send(()).unwrap();
            });
            Self { dir, ended }
        }

        fn held_by(&self, script: &str) -> Brief {
            shell(&format!("exec 3>{}/pipe; {script}", self.dir.path().display()))
        }

        fn assert_nobody_lives(&self) {
            self.ended.recv_timeout(Duration::from_secs(20)).unwrap();
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let lifeline = Lifeline::new();
        let hanging = lifeline.held_by("sleep 1000 & exec sleep 1000");
        let heard = hear(&Brief { deadline: Duration::from_secs(1), ..hanging });
        assert!(matches!(heard, Err(HearError::TooLate { .. })));
        lifeline.assert_nobody_lives();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_it_left_behind_is_killed_and_does_not_hold_us_up() {
        let lifeline = Lifeline::new();
        let heard = hear(&lifeline.held_by("sleep 1000 & echo done")).unwrap();
        assert_eq!(heard.stdout, b"done\n");
        lifeline.assert_nobody_lives();
    }

    #[test]
    fn a_missing_program_is_a_start_error() {
        let brief = Brief { program: "/nowhere/at/all".into(), ..shell("") };
        assert!(matches!(hear(&brief), Err(HearError::Start { .. })));
    }
}
