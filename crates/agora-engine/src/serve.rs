//! The permanent carrier: it takes in what has ended, carries what nobody carries, and turns timers at their moment. It listens to
//! nothing from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agora_core::provider::lease::Lease;
use agora_core::{ThreadId, Timestamp};
use agora_providers::lease::Serving;
use tokio::task::JoinSet;

use crate::agora::Agora;
use crate::carry::{CarryError, Engine};
use crate::error::{Error, chain};

/// What could not be done is tried again after so long: nothing says that it can be done now.
const AGAIN: Duration = Duration::from_secs(30);

/// What the permanent carrier has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Served {
    /// Nobody carried a thread; it does now.
    Carries(ThreadId),
    /// A thread could not be moved on, and why. It is tried again.
    Stuck(ThreadId, String),
    /// Nothing could be looked at, and why. It is tried again.
    Trouble(String),
}

/// Threads that are carried here, and those that could not be.
#[derive(Debug, Default)]
struct Carriers {
    tasks: JoinSet<(ThreadId, Result<(), CarryError>)>,
    underway: BTreeSet<ThreadId>,
    /// Not before that moment again.
    resting: BTreeMap<ThreadId, Timestamp>,
}

impl Agora {
    /// Tells whether a permanent carrier runs.
    pub fn is_served(&self) -> bool {
        Serving::is_taken(self.home())
    }

    /// Returns the moment when the next thread moves on by itself, if somebody looks.
    pub async fn next_timer(&self) -> Result<Option<Timestamp>, Error> {
        let next = self.engine()?.world().ledger.next_due().await;
        next.map_err(|error| Error::Carry(CarryError::Ledger(error)))
    }

    /// Carries until somebody says stop, and tells what it does. What is carried then is left as it stands, and returned: it is for
    /// others to carry on. One process does this at a time; another is refused.
    pub async fn serve(
        &self,
        stop: impl Future<Output = ()>,
        mut tell: impl FnMut(Served),
    ) -> Result<Vec<ThreadId>, Error> {
        let Some(_serving) = Serving::take(self.home()).map_err(Error::Home)? else {
            return Err(Error::ServedAlready);
        };
        let engine = self.engine()?;
        let mut carriers = Carriers::default();
        tokio::pin!(stop);
        loop {
            // Before anything is looked at: what is recorded from here on is heard.
            let watch = engine.world().ledger.watch();
            let mut watch = watch.map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
            let next = match engine.round(&mut carriers, &mut tell).await {
                Ok(next) => next,
                Err(error) => {
                    tell(Served::Trouble(chain(&error)));
                    Some(engine.world().clock.now().plus(AGAIN))
                }
            };
            let alarm = async {
                match next {
                    Some(moment) => engine.world().alarm.at(moment).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => {
                    carriers.tasks.shutdown().await;
                    return Ok(carriers.underway.into_iter().collect());
                }
                Some(done) = carriers.tasks.join_next() => carriers.rest(done, &engine, &mut tell),
                heard = watch.next() => heard.map_err(|error| Error::Carry(CarryError::Ledger(error)))?,
                () = alarm => {}
            }
        }
    }
}

impl Engine {
    /// Takes in what has ended, turns what is due, carries what nobody carries; returns when to look again at the latest.
    async fn round(
        &self,
        carriers: &mut Carriers,
        tell: &mut impl FnMut(Served),
    ) -> Result<Option<Timestamp>, CarryError> {
        let found = self.recover().await?;
        let now = self.world().clock.now();
        let again = now.plus(AGAIN);
        carriers.resting.retain(|_, until| *until > now);
        for (thread, why) in found.stuck {
            if carriers.resting.insert(thread.clone(), again).is_none() {
                tell(Served::Stuck(thread, why));
            }
        }
        for thread in found.orphans {
            if carriers.resting.contains_key(&thread) {
                continue;
            }
            let lease = self.world().leases.try_take(&thread).await.map_err(CarryError::Lease)?;
            if let Some(lease) = lease {
                tell(Served::Carries(thread.clone()));
                carriers.underway.insert(thread.clone());
                carriers.tasks.spawn(carry(self.clone(), thread, lease));
            }
        }
        let due = self.world().ledger.next_due().await.map_err(CarryError::Ledger)?;
        // What is due and could not be turned rests as well: it would be due again at once.
        let due = due.map(|due| if due <= now { again } else { due });
        Ok(due.into_iter().chain(carriers.resting.values().copied()).min())
    }
}

async fn carry(
    engine: Engine,
    thread: ThreadId,
    lease: Box<dyn Lease>,
) -> (ThreadId, Result<(), CarryError>) {
    let carried = engine.carry_on(&thread, &*lease).await.map(drop);
    (thread, carried)
}

impl Carriers {
    /// Takes note of a carrier that is done. One that failed is not started again at once.
    fn rest(
        &mut self,
        done: Result<(ThreadId, Result<(), CarryError>), tokio::task::JoinError>,
        engine: &Engine,
        tell: &mut impl FnMut(Served),
    ) {
        match done {
            Ok((thread, Ok(()))) => drop(self.underway.remove(&thread)),
            Ok((thread, Err(error))) => {
                self.underway.remove(&thread);
                self.resting.insert(thread.clone(), engine.world().clock.now().plus(AGAIN));
                tell(Served::Stuck(thread, chain(&error)));
            }
            // A bug in one thread does not end the others.
            Err(error) => tell(Served::Trouble(error.to_string())),
        }
    }
}
