//! Those who came in and have not shown a token yet. When there is no room left for others, whoever stands there longest is let go: one that
//! opens many connections and says nothing keeps nobody out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

/// Whether a connection has shown a token.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(Arc<AtomicBool>);

impl Shown {
    pub(super) fn a_token(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Connections in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Lobby(Mutex<VecDeque<(Shown, AbortHandle)>>);

impl Lobby {
    pub(super) fn enter(&self, shown: Shown, connection: AbortHandle) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those who are gone, or inside, are not here.
        waiting.retain(|(shown, connection)| !shown.0.load(Ordering::Relaxed) && !connection.is_finished());
        waiting.push_back((shown, connection));
    }

    /// Lets the one go that has been here longest, if there is one.
    pub(super) fn let_one_go(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((shown, connection)) = waiting.pop_front() {
            if !shown.0.load(Ordering::Relaxed) && !connection.is_finished() {
                connection.abort();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_stands_there_longest_and_shows_nothing_is_let_go() {
        let lobby = Lobby::default();
        let silent = || tokio::spawn(std::future::pending::<()>());
        let (known, first, second) = (silent(), silent(), silent());
        let shown = [Shown::default(), Shown::default(), Shown::default()];
        for (shown, connection) in shown.iter().zip([&known, &first, &second]) {
            lobby.enter(shown.clone(), connection.abort_handle());
        }
        shown[0].a_token();
        lobby.let_one_go();
        assert!(first.await.is_err_and(|error| error.is_cancelled()));
        assert!(!known.is_finished() && !second.is_finished());
        lobby.let_one_go();
        assert!(second.await.is_err_and(|error| error.is_cancelled()));
        lobby.let_one_go();
        assert!(!known.is_finished(), "who is inside stays");
        known.abort();
    }
}
