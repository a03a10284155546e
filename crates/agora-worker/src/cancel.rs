//! A cancel: asked for by a signal, honoured at the next step, or by stopping what runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::child::{Stopper, Why};
use crate::fault::Fault;

/// Whether the dispatch is to end. Shared with whoever hears the signal.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    asked: bool,
    running: Option<Stopper>,
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cancel").field("asked", &self.lock().asked).finish()
    }
}

impl Cancel {
    /// Asks for the end. Asking again changes nothing.
    pub fn ask(&self) {
        let mut state = self.lock();
        state.asked = true;
        if let Some(running) = &state.running {
            running.stop(Why::Cancelled);
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.lock().asked
    }

    /// Ends the steps here, if that was asked for.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.is_asked() { Err(Fault::Cancelled) } else { Ok(()) }
    }

    /// Names what is to be stopped from now on. A cancel that came before stops it at once.
    pub(crate) fn watch(&self, running: Stopper) {
        let mut state = self.lock();
        if state.asked {
            running.stop(Why::Cancelled);
        }
        state.running = Some(running);
    }

    pub(crate) fn unwatch(&self) {
        self.lock().running = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
