//! Whether somebody carries threads permanently: a file that is locked while `agora serve` runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use agora_core::provider::Unavailable;

use crate::home::Home;

const FILE: &str = "serve.lock";
/// Whoever only looks has the lock for a moment.
const LOOKS: u32 = 20;

/// Held by whoever carries threads permanently.
#[derive(Debug)]
pub struct Serving {
    _locked: File,
}

impl Serving {
    /// Takes the place of the permanent carrier. `None`: somebody has it.
    pub async fn take(home: &Home) -> Result<Option<Self>, Unavailable> {
        home.prepare()?;
        let file = open(home, true).map_err(|error| failed(home, error))?;
        for _ in 0..LOOKS {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { _locked: file })),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(TryLockError::Error(error)) => return Err(failed(home, error)),
            }
        }
        Ok(None)
    }

    /// Tells whether somebody has it.
    pub fn is_taken(home: &Home) -> bool {
        open(home, false).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

fn open(home: &Home, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(create).create(create).mode(0o600);
    options.open(home.root().join(FILE))
}

fn failed(home: &Home, error: io::Error) -> Unavailable {
    home.unavailable("lock", &home.root().join(FILE), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_serves_at_a_time_and_everybody_can_see_whether() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        assert!(!Serving::is_taken(&home), "there is not even a home");
        let serving = Serving::take(&home).await.unwrap().expect("nobody serves");
        assert!(Serving::is_taken(&home));
        assert!(Serving::take(&home).await.unwrap().is_none());
        drop(serving);
        assert!(!Serving::is_taken(&home));
    }
}
