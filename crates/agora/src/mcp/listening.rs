//! Who listens to which resource, in the protocol versions in which a client says so one by one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Resources that one client may listen to at once.
pub(super) const MOST: usize = 100;

/// The resources that the client of a connection listens to, each once, and the tasks that tell it.
#[derive(Debug, Default)]
pub(super) struct Listening(Mutex<Vec<(String, AbortHandle)>>);

/// There are as many as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Listening {
    /// Tells whether one more may be listened to. To listen twice is to listen once.
    pub(super) fn room_for(&self, uri: &str) -> Result<(), Full> {
        let mut listening = self.lock();
        listening.retain(|(_, task)| !task.is_finished());
        let others = listening.iter().filter(|(other, _)| other != uri).count();
        if others < MOST { Ok(()) } else { Err(Full) }
    }

    /// Takes in the task that tells of a resource, instead of the one that did before. Where there is no room, it ends.
    pub(super) fn add(&self, uri: &str, task: AbortHandle) -> Result<(), Full> {
        self.remove(uri);
        let room = self.room_for(uri);
        match room {
            Ok(()) => self.lock().push((uri.to_owned(), task)),
            Err(Full) => task.abort(),
        }
        room
    }

    pub(super) fn remove(&self, uri: &str) {
        for (_, task) in self.lock().extract_if(.., |(other, _)| other == uri) {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, AbortHandle)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        for (_, task) in self.lock().drain(..) {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> tokio::task::JoinHandle<()> {
        tokio::spawn(std::future::pending())
    }

    async fn was_ended(task: tokio::task::JoinHandle<()>) -> bool {
        task.await.is_err_and(|error| error.is_cancelled())
    }

    #[tokio::test]
    async fn to_listen_twice_is_to_listen_once() {
        let listening = Listening::default();
        let (first, second) = (task(), task());
        for task in [&first, &second] {
            listening.add("agora://threads/t_1", task.abort_handle()).unwrap();
        }
        assert!(was_ended(first).await && !second.is_finished());
        listening.remove("agora://threads/t_1");
        assert!(was_ended(second).await);
    }

    #[tokio::test]
    async fn there_is_an_end_to_it() {
        let listening = Listening::default();
        for at in 0..MOST {
            listening.add(&format!("agora://threads/t_{at}"), task().abort_handle()).unwrap();
        }
        assert_eq!(listening.room_for("agora://threads/t_new"), Err(Full));
        assert_eq!(listening.room_for("agora://threads/t_1"), Ok(()), "which it has");
        let (late, again) = (task(), task());
        assert_eq!(listening.add("agora://threads/t_new", late.abort_handle()), Err(Full));
        assert!(was_ended(late).await);
        listening.add("agora://threads/t_1", again.abort_handle()).unwrap();
        drop(listening);
        assert!(was_ended(again).await, "with the connection");
    }
}
