//! Waiting for a lock that somebody else has: another process, which may die with it.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::watch;

/// Enough for a thread that waits for one system call.
const STACK: usize = 128 * 1024;

/// The locks that somebody waits for: a thread for each, however many wait and however often they ask.
#[derive(Clone, Debug)]
pub(crate) struct Unlocked<K> {
    /// What the threads are called, for whoever looks at the process.
    name: &'static str,
    watched: Arc<Mutex<HashMap<K, watch::Receiver<bool>>>>,
}

impl<K: Clone + Eq + Hash + Send + 'static> Unlocked<K> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, watched: Arc::default() }
    }

    /// Returns when whoever has the file locked for writing does not any more. `None`: there is no such file, and nobody has.
    pub(crate) async fn wait(
        &self,
        key: &K,
        open: impl FnOnce() -> io::Result<Option<File>>,
    ) -> io::Result<()> {
        let Some(mut unlocked) = self.watch(key, open)? else { return Ok(()) };
        // A thread that died without a word has told nobody anything.
        unlocked.wait_for(|unlocked| *unlocked).await.map(drop).map_err(io::Error::other)
    }

    fn watch(
        &self,
        key: &K,
        open: impl FnOnce() -> io::Result<Option<File>>,
    ) -> io::Result<Option<watch::Receiver<bool>>> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unlocked) = watched.get(key) {
            return Ok(Some(unlocked.clone()));
        }
        let Some(file) = open()? else { return Ok(None) };
        let (sender, unlocked) = watch::channel(false);
        let (all, named) = (Arc::clone(&self.watched), key.clone());
        let waiting = move || {
            let waited = uninterrupted(|| file.lock_shared());
            let _ = file.unlock();
            all.lock().unwrap_or_else(PoisonError::into_inner).remove(&named);
            if waited.is_ok() {
                let _ = sender.send(true);
            }
        };
        thread::Builder::new().name(self.name.into()).stack_size(STACK).spawn(waiting)?;
        watched.insert(key.clone(), unlocked.clone());
        Ok(Some(unlocked))
    }
}

/// Does again what a signal interrupted.
pub(crate) fn uninterrupted(work: impl Fn() -> io::Result<()>) -> io::Result<()> {
    loop {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
