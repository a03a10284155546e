//! What all calls share: agora, opened when it is first needed, and what is remembered between calls.

use std::collections::HashSet;
use std::sync::OnceLock;

use agora_core::ThreadId;
use agora_core::provider::ledger::{DispatchRow, Filter, LedgerError, StateWord};
use agora_core::state::ThreadState;
use agora_core::time::{Clock, Timestamp};
use agora_engine::{Agora, CarryError, Engine, Error, McpSettings, SystemClock};

use super::around::{Around, Trouble};
use super::client::Client;
use super::heard::{Heard, News};
use super::limits::Turns;
use super::state::States;
use super::workspaces::Workspaces;

/// As many dispatches of one client as are read at a time.
const ROWS: usize = 500;

/// What the server works with.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) around: Box<dyn Around>,
    opened: tokio::sync::OnceCell<Opened>,
    pub(crate) heard: Heard,
    pub(crate) turns: Turns,
    began_at: Timestamp,
}

/// What there is once agora is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) agora: Agora,
    pub(crate) engine: Engine,
    pub(crate) settings: McpSettings,
    pub(crate) workspaces: Workspaces,
    states: OnceLock<States>,
}

impl Desk {
    pub(crate) fn new(around: Box<dyn Around>) -> Self {
        Self {
            around,
            opened: tokio::sync::OnceCell::new(),
            heard: Heard::default(),
            turns: Turns::default(),
            began_at: SystemClock.now(),
        }
    }

    /// Returns agora, opened with the first call: that takes in what ended while nobody looked, and starts a carrier for what nobody
    /// carries.
    pub(crate) async fn opened(&self) -> Result<&Opened, Trouble> {
        self.opened
            .get_or_try_init(|| async {
                let agora = self.around.open()?;
                let engine = agora.engine().map_err(|error| self.around.explain(error))?;
                let settings = agora.mcp_settings();
                let workspaces = Workspaces::new(self.around.workspaces(), &settings.workspaces);
                let opened = Opened { agora, engine, settings, workspaces, states: OnceLock::new() };
                self.recover(&opened).await?;
                Ok(opened)
            })
            .await
    }

    /// Takes in what ended, and leaves what nobody carries to a carrier.
    pub(crate) async fn recover(&self, opened: &Opened) -> Result<(), Trouble> {
        let found = opened.agora.recover().await.map_err(|error| self.around.explain(error))?;
        if found.orphans.is_empty() { Ok(()) } else { self.around.carry(&found.orphans) }
    }

    pub(crate) fn explain(&self, error: Error) -> Trouble {
        self.around.explain(error)
    }

    pub(crate) fn ledger_trouble(&self, error: LedgerError) -> Trouble {
        self.around.explain(Error::Carry(CarryError::Ledger(error)))
    }

    /// Returns the threads that a client dispatched and that matter to it: those that have not ended, and those that ended while this
    /// server ran and whose end it has not heard.
    pub(crate) async fn threads_of(
        &self,
        opened: &Opened,
        client: &Client,
    ) -> Result<Vec<ThreadId>, Trouble> {
        let mut filter = Filter { label: Some(client.owner.clone()), most: ROWS, ..Filter::default() };
        let (mut threads, mut seen) = (Vec::new(), HashSet::new());
        loop {
            let rows = opened.agora.dispatches(&filter).await.map_err(|error| self.explain(error))?;
            filter.before = rows.last().filter(|_| rows.len() == ROWS).map(|row| row.dispatch_id.clone());
            // The newest first: the first of a thread is its last.
            for row in rows {
                // What it has heard is not looked at again: a server that runs for long has many that ended.
                let is_new = seen.insert(row.thread_id.clone()) && !self.has_heard(client, &row);
                if is_new && !self.was_over(opened, &row).await? {
                    threads.push(row.thread_id);
                }
            }
            if filter.before.is_none() {
                break;
            }
        }
        threads.reverse();
        Ok(threads)
    }

    /// Tells whether a client was told that a thread ended with this dispatch.
    fn has_heard(&self, client: &Client, last: &DispatchRow) -> bool {
        self.heard.has(&client.owner, &News::Ended(last.dispatch_id.clone()))
    }

    /// Tells whether a thread had ended before this server began, by its last dispatch. One that asked has an end of its own, and its
    /// thread goes on: a question that is open is asked again, whoever asked it before.
    async fn was_over(&self, opened: &Opened, last: &DispatchRow) -> Result<bool, Trouble> {
        let before = |moment: Timestamp| moment < self.began_at;
        if last.state != StateWord::NeedsInput {
            return Ok(last.ended_at.is_some_and(before));
        }
        let view = opened.engine.world().ledger.thread(&last.thread_id).await;
        let view = view.map_err(|error| self.ledger_trouble(error))?;
        Ok(view.is_none_or(|view| match view.thread.state() {
            ThreadState::Running | ThreadState::Waiting | ThreadState::Resuming => false,
            ThreadState::Finished | ThreadState::Failed(_) | ThreadState::Cancelled => before(view.moved_at),
        }))
    }
}

impl Opened {
    pub(crate) fn now(&self) -> Timestamp {
        self.engine.world().clock.now()
    }

    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.engine.world().entropy.draw(&mut bytes);
        bytes
    }

    /// Returns what seals the states of calls that ask, by a key of this process alone.
    pub(crate) fn states(&self) -> Result<&States, Trouble> {
        if let Some(states) = self.states.get() {
            return Ok(states);
        }
        let made = States::new(self.engine.world().keys.request_state_key(&self.random::<16>()));
        let made = made.map_err(|error| Trouble::new("bug", error.to_string()))?;
        Ok(self.states.get_or_init(|| made))
    }
}
