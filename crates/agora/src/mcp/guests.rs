//! Who is inside: how many requests each token has under way, and which token opened which session. One that holds many cannot keep the
//! others out, and a session is nobody's who only knows its id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agora_core::Name;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one token may have under way: a quarter of what the door has room for, and twice as many as anybody was seen to need.
const AT_ONCE: usize = 128;

#[derive(Debug)]
pub(crate) struct Guests {
    rooms: Mutex<HashMap<Name, Arc<Semaphore>>>,
    opened_by: Mutex<HashMap<String, Name>>,
    /// Where the sessions themselves are.
    pub(crate) sessions: Arc<LocalSessionManager>,
}

impl Guests {
    /// Makes a door that nobody has come in by. A session in which nothing happens for so long ends.
    pub(crate) fn new(idle: Duration) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(idle);
        Self { rooms: Mutex::default(), opened_by: Mutex::default(), sessions: Arc::new(sessions) }
    }

    /// Lets a request in, for as long as what is returned is kept. `None`: whoever it is has enough of them under way.
    pub(crate) fn enter(&self, who: &Name) -> Option<OwnedSemaphorePermit> {
        let mut rooms = lock(&self.rooms);
        // Whoever is in a room has a hand on it.
        rooms.retain(|_, room| Arc::strong_count(room) > 1);
        let room = rooms.entry(who.clone()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
        Arc::clone(room).try_acquire_owned().ok()
    }

    /// Tells whether a session is somebody else's.
    pub(crate) fn is_anothers(&self, session: &str, who: &Name) -> bool {
        lock(&self.opened_by).get(session).is_some_and(|opener| opener != who)
    }

    /// Remembers who opened a session, and forgets those that are over.
    pub(crate) async fn opened(&self, session: &str, who: &Name) {
        let live = self.sessions.sessions.read().await;
        let mut opened_by = lock(&self.opened_by);
        opened_by.retain(|session, _| live.contains_key(session.as_str()));
        opened_by.insert(session.to_owned(), who.clone());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_holds_many_does_not_keep_others_out() {
        let (guests, one, other) =
            (Guests::new(Duration::from_secs(1)), "one".parse().unwrap(), "other".parse().unwrap());
        let mut held: Vec<_> = (0..AT_ONCE).map(|_| guests.enter(&one).unwrap()).collect();
        assert!(guests.enter(&one).is_none());
        assert!(guests.enter(&other).is_some());
        held.pop();
        assert!(guests.enter(&one).is_some());
    }

    #[tokio::test]
    async fn a_session_is_whose_it_was_opened_by() {
        let (guests, one, other) =
            (Guests::new(Duration::from_secs(1)), "one".parse().unwrap(), "other".parse().unwrap());
        guests.opened("s1", &one).await;
        assert!(!guests.is_anothers("s1", &one) && guests.is_anothers("s1", &other));
        assert!(!guests.is_anothers("s2", &other), "what nobody opened is not found further on");
        guests.opened("s2", &other).await;
        assert!(!guests.is_anothers("s1", &other), "s1 is over");
    }
}
