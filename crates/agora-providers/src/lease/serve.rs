//! Whether somebody carries threads permanently: a file that is locked while `agora serve` runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use agora_core::provider::Unavailable;

use crate::home::Home;
use crate::unlocked::uninterrupted;

/// What everybody looks at. Whoever looks has it for a moment, too.
const SEEN: &str = "serve.lock";
/// What those who want to serve decide it by. Nobody looks at it, so that it is taken only by one who serves.
const TURN: &str = "serve.turn";

/// Held by whoever carries threads permanently.
#[derive(Debug)]
pub struct Serving {
    _locked: [File; 2],
}

impl Serving {
    /// Takes the place of the permanent carrier. `None`: somebody has it.
    pub fn take(home: &Home) -> Result<Option<Self>, Unavailable> {
        home.prepare()?;
        let failed = |name| move |error| home.unavailable("lock", &home.root().join(name), error);
        let turn = open(home, TURN, Make::IfMissing).map_err(failed(TURN))?;
        match turn.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(TURN)(error)),
        }
        // Only somebody who looks can have it, and they do not keep it.
        let seen = open(home, SEEN, Make::IfMissing).map_err(failed(SEEN))?;
        uninterrupted(|| seen.lock()).map_err(failed(SEEN))?;
        Ok(Some(Self { _locked: [seen, turn] }))
    }

    /// Tells whether somebody has it.
    pub fn is_taken(home: &Home) -> bool {
        open(home, SEEN, Make::Never)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

/// Whether a file that is not there is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Make {
    IfMissing,
    Never,
}

fn open(home: &Home, name: &str, make: Make) -> io::Result<File> {
    let create = make == Make::IfMissing;
    let mut options = OpenOptions::new();
    options.read(true).write(create).create(create).mode(0o600);
    options.open(home.root().join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_serves_at_a_time_and_everybody_can_see_whether() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        assert!(!Serving::is_taken(&home), "there is not even a home");
        let serving = Serving::take(&home).unwrap().expect("nobody serves");
        assert!(Serving::is_taken(&home));
        assert!(Serving::take(&home).unwrap().is_none());
        drop(serving);
        assert!(!Serving::is_taken(&home));
    }

    #[test]
    fn whoever_looks_all_the_time_keeps_nobody_from_serving() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        drop(Serving::take(&home).unwrap());
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    Serving::is_taken(&home);
                }
            });
            for _ in 0..200 {
                assert!(Serving::take(&home).unwrap().is_some());
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
