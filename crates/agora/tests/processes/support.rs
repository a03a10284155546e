//! A home with agents that are shell scripts, and everything that can be found out about it from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use agora_core::entry::Happening;
use agora_core::provider::ledger::{DispatchView, Filter, Ledger, ThreadView};
use agora_core::{DispatchId, ThreadId};
use agora_engine::SystemClock;
use agora_providers::Home;
use agora_providers::ledger::SqliteLedger;
use agora_testkit::cli::{Cli, Ran, files_below};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

/// What no wait comes near to, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(2);

/// A home of its own, and a directory that agents write to beside their workspaces.
pub(crate) struct Place {
    pub(crate) cli: Cli,
    pub(crate) ledger: SqliteLedger,
    marks: TempDir,
    runtime: tokio::runtime::Runtime,
}

/// A process that has to do with a place.
#[derive(Clone, Debug)]
pub(crate) struct Alive {
    pub(crate) id: i32,
    pub(crate) command: String,
}

impl Place {
    /// Makes a place where two run at once.
    pub(crate) fn new() -> Self {
        let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
        let place = Self {
            ledger: SqliteLedger::open(Home::new(cli.agora_home()), Arc::new(SystemClock)).unwrap(),
            cli,
            marks: tempfile::tempdir().unwrap(),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        };
        place.configure("[target.local]\nmax_concurrent = 2\n");
        place
    }

    /// Writes the user's `agora.toml`. Without a wall: these agents tell by files of the machine how far they are, and do to the
    /// dispatch's own directory what only an accident would.
    pub(crate) fn configure(&self, text: &str) {
        let text = text.replace("[target.local]\n", "[target.local]\nisolation = \"none\"\n");
        let dir = self.root().join("home/.config/agora");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("agora.toml"), text).unwrap();
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.cli.work().parent().unwrap().to_owned()
    }

    /// Returns a file that agents reach by an absolute path.
    pub(crate) fn mark(&self, name: &str) -> PathBuf {
        self.marks.path().join(name)
    }

    /// Registers an agent. Its first deed is to write its dispatch's id to `runs`.
    pub(crate) fn agent(&self, name: &str, script: &str) {
        let runs = self.mark("runs");
        let script = format!("d=${{PWD%/work}}; echo \"${{d##*/}}\" >> '{}'; {script}", runs.display());
        let register = ["subagent", "register", "--name", name, "--runtime", "command", "--"];
        self.cli.run(&[&register[..], &["/bin/sh", "-c", &script]].concat()).success();
    }

    /// Starts a command whose output is read when it ends.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.cli.command(arguments);
        command.env("A_SECRET", "a-value-that-nobody-may-find").env("NO_COLOR", "1");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a dispatch by an id of ours, to its end.
    pub(crate) fn dispatch(&self, agent: &str, id: &str, more: &[&str]) -> Ran {
        wait(self.start(&run(agent, id, more)))
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        self.cli.run(&["show", id, "--json"]).json()
    }

    /// Runs `agora ls` and returns the dispatches that are live.
    pub(crate) fn live(&self) -> Vec<Value> {
        let listed = self.cli.run(&["ls", "--live", "-n", "1000", "--json"]).json();
        listed.as_array().unwrap().clone()
    }

    /// Runs `agora ls` again and again until nothing is live any more.
    #[track_caller]
    pub(crate) fn come_to_rest(&self) {
        let mut live = Vec::new();
        until("everything is at rest", || {
            live = self.live();
            live.is_empty()
        });
        until("nobody of this home is alive", || self.alive().is_empty());
    }

    /// Returns the processes that name this place in their environment or their arguments.
    pub(crate) fn alive(&self) -> Vec<Alive> {
        let mark = self.root().to_str().unwrap().as_bytes().to_owned();
        let names = |path: &Path| {
            let bytes = fs::read(path).unwrap_or_default();
            bytes.windows(mark.len()).any(|window| window == mark)
        };
        let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            entry.ok()?.file_name().to_str()?.parse::<i32>().ok().filter(|id| *id != own_id())
        });
        let of_this = |id: &i32| {
            let dir = PathBuf::from(format!("/proc/{id}"));
            names(&dir.join("environ")) || names(&dir.join("cmdline"))
        };
        let named = |id: i32| {
            let arguments = fs::read(format!("/proc/{id}/cmdline")).ok()?;
            Some(Alive { id, command: String::from_utf8_lossy(&arguments).replace('\0', " ") })
        };
        ids.filter(of_this).filter_map(named).collect()
    }

    /// Returns the processes that carry threads which nobody waits for.
    ///
    /// A program that a carrier is just starting, such as a worker, has the carrier's arguments until it is loaded.
    pub(crate) fn carriers(&self) -> Vec<Alive> {
        let mut all = self.alive();
        all.retain(|process| process.command.contains(" carry "));
        let ids: Vec<i32> = all.iter().map(|process| process.id).collect();
        all.retain(|process| parent_of(process.id).is_some_and(|parent| !ids.contains(&parent)));
        all
    }

    pub(crate) fn dispatch_dir(&self, id: &str) -> PathBuf {
        self.cli.agora_home().join("dispatches").join(id)
    }

    /// Returns the worker's process.
    pub(crate) fn worker(&self, id: &str) -> i32 {
        let text = fs::read_to_string(self.dispatch_dir(id).join("in/worker.json")).unwrap();
        let identity: Value = serde_json::from_str(&text).unwrap();
        identity["pid"].as_i64().unwrap().try_into().unwrap()
    }

    pub(crate) fn recorded(&self, id: &str) -> Option<DispatchView> {
        let id: DispatchId = id.parse().unwrap();
        self.runtime.block_on(self.ledger.dispatch(&id)).unwrap()
    }

    /// Returns every dispatch with its thread.
    pub(crate) fn all(&self) -> Vec<(String, ThreadId)> {
        let filter = Filter { most: usize::MAX, ..Filter::default() };
        let rows = self.runtime.block_on(self.ledger.list(&filter)).unwrap();
        rows.into_iter().map(|row| (row.dispatch_id.to_string(), row.thread_id)).collect()
    }

    pub(crate) fn thread(&self, id: &ThreadId) -> ThreadView {
        self.runtime.block_on(self.ledger.thread(id)).unwrap().unwrap()
    }

    /// Returns what happened to a thread.
    pub(crate) fn story(&self, thread: &ThreadId) -> Vec<Happening> {
        let entries = self.runtime.block_on(self.ledger.read(thread, 0, 1000)).unwrap();
        entries.into_iter().map(|entry| entry.what).collect()
    }

    /// Returns the kinds of what happened to the thread of a dispatch.
    pub(crate) fn kinds(&self, id: &str) -> Vec<&'static str> {
        let thread = self.recorded(id).unwrap().job.thread_id;
        self.story(&thread).iter().map(Happening::kind).collect()
    }

    /// Returns the same, or nothing when the dispatch is not recorded yet.
    pub(crate) fn kinds_if(&self, id: &str) -> Vec<&'static str> {
        if self.recorded(id).is_some() { self.kinds(id) } else { Vec::new() }
    }

    /// Counts how often the agent of each dispatch ran.
    pub(crate) fn runs(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in fs::read_to_string(self.mark("runs")).unwrap_or_default().lines() {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Returns what is left that should not be, when everything is at rest.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let home = self.cli.agora_home();
        let mut left: Vec<String> = self.alive().iter().map(|process| format!("{process:?}")).collect();
        left.extend(files_below(&home.join("leases")).iter().map(|(path, _)| path.display().to_string()));
        for (path, _) in files_below(&home.join("secrets/+thread")) {
            let thread = path.parent().unwrap().file_name().unwrap().to_str().unwrap()[1..].to_owned();
            let open = thread.parse().is_ok_and(|thread| self.is_open(&thread));
            left.extend((!open).then(|| path.display().to_string()));
        }
        for dir in fs::read_dir(home.join("dispatches")).into_iter().flatten() {
            let dir = dir.unwrap().path();
            if self.recorded(dir.file_name().unwrap().to_str().unwrap()).is_none() {
                left.push(format!("{} is nobody's", dir.display()));
            }
            let passing = ["work", "home", "tmp", "aids"].map(|name| dir.join(name));
            left.extend(passing.iter().filter(|path| path.exists()).map(|path| path.display().to_string()));
        }
        left
    }

    fn is_open(&self, thread: &ThreadId) -> bool {
        let view = self.runtime.block_on(self.ledger.thread(thread)).unwrap();
        view.is_some_and(|view| !view.thread.has_ended())
    }
}

