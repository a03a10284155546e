//! How far a call is, for a client that wants to know while it waits.

use std::sync::Mutex;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};

/// Tells one client about one call.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    told: Mutex<(u32, String)>,
}

impl Progress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        Self { peer: context.peer.clone(), token: context.meta.get_progress_token(), told: Mutex::default() }
    }

    /// Says where things stand, if that is new.
    pub(super) async fn tell(&self, words: String) {
        let is_new = self.told.lock().is_ok_and(|told| told.1 != words);
        if is_new {
            self.say(words).await;
        }
    }

    /// Says again what was said, so that the client knows that the call is alive.
    pub(super) async fn beat(&self) {
        let words = self.told.lock().map(|told| told.1.clone()).unwrap_or_default();
        self.say(words).await;
    }

    async fn say(&self, words: String) {
        let Some(token) = self.token.clone() else { return };
        let step = match self.told.lock() {
            Ok(mut told) => {
                *told = (told.0 + 1, words.clone());
                told.0
            }
            Err(_) => return,
        };
        let param = ProgressNotificationParam::new(token, f64::from(step)).with_message(words);
        // Who does not listen any more hears the end of the call neither.
        let _ = self.peer.notify_progress(param).await;
    }
}
