//! What goes on right now, for whoever watches: a small file that is written again and again.
//!
//! It is no event and no record. Nothing waits for it, nothing fails for it, and whoever reads it sees a whole one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use agora_core::time::{Clock, Timestamp};
use serde::Serialize;

use crate::redact::Redactor;

/// The file in the dispatch's `out` directory.
const FILE: &str = "progress.json";
/// What it is before it is whole.
const STAGED: &str = ".progress.json";
/// The least time between two writes: nobody reads faster.
const PAUSE: Duration = Duration::from_millis(100);
/// As much of an action as fits a line.
const ACTION_CHARACTERS: usize = 200;

/// The steps that take long enough to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Step {
    Setup,
    Agent,
    Verify,
}

/// How far an agent is, as its runtime says. `None`: it does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    /// What it does, whole: a secret that is cut would not be found.
    pub(crate) action: Option<String>,
    pub(crate) turns: Option<u64>,
    pub(crate) tokens: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    step: Step,
    action: Option<String>,
    turns: Option<u64>,
    tokens: Option<u64>,
    cost_usd: Option<f64>,
    at: Timestamp,
}

/// Where progress is shown.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    out: PathBuf,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
}

impl Board {
    pub(crate) fn new(out: PathBuf, redactor: Redactor, clock: Arc<dyn Clock>) -> Self {
        Self { out, redactor, clock }
    }

    /// Shows something. When that cannot be done, nobody sees it.
    pub(crate) fn show(&self, step: Step, progress: &Progress) {
        let shown = Shown {
            step,
            action: progress.action.as_deref().map(|action| line(&self.redactor.text(action))),
            turns: progress.turns,
            tokens: progress.tokens,
            cost_usd: progress.cost_usd,
            at: self.clock.now(),
        };
        let text = serde_json::to_vec(&shown).map_err(io::Error::other);
        let _ = text.and_then(|text| replace(&self.out, &text));
    }

    /// Shows an agent's progress while it runs: whenever the bell was rung, in a thread of its own, which asks how far it is.
    pub(crate) fn follow(self, ask: impl Fn() -> Option<Progress> + Send + 'static) -> io::Result<Follower> {
        let bell = Bell::default();
        let heard = bell.clone();
        let follow = move || {
            let mut shown = None;
            while heard.wait() {
                let progress = ask();
                if let Some(progress) = progress.filter(|progress| shown.as_ref() != Some(progress)) {
                    self.show(Step::Agent, &progress);
                    shown = Some(progress);
                }
                heard.pause();
            }
        };
        let thread = thread::Builder::new().name("progress".into()).spawn(follow)?;
        Ok(Follower { bell, thread: Some(thread) })
    }
}

/// Makes one short line of what may be anything.
fn line(text: &str) -> String {
    let first = text.trim_start().lines().next().unwrap_or_default().trim_end();
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut line: String = first.chars().take(ACTION_CHARACTERS).map(plain).collect();
    if first.chars().nth(ACTION_CHARACTERS).is_some() {
        line.push('…');
    }
    line
}

/// Puts the file in place of the last one. Whatever is in the way of it is not written to.
fn replace(out: &Path, text: &[u8]) -> io::Result<()> {
    let staged = out.join(STAGED);
    let make = || File::options().write(true).create_new(true).open(&staged);
    let made = make().or_else(|_| fs::remove_file(&staged).and_then(|()| make()));
    made.and_then(|mut file| file.write_all(text))?;
    fs::rename(&staged, out.join(FILE))
}

/// Tells a follower that there may be something new.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bell(Arc<(Mutex<Rung>, Condvar)>);

#[derive(Debug, Default)]
struct Rung {
    news: bool,
    over: bool,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut rung = self.rung();
        // Whoever is told already need not be woken again.
        if !rung.news {
            rung.news = true;
            self.0.1.notify_all();
        }
    }

    fn rung(&self) -> MutexGuard<'_, Rung> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for news, and tells whether there are any: what came last is news also when it is over.
    fn wait(&self) -> bool {
        let waited = self.0.1.wait_while(self.rung(), |rung| !rung.news && !rung.over);
        std::mem::take(&mut waited.unwrap_or_else(PoisonError::into_inner).news)
    }

    fn pause(&self) {
        drop(self.0.1.wait_timeout_while(self.rung(), PAUSE, |rung| !rung.over));
    }
}

/// Whoever shows an agent's progress.
#[derive(Debug)]
pub(crate) struct Follower {
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }
}

impl Drop for Follower {
    /// The last state is shown, whenever it came.
    fn drop(&mut self) {
        self.bell.rung().over = true;
        self.bell.ring();
        self.bell.0.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use agora_core::secret::{SecretValue, ShortSecrets};
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug)]
    struct Noon;

    impl Clock for Noon {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(1_763_208_000_000)
        }
    }

    fn board(out: &Path) -> Board {
        let secret = SecretValue::new("hunter2-hunter2\nand more".to_owned(), ShortSecrets::Refuse).unwrap();
        Board::new(out.to_owned(), Redactor::new([&secret]).unwrap(), Arc::new(Noon))
    }

    fn shown(out: &Path) -> Value {
        serde_json::from_slice(&fs::read(out.join(FILE)).unwrap()).unwrap()
    }

    fn doing(action: &str) -> Progress {
        Progress { action: Some(action.to_owned()), turns: Some(3), tokens: Some(1234), cost_usd: None }
    }

    #[test]
    fn it_is_one_short_line_without_secrets() {
        let dir = tempfile::tempdir().unwrap();
        board(dir.path()).show(Step::Setup, &Progress::default());
        assert_eq!(
            shown(dir.path()),
            json!({"step": "setup", "action": null, "turns": null, "tokens": null, "costUsd": null,
                "at": "2025-11-15T12:00:00.000Z"})
        );
        board(dir.path())
            .show(Step::Agent, &doing("\nBash: echo hunter2-hunter2\nand more\u{1b}[2J\nsecond"));
        assert_eq!(shown(dir.path())["action"], "Bash: echo <redacted:secret> [2J");
        board(dir.path()).show(Step::Agent, &doing(&"ä".repeat(1000)));
        assert_eq!(shown(dir.path())["action"], format!("{}…", "ä".repeat(200)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn what_is_in_its_way_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("elsewhere"), "kept").unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join(STAGED)).unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join(FILE)).unwrap();
        board(dir.path()).show(Step::Verify, &Progress::default());
        assert_eq!(shown(dir.path())["step"], "verify");
        assert_eq!(fs::read_to_string(dir.path().join("elsewhere")).unwrap(), "kept");
    }

    #[test]
    fn however_fast_it_goes_the_last_state_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let asked = Arc::new(Mutex::new((0, 0)));
        let counted = Arc::clone(&asked);
        let ask = move || {
            let mut asked = counted.lock().unwrap();
            asked.1 += 1;
            Some(doing(&asked.0.to_string()))
        };
        let follower = board(dir.path()).follow(ask).unwrap();
        for number in 1..=10_000 {
            asked.lock().unwrap().0 = number;
            follower.bell().ring();
        }
        drop(follower);
        assert_eq!(shown(dir.path())["action"], "10000");
        assert!(asked.lock().unwrap().1 < 1000, "it is not asked for each");
    }
}
