//! Who is inside: how many requests each token has under way, and which token opened which session. One that holds many cannot keep the
//! others out nor fill the memory, and a session is nobody's who only knows its id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agora_core::Name;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one token may have under way: a quarter of what the door has room for, and twice as many as anybody was seen to need.
const AT_ONCE: usize = 128;
/// Sessions that one token may have open. A client has one, and one that comes and goes leaves them behind.
const SESSIONS: usize = 64;

#[derive(Debug)]
pub(crate) struct Guests {
    rooms: Mutex<HashMap<Name, Arc<Semaphore>>>,
    /// Those that were used last are last.
    opened: Mutex<Vec<Opened>>,
    /// Where the sessions themselves are.
    pub(crate) sessions: Arc<LocalSessionManager>,
}

/// A session, and who opened it.
#[derive(Debug)]
struct Opened {
    session: Arc<str>,
    by: Name,
    /// Every request of it that is under way has a hand on it, too.
    hand: InUse,
}

/// While somebody has it, the session that it is of is not idle.
pub(crate) type InUse = Arc<()>;

/// Whose a session is.
#[derive(Debug)]
pub(crate) enum Whose {
    Own(InUse),
    Anothers,
    Nobodys,
}

/// A token has as many sessions as it may have, and something goes on in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Guests {
    /// Makes a door that nobody has come in by. A session in which nothing happens for so long ends.
    pub(crate) fn new(idle: Duration) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(idle);
        Self { rooms: Mutex::default(), opened: Mutex::default(), sessions: Arc::new(sessions) }
    }

    /// Lets a request in, for as long as what is returned is kept. `None`: whoever it is has enough of them under way.
    pub(crate) fn enter(&self, who: &Name) -> Option<OwnedSemaphorePermit> {
        let mut rooms = lock(&self.rooms);
        // Whoever is in a room has a hand on it.
        rooms.retain(|_, room| Arc::strong_count(room) > 1);
        let room = rooms.entry(who.clone()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
        Arc::clone(room).try_acquire_owned().ok()
    }

    /// Tells whose a session is, for somebody who uses it.
    pub(crate) fn whose(&self, session: &str, who: &Name) -> Whose {
        let mut opened = lock(&self.opened);
        let Some(place) = opened.iter().position(|opened| &*opened.session == session) else {
            return Whose::Nobodys;
        };
        if opened[place].by != *who {
            return Whose::Anothers;
        }
        opened[place..].rotate_left(1);
        opened.last().map_or(Whose::Nobodys, |opened| Whose::Own(Arc::clone(&opened.hand)))
    }

    /// Remembers who opened a session. When they have too many, the one that was idle longest ends; where none is idle, the new one.
    pub(crate) async fn opened(&self, session: &str, who: &Name) -> Result<InUse, Full> {
        let (session, hand) = (Arc::from(session), InUse::default());
        let new = Opened { session: Arc::clone(&session), by: who.clone(), hand: Arc::clone(&hand) };
        let Some(ending) = self.make_room(new).await else { return Ok(hand) };
        // Where it is gone already, it has ended.
        let _ = self.sessions.close_session(&ending).await;
        if ending == session { Err(Full) } else { Ok(hand) }
    }

    /// Takes in a session, and forgets those that are over and the one that is to end for it, which is returned.
    async fn make_room(&self, new: Opened) -> Option<Arc<str>> {
        let live = self.sessions.sessions.read().await;
        let mut opened = lock(&self.opened);
        opened.retain(|opened| live.contains_key(&opened.session));
        let theirs = || opened.iter().filter(|opened| opened.by == new.by);
        if theirs().count() < SESSIONS {
            opened.push(new);
            return None;
        }
        let idle = theirs().find(|opened| Arc::strong_count(&opened.hand) == 1);
        let Some(idle) = idle.map(|opened| Arc::clone(&opened.session)) else { return Some(new.session) };
        opened.retain(|opened| opened.session != idle);
        opened.push(new);
        Some(idle)
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

    /// Opens as many sessions. They live as long as what is returned with their ids.
    async fn open(guests: &Guests, who: &Name, count: usize) -> Vec<(Arc<str>, impl Sized)> {
        let mut opened = Vec::new();
        for _ in 0..count {
            let session = guests.sessions.create_session().await.unwrap();
            guests.opened(&session.0, who).await.unwrap();
            opened.push(session);
        }
        opened
    }

    #[tokio::test]
    async fn a_session_is_whose_it_was_opened_by() {
        let (guests, one, other) =
            (Guests::new(Duration::from_secs(1)), "one".parse().unwrap(), "other".parse().unwrap());
        let (first, _lives) = open(&guests, &one, 1).await.remove(0);
        assert!(matches!(guests.whose(&first, &one), Whose::Own(_)));
        assert!(matches!(guests.whose(&first, &other), Whose::Anothers));
        assert!(matches!(guests.whose("nowhere", &other), Whose::Nobodys));
        guests.sessions.close_session(&first).await.unwrap();
        open(&guests, &other, 1).await;
        assert!(matches!(guests.whose(&first, &one), Whose::Nobodys), "it is over");
    }

    #[tokio::test]
    async fn of_too_many_sessions_the_one_that_was_idle_longest_ends() {
        let (guests, one, other) =
            (Guests::new(Duration::from_secs(60)), "one".parse().unwrap(), "other".parse().unwrap());
        let mut sessions = open(&guests, &one, SESSIONS).await;
        sessions.extend(open(&guests, &other, 1).await);
        let is_open = async |at: usize| guests.sessions.has_session(&sessions[at].0).await.unwrap();
        // The first was used just now, and something goes on in the second.
        assert!(matches!(guests.whose(&sessions[0].0, &one), Whose::Own(_)));
        let Whose::Own(hand) = guests.whose(&sessions[1].0, &one) else { panic!("it is theirs") };
        let _new = open(&guests, &one, SESSIONS - 1).await;
        assert_eq!(
            (is_open(0).await, is_open(1).await, is_open(2).await, is_open(SESSIONS).await),
            (false, true, false, true)
        );
        drop(hand);
        let _newer = open(&guests, &one, 1).await;
        assert!(!is_open(1).await);
    }

    #[tokio::test]
    async fn what_is_in_use_does_not_end_for_another() {
        let (guests, one) = (Guests::new(Duration::from_secs(60)), "one".parse().unwrap());
        let sessions = open(&guests, &one, SESSIONS).await;
        let _hands: Vec<_> = sessions.iter().map(|(id, _)| guests.whose(id, &one)).collect();
        let (late, _lives) = guests.sessions.create_session().await.unwrap();
        assert_eq!(guests.opened(&late, &one).await, Err(Full));
        assert!(!guests.sessions.has_session(&late).await.unwrap(), "it is not left behind");
        assert!(guests.sessions.has_session(&sessions[0].0).await.unwrap());
    }
}
