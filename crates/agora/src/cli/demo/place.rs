//! A place of the demo's own: a repository, and a home of agora's beside it. Gone when the demo is over.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use agora_engine::{Agora, Settings};
use tempfile::TempDir;

use super::script;
use crate::config::Config;
use crate::failure::Failure;

/// What the directories of demos are called.
const PREFIX: &str = "agora-demo-";
/// The file in each that is locked while somebody plays there.
const LOCK: &str = "lock";
/// The repository in each.
const REPOSITORY: &str = "shop";

/// Where everything of one demo is.
#[derive(Debug)]
pub(super) struct Place {
    dir: TempDir,
    /// Held as long as the demo is played: what nobody holds was left by one that was killed.
    _lock: File,
}

impl Place {
    /// Makes the repository.
    pub(super) fn make(config: &Config) -> Result<Self, Failure> {
        if !config.has_program("git") {
            return Err(Failure::outside("no-git", "git is not installed here, or not on PATH")
                .hint("`apt-get install git`, `dnf install git`, or https://git-scm.com")
                .hint("`agora doctor` shows what else is missing"));
        }
        let unmade = |error: io::Error| {
            Failure::outside("no-place", "the demo's directory cannot be made")
                .because(error)
                .hint("`TMPDIR=/some/dir agora demo` makes it elsewhere")
        };
        sweep();
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(unmade)?;
        // Locked before it has its name: another demo never finds it free.
        let unnamed = dir.path().join("lock.new");
        let lock = File::create(&unnamed).map_err(unmade)?;
        lock.lock().and_then(|()| fs::rename(&unnamed, dir.path().join(LOCK))).map_err(unmade)?;
        let place = Self { dir, _lock: lock };
        place.write().map_err(unmade)?;
        for words in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["config", "user.name", "You"],
            &["config", "user.email", "you@example.org"],
            &["config", "commit.gpgsign", "false"],
            &["add", "--all"],
            &["commit", "--quiet", "--message=Invoices and payments"],
        ] {
            place.git(words)?;
        }
        Ok(place)
    }

    fn write(&self) -> io::Result<()> {
        fs::create_dir_all(self.repository().join("dates"))?;
        for (path, text) in script::FILES {
            fs::write(self.repository().join(path), text)?;
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.dir.path().join(REPOSITORY)
    }

    /// Returns the home of agora's that the scripted agent is dispatched from.
    pub(super) fn home(&self) -> PathBuf {
        self.dir.path().join("agora")
    }

    /// Runs the host's git in the repository, with no settings but the repository's own.
    pub(super) fn git(&self, words: &[&str]) -> Result<String, Failure> {
        let failed = |why: String| {
            Failure::outside("git-failed", format!("`git {}` failed", words.join(" "))).because(why.trim())
        };
        let output = self.command("git", words).output().map_err(|error| failed(error.to_string()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }

    /// Runs the test of the repository as it was made: nothing of an agent's is in it.
    pub(super) fn test(&self) -> Result<String, Failure> {
        let Output { stdout, .. } = self.command("sh", &["./test"]).output().map_err(|error| {
            Failure::outside("no-shell", "the test of the repository cannot be run").because(error)
        })?;
        Ok(String::from_utf8_lossy(&stdout).trim().to_owned())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the demo runs git and a test of its own in a directory of its own"
    )]
    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(self.repository())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .stdin(Stdio::null());
        command
    }

    /// Leaves everything where it is, and returns where that is.
    pub(super) fn keep(self) -> PathBuf {
        // Without it nobody takes the directory for one that was left behind.
        let _ = fs::remove_file(self.dir.path().join(LOCK));
        self.dir.keep()
    }
}

/// Takes away what demos left behind that were killed. Only what is this user's, and what nobody plays in; a failure is not worth
/// a word.
fn sweep() {
    let own = rustix::process::getuid().as_raw();
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())) {
        let is_ours = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == own);
        let lock = is_ours.then(|| File::open(entry.path().join(LOCK)).ok()).flatten();
        if lock.is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Tells whether a repository was a demo's that was killed: its place is gone, or nobody holds its lock. What is kept has none.
pub(super) fn is_left_behind(repository: &Path) -> bool {
    let root = repository.parent().filter(|_| repository.ends_with(REPOSITORY));
    let named = |root: &&Path| {
        root.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    };
    root.filter(named).is_some_and(|root| match File::open(root.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => matches!(root.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound),
    })
}

/// Opens agora for the scripted agent: with a home of its own, and with no settings but those that everybody begins with.
pub(super) fn own_agora(config: &Config, home: &Path) -> Result<Agora, Failure> {
    let settings = Settings {
        environment: config.around.environment.clone(),
        git_environment: config.around.git_environment.clone(),
        ..Settings::with_worker(crate::config::program()?)
    };
    Ok(Agora::open(home).with_settings(settings))
}
