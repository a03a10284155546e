//! What all tests here need: a keeper, a shell, and a way to see that nobody lives.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use agora_worker::child::drain::{Capped, Nowhere};
use agora_worker::child::{
    Ended, GRACE, GuardProgram, How, Input, Keeper, Limits, Running, SoftSignal, Spec,
};
use agora_worker::sandbox::probe::Cgroup;

/// What no test should come near to, however slow the machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn keeper() -> Keeper {
    keeper_named("test")
}

/// The name is in those of its groups.
pub(crate) fn keeper_named(name: &str) -> Keeper {
    Keeper::new(guarded_by(env!("CARGO_BIN_EXE_agora-worker")), name)
}

/// Names a program whose `guard` command is a guard.
pub(crate) fn guarded_by(program: &str) -> GuardProgram {
    GuardProgram { program: program.into(), arguments: vec!["guard".into()] }
}

pub(crate) fn keeper_without_groups() -> Keeper {
    keeper().with_groups(Cgroup::No { why: "the test wants none".into() })
}

pub(crate) fn shell(script: &str) -> Spec {
    Spec {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        directory: "/".into(),
        environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        stdin: Input::Closed,
        limits: Limits::default(),
        soft: SoftSignal::Terminate,
        grace: GRACE,
    }
}

/// Runs a child to its end, and returns what it said on its standard output.
pub(crate) fn run(keeper: &Keeper, spec: Spec) -> (Ended, String) {
    let said = Arc::new(Mutex::new(Capped::new(64 * 1024)));
    let running = keeper.start(spec, Box::new(Arc::clone(&said)), Box::new(Nowhere)).unwrap();
    let ended = running.wait();
    let text = said.lock().unwrap().text();
    (ended, text)
}

/// Starts a child and waits until it has said that it is ready.
pub(crate) fn start_until_ready(keeper: &Keeper, spec: Spec) -> Running {
    let (ready, is_ready) = mpsc::channel();
    let say = move |line: &[u8]| {
        if line == b"ready" {
            let _ = ready.send(());
        }
    };
    let lines = agora_worker::child::drain::Lines::new(say);
    let running = keeper.start(spec, Box::new(lines), Box::new(Nowhere)).unwrap();
    is_ready.recv_timeout(LONG).unwrap();
    running
}

/// Checks everything about an end but how long it took.
#[track_caller]
pub(crate) fn assert_ended(ended: &Ended, how: How) {
    let expected = Ended {
        how,
        stopped: None,
        out_of_memory: false,
        too_many_processes: false,
        duration: ended.duration,
        leftovers: false,
    };
    assert_eq!(*ended, expected);
}

/// A named pipe whose end of file comes when the last program that held it open is dead.
pub(crate) struct Lifeline {
    dir: tempfile::TempDir,
    ended: Receiver<()>,
}

impl Lifeline {
    pub(crate) fn new() -> Self {
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

    /// A script that holds the line, and so does all that it starts.
    pub(crate) fn held_by(&self, script: &str) -> String {
        format!("exec 9>{}/pipe; {script}", self.dir.path().display())
    }

    /// The end of the file is there at once when all are dead; a thread only has to see it.
    #[track_caller]
    pub(crate) fn assert_nobody_lives(&self) {
        self.ended.recv_timeout(LONG).unwrap();
    }

    pub(crate) fn somebody_lives(&self) -> bool {
        self.ended.try_recv().is_err()
    }
}

/// Returns the control groups that a keeper of this name in a worker has made and not removed, wherever they are.
pub(crate) fn groups_of(worker: u32, name: &str) -> Vec<PathBuf> {
    let start = format!("agora-{name}-{worker}-");
    let mut found = Vec::new();
    let mut next = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = next.pop() {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name().to_string_lossy().starts_with(&start) {
                found.push(entry.path());
            }
            next.push(entry.path());
        }
    }
    found
}
