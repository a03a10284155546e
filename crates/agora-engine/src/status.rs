//! How things stand: what runs, what waits, what is asked, what is due, and who moves it on.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use agora_core::provider::ledger::{DispatchRow, Filter, StateWord, Tally};
use agora_core::time::Clock;
use agora_core::{Namespace, Timestamp};
use agora_providers::ledger::Glance;
use agora_providers::notify::Message;
use agora_providers::{Home, SystemClock};
use serde::Serialize;

use crate::agora::Agora;
use crate::carry::CarryError;
use crate::error::Error;

pub use agora_providers::notify::Trouble;

/// More live dispatches than a machine runs.
const MOST: usize = 1000;

/// How things stand.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// Dispatches that run or are being started, and those that wait for room: the newest thousand, newest first.
    pub live: Vec<DispatchRow>,
    /// How much there is of everything.
    pub tally: Tally,
    /// How many threads somebody has to carry, of every namespace, and how many somebody does.
    pub to_carry: usize,
    pub carried: usize,
    /// When the next thread moves on by itself, of every namespace.
    pub next_due_at: Option<Timestamp>,
    /// How many should have moved on by now.
    pub overdue: usize,
    /// Whether a permanent carrier runs, which turns timers at their moment.
    pub served: bool,
}

/// What a status is as programs get it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDocument {
    pub running: u64,
    pub queued: u64,
    pub questions: u64,
    pub oldest_asked_at: Option<Timestamp>,
    pub to_carry: usize,
    pub carried: usize,
    pub next_due_at: Option<Timestamp>,
    pub overdue: usize,
    pub served: bool,
}

impl Status {
    pub fn document(&self) -> StatusDocument {
        StatusDocument {
            running: self.tally.running,
            queued: self.tally.queued,
            questions: self.tally.questions,
            oldest_asked_at: self.tally.oldest_asked_at,
            to_carry: self.to_carry,
            carried: self.carried,
            next_due_at: self.next_due_at,
            overdue: self.overdue,
            served: self.served,
        }
    }
}

impl Agora {
    /// Counts what runs, waits and asks.
    pub async fn tally(&self) -> Result<Tally, Error> {
        let tally = self.engine()?.world().ledger.tally(self.catalogue().namespace()).await;
        tally.map_err(|error| Error::Carry(CarryError::Ledger(error)))
    }

    /// Returns how things stand.
    pub async fn status(&self) -> Result<Status, Error> {
        let engine = self.engine()?;
        let (ledger, leases) = (&engine.world().ledger, &engine.world().leases);
        let failed = |error| Error::Carry(CarryError::Ledger(error));
        let live = Filter {
            namespace: Some(self.catalogue().namespace().clone()),
            states: Some(vec![StateWord::Accepted, StateWord::Running]),
            most: MOST,
            ..Filter::default()
        };
        let to_carry = ledger.carried().await.map_err(failed)?;
        let held = leases.list().await.map_err(|error| Error::Carry(CarryError::Lease(error)))?;
        Ok(Status {
            live: ledger.list(&live).await.map_err(failed)?,
            tally: self.tally().await?,
            carried: to_carry.iter().filter(|thread| held.contains(thread)).count(),
            to_carry: to_carry.len(),
            next_due_at: ledger.next_due().await.map_err(failed)?,
            overdue: ledger.due(engine.world().clock.now()).await.map_err(failed)?.len(),
            served: self.is_served(),
        })
    }
}

/// Counts what runs, waits and asks, as quick as can be: for a shell's prompt. Writes nothing, and a home that is not there has
/// nothing. Needs no runtime.
pub fn glance(home: &Path, namespace: &Namespace) -> Result<Glance, Error> {
    let looked = agora_providers::ledger::glance(&Home::new(home), namespace);
    looked.map_err(|error| Error::Carry(CarryError::Ledger(error)))
}

/// Returns why somebody was not told of something, if that has not worked since.
pub fn last_trouble(home: &Path) -> Option<Trouble> {
    agora_providers::notify::last_trouble(&Home::new(home))
}

/// Tells somebody by the ways that a message names: what the `agora tell` does that [`crate::Settings::notify`] starts.
pub fn pass_on(message: &Message, home: &Path, path: Option<OsString>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    message.tell(&Home::new(home), path, &clock);
}
