//! A user with a repository, an agent, and a home that can be moved.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use agora_testkit::cli::{Cli, Ran, command, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::Instant;

/// What no wait comes near to, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct User {
    cli: Cli,
    home: PathBuf,
}

impl User {
    pub(crate) fn new(cli: Cli) -> Self {
        let home = cli.agora_home();
        let user = Self { cli, home };
        for (key, value) in
            [("user.name", "Ann"), ("user.email", "ann@example.org"), ("init.defaultBranch", "main")]
        {
            user.git(&user.work(), &["config", "--global", key, value]);
        }
        user
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.cli.work()
    }

    fn root(&self) -> PathBuf {
        self.cli.work().parent().unwrap().to_owned()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.cli.command(words);
        command.env("AGORA_HOME", &self.home).env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    pub(crate) fn agora(&self, words: &[&str]) -> Ran {
        run(&mut self.command(words))
    }

    #[track_caller]
    pub(crate) fn git(&self, dir: &Path, words: &[&str]) -> String {
        let mut git = command("git");
        git.args(words)
            .env("HOME", self.root().join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(dir);
        run(&mut git).success()
    }

    /// Makes a repository with one commit.
    pub(crate) fn repository(&self, name: &str) -> PathBuf {
        let dir = self.work().join(name);
        self.git(&self.work(), &["init", "--quiet", name]);
        fs::write(dir.join("a.txt"), "one\n").unwrap();
        self.git(&dir, &["add", "-A"]);
        self.git(&dir, &["commit", "--quiet", "-m", "first"]);
        dir
    }

    /// Writes the user's `agora.toml`.
    pub(crate) fn settings(&self, text: &str) {
        self.cli.settings(text);
    }

    /// Registers a subagent by its definition.
    pub(crate) fn subagent(&self, name: &str, definition: &Value) {
        let file = self.root().join(format!("{name}.yaml"));
        fs::write(&file, definition.to_string()).unwrap();
        self.agora(&["subagent", "register", "--name", name, "--from", file.to_str().unwrap()]).success();
    }

    /// Returns what a dispatch's worker was given to do.
    pub(crate) fn manifest(&self, dispatch: &Value) -> Value {
        let dir = self.home.join("dispatches").join(dispatch.as_str().unwrap());
        serde_json::from_slice(&fs::read(dir.join("in/manifest.json")).unwrap()).unwrap()
    }

    /// Moves everything that agora keeps to another directory. Nobody of the old one is alive.
    pub(crate) fn move_home(&mut self) {
        until("nobody of this home is alive", || self.alive().is_empty());
        let to = self.root().join("elsewhere").join("moved");
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(&self.home, &to).unwrap();
        self.home = to;
    }

    /// Returns the processes that name this place in their environment or their arguments, with what they are.
    pub(crate) fn alive(&self) -> Vec<(i32, String)> {
        let mark = self.root().to_str().unwrap().as_bytes().to_owned();
        let own = i32::try_from(std::process::id()).unwrap();
        let text = |id: i32, name: &str| fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
        let ids = fs::read_dir("/proc").unwrap();
        let ids = ids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let of_this = |id: &i32| {
            let names = |bytes: Vec<u8>| bytes.windows(mark.len()).any(|window| window == mark);
            *id != own && (names(text(*id, "environ")) || names(text(*id, "cmdline")))
        };
        let named = |id| (id, String::from_utf8_lossy(&text(id, "cmdline")).replace('\0', " "));
        ids.filter(of_this).map(named).collect()
    }

    /// Kills whoever carries a thread, as a crash would, and returns how many there were.
    pub(crate) fn kill_engines(&self) -> usize {
        let carriers: Vec<_> =
            self.alive().into_iter().filter(|(_, what)| what.contains(" carry ")).collect();
        for (id, _) in &carriers {
            let _ = kill_process(Pid::from_raw(*id).unwrap(), Signal::KILL);
        }
        carriers.len()
    }

    /// Waits until a question is open that is not the one before, and returns it as the inbox shows it.
    #[track_caller]
    pub(crate) fn next_question(&self, before: Option<&str>) -> Value {
        let mut found = None;
        until("a question is open", || {
            let open = self.agora(&["inbox", "--json"]).json();
            found =
                open.as_array().unwrap().iter().find(|asked| asked["questionId"].as_str() != before).cloned();
            found.is_some()
        });
        found.unwrap()
    }
}

/// Waits for a condition, for a bounded time.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(PAUSE);
    }
}