/// Returns the arguments that run an agent by an id of ours.
pub(crate) fn run<'a>(agent: &'a str, id: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["dispatch", "run", "--subagent", agent, "--dispatch-id", id, "--json"], more].concat()
}

pub(crate) fn wait(child: Child) -> Ran {
    Ran::from(child.wait_with_output().unwrap())
}

fn own_id() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

/// Returns whose child a process is, if it is still there.
fn parent_of(process: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Sends a signal to one process, which may be gone.
pub(crate) fn signal(process: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(process).unwrap(), signal);
}

pub(crate) fn id_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

/// Waits for a condition, for a bounded time.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    assert!(holds_within(PATIENCE, &mut condition), "waited in vain until {what}");
}

/// Tells whether a condition comes true within a time.
pub(crate) fn holds_within(time: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while !condition() {
        if since.elapsed() > time {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

/// Who won the races so far. Each has to, once at least: a race that one side always wins shows nothing of the others.
#[derive(Debug)]
pub(crate) struct Winners<const N: usize>([(&'static str, u32); N]);

impl<const N: usize> Winners<N> {
    pub(crate) fn of(all: [&'static str; N]) -> Self {
        Self(all.map(|name| (name, 0)))
    }

    #[track_caller]
    pub(crate) fn won(&mut self, name: &str) {
        let known = self.0.iter_mut().find(|(known, _)| *known == name);
        known.unwrap_or_else(|| panic!("`{name}` was not in the race")).1 += 1;
    }

    /// Returns one who has not won yet.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.0.iter().find(|(_, wins)| *wins == 0).map(|(name, _)| *name)
    }

    /// Returns who is to be let win, and how far ahead of the others it is to begin, once the races by chance are over. The lead
    /// grows with each race that it did not help: a slow machine takes more races, and comes to the same.
    pub(crate) fn lead(&self, race: u64, by_chance: u64) -> Option<(&'static str, Duration)> {
        let more = u32::try_from(race.checked_sub(by_chance)?).unwrap();
        assert!(more < 30, "no lead is enough: {self:?}");
        self.missing().map(|name| (name, Duration::from_millis(50) * 2_u32.pow(more.min(8))))
    }
}

/// Asserts that a cancel was told how the thread ended, whoever ended it.
#[track_caller]
pub(crate) fn told_how_it_ended(cancel: &Ran, shown: &Value) {
    let said: Value = serde_json::from_str(&cancel.stdout).unwrap();
    assert_eq!(cancel.code, Some(0), "{cancel:?}");
    assert_eq!(said["state"], shown["state"], "{cancel:?}");
    assert_eq!(said["cancelled"], shown["state"] == "cancelled", "{cancel:?}");
}

/// Chance from a seed: a failure prints the seed, and the seed says what was tried.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % end
    }

    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[usize::try_from(self.below(among.len() as u64)).unwrap()]
    }
}
