//! Ctrl-C, as something that can be waited for, or looked at.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::Semaphore;

use crate::failure::Failure;

/// From now on signals that ask this command to end are noted here, and it may go on until nothing is half done.
pub(crate) fn noted() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(unheard)?;
    }
    Ok(stop)
}

fn unheard(error: std::io::Error) -> Failure {
    Failure::outside("no-signals", "the machine does not let agora hear Ctrl-C").because(error)
}

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
        listening.map_err(unheard)?;
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
