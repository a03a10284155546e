//! Ctrl-C, as something that can be waited for.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::Semaphore;

use crate::failure::Failure;

/// The signals that ask this command to end.
#[derive(Debug)]
pub(crate) struct Interrupts(Arc<Semaphore>);

impl Interrupts {
    /// From now on they do not end the process, but are told here.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::listen_to(&[SIGINT, SIGTERM])
    }

    /// As [`Interrupts::listen`], for whoever has more to put away than most.
    pub(crate) fn listen_to(signals: &[i32]) -> Result<Self, Failure> {
        let heard = Arc::new(Semaphore::new(0));
        let count = Arc::clone(&heard);
        let listening = Signals::new(signals).and_then(|mut signals| {
            let listen = move || signals.forever().for_each(|_| count.add_permits(1));
            std::thread::Builder::new().name("signals".into()).spawn(listen)
        });
        listening.map_err(|error| {
            Failure::outside("no-signals", "the machine does not let agora hear Ctrl-C").because(error)
        })?;
        Ok(Self(heard))
    }

    /// Forgets those that came while a person's own program had the terminal: they were meant for that.
    pub(crate) fn forget(&mut self) {
        while let Ok(permit) = self.0.try_acquire() {
            permit.forget();
        }
    }

    /// Returns at the next one.
    pub(crate) async fn next(&mut self) {
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }
}
