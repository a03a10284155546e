//! A thread in the caller's hands: wait for it, hear what happens to it, cancel it, go on with it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agora_core::answer::Answerer;
use agora_core::entry::Entry;
use agora_core::ground::Ground;
use agora_core::job::{Attendance, NextLogin};
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{ThreadView, Watch};
use agora_core::{DispatchId, ThreadId};
use tokio::task::JoinHandle;

use crate::agora::Agora;
use crate::carry::accept::Accepted;
use crate::carry::{CarryError, Engine, live_dispatch};
use crate::dispatch::login::{Again, Staged, UsedLogin};
use crate::dispatch::result::DispatchResult;
use crate::error::Error;

/// How many entries are read at once.
const PAGE: usize = 100;

/// One piece of work. Dropping it ends nothing: what runs goes on, and the next process that looks takes it in.
#[derive(Debug)]
pub struct Thread {
    pub(crate) agora: Agora,
    pub(crate) engine: Engine,
    id: ThreadId,
    dispatch_id: DispatchId,
    login: Option<UsedLogin>,
    ground: Option<Box<Ground>>,
    is_new: bool,
    /// Whoever carries the thread in this process.
    carrier: Mutex<Option<Carrier>>,
}

type Carrier = JoinHandle<Result<ThreadView, CarryError>>;

impl Thread {
    pub(crate) fn new(agora: Agora, engine: Engine, id: ThreadId, dispatch_id: DispatchId) -> Self {
        let (login, ground, is_new, carrier) = (None, None, false, Mutex::default());
        Self { agora, engine, id, dispatch_id, login, ground, is_new, carrier }
    }

    pub(crate) fn with_login(self, login: Option<UsedLogin>) -> Self {
        Self { login, ..self }
    }

    pub(crate) fn with_ground(self, ground: Option<Box<Ground>>) -> Self {
        Self { ground, ..self }
    }

    pub(crate) fn novel(self, is_new: bool) -> Self {
        Self { is_new, ..self }
    }

    /// Tells whether the dispatch was accepted just now. False for one that is found again, also by its idempotency key.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns which login the agent gets, right after the dispatch was accepted: a caller may want to say so.
    pub fn login(&self) -> Option<UsedLogin> {
        self.login
    }

    /// Returns what was taken to work on, right after the dispatch was accepted: a caller may want to say what was not.
    pub fn ground(&self) -> Option<&Ground> {
        self.ground.as_deref()
    }

    pub fn id(&self) -> &ThreadId {
        &self.id
    }

    /// Returns the dispatch that this is about: the one that was just accepted, or the thread's last.
    pub fn dispatch_id(&self) -> &DispatchId {
        &self.dispatch_id
    }

    /// Begins to carry the thread in this process, unless somebody does. Needs a tokio runtime.
    pub(crate) async fn carry(&self) -> Result<(), Error> {
        if let Some(lease) = self.try_lease().await? {
            self.carry_with(lease);
        }
        Ok(())
    }

    /// Takes the thread's lease, unless somebody has it.
    pub(crate) async fn try_lease(&self) -> Result<Option<Box<dyn Lease>>, Error> {
        let lease = self.engine.world().leases.try_take(&self.id).await;
        lease.map_err(|error| Error::Carry(CarryError::Lease(error)))
    }

    /// Carries a thread that was accepted with this lease, and perhaps with room.
    pub(crate) fn carry_accepted(&self, lease: Box<dyn Lease>) {
        let (engine, id) = (self.engine.clone(), self.id.clone());
        self.carry_beside(async move { engine.carry_accepted(&id, &*lease).await });
    }

    fn carry_with(&self, lease: Box<dyn Lease>) {
        let (engine, id) = (self.engine.clone(), self.id.clone());
        self.carry_beside(async move { engine.carry(&id, &*lease).await });
    }

    /// Carries the thread beside what the caller does: whoever stops waiting, to cancel it, must not stop carrying it.
    fn carry_beside(&self, carrying: impl Future<Output = Result<ThreadView, CarryError>> + Send + 'static) {
        *self.carrier() = Some(tokio::spawn(carrying));
    }

    fn carrier(&self) -> MutexGuard<'_, Option<Carrier>> {
        self.carrier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the dispatch has ended, whoever carries it: finished, failed, cancelled, or with a question.
    ///
    /// ```no_run
    /// # async fn example(thread: agora_engine::Thread) -> Result<(), Box<dyn std::error::Error>> {
    /// let result = thread.wait().await?;
    /// match (&result.failure, &result.needs_input) {
    ///     (Some(failure), _) => println!("{} ({}): {}", failure.reason, failure.code, failure.detail),
    ///     (None, Some(asked)) => println!("it asks: {}", asked.question),
    ///     (None, None) => println!("{}: {}", result.state, result.output.text),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self) -> Result<DispatchResult, Error> {
        let engine = &self.engine;
        let ledger = &engine.world().ledger;
        let mut watch = ledger.watch().map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
        let mut lease = pin!(engine.world().leases.take(&self.id));
        loop {
            let ours = self.carrier().take();
            let view = match ours {
                Some(carrier) => match carrier.await {
                    Ok(carried) => carried,
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                None => engine.view(&self.id).await,
            }
            .map_err(Error::Carry)?;
            if live_dispatch(&view.thread) != Some(&self.dispatch_id) {
                return self.agora.describe_dispatch(engine, &self.dispatch_id).await;
            }
            tokio::select! {
                biased;
                // Whoever carried it is gone, and it is ours.
                taken = &mut lease => {
                    self.carry_with(taken.map_err(|error| Error::Carry(CarryError::Lease(error)))?);
                    lease.set(engine.world().leases.take(&self.id));
                }
                heard = watch.next() => heard.map_err(|error| Error::Carry(CarryError::Ledger(error)))?,
            }
        }
    }

    /// Returns the thread with its last dispatch: others may have gone on with it.
    pub async fn latest(&self) -> Result<Self, Error> {
        self.agora.thread(&self.id).await
    }

    /// Stops carrying the thread in this process, so that another can, and tells whether it did carry it. What runs goes on.
    pub async fn let_go(&self) -> bool {
        let ours = self.carrier().take();
        let Some(carrier) = ours else { return false };
        // Wherever it stands: whoever carries on begins at what they find, as after a crash.
        carrier.abort();
        let _ = carrier.await;
        true
    }

    /// Returns what is known of the dispatch now.
    pub async fn describe(&self) -> Result<DispatchResult, Error> {
        self.agora.describe_dispatch(&self.engine, &self.dispatch_id).await
    }

    /// Returns the thread as it stands.
    pub async fn view(&self) -> Result<ThreadView, Error> {
        self.engine.view(&self.id).await.map_err(Error::Carry)
    }

    /// Listens to what happens to the thread, after the first `seen` entries: 0 tells everything from the beginning.
    ///
    /// ```no_run
    /// # async fn example(thread: agora_engine::Thread) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = thread.events(0)?;
    /// while let Some(entry) = events.next().await? {
    ///     println!("{} {} {}", entry.at, entry.seq, entry.what.kind());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self, seen: u64) -> Result<Events, Error> {
        Events::new(self.engine.clone(), self.id.clone(), seen)
    }

    /// Cancels whatever the thread does or waits for, and returns when nothing of it is left. One that has ended stays as it
    /// ended; what is returned tells.
    ///
    /// ```no_run
    /// # async fn example(agora: agora_engine::Agora) -> Result<(), Box<dyn std::error::Error>> {
    /// // From any process: the thread is found by an id, the beginning of one, a label, or `@` for the last one.
    /// let view = agora.find("nightly").await?.cancel().await?;
    /// println!("{:?}", view.thread.state());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel(&self) -> Result<ThreadView, Error> {
        self.engine.cancel(&self.id, None).await.map_err(Error::Carry)
    }

    /// As [`Thread::cancel`], by somebody who stands in the record.
    pub async fn cancel_by(&self, by: &Answerer) -> Result<ThreadView, Error> {
        self.engine.cancel(&self.id, Some(by)).await.map_err(Error::Carry)
    }

    /// Gives up a thread that cannot be read: it is taken out of the ledger, which keeps what is left of its record aside. False: it
    /// can be read, or somebody carries it.
    pub async fn discard(&self) -> Result<bool, Error> {
        self.engine.discard(&self.id).await.map_err(Error::Carry)
    }

    /// Goes on with a thread that came to an end, perhaps with a word more.
    pub async fn go_on(&self, message: Option<String>, attendance: Attendance) -> Result<Self, Error> {
        self.continued(None, message, attendance).await
    }

    /// As [`Thread::go_on`], by somebody who stands in the record.
    pub async fn go_on_by(
        &self,
        by: &Answerer,
        message: Option<String>,
        attendance: Attendance,
    ) -> Result<Self, Error> {
        self.continued(Some(by), message, attendance).await
    }

    /// Chooses what the thread's next dispatch logs in with.
    pub(crate) async fn log_in_again(&self) -> Result<Again, Error> {
        let view = self.view().await?;
        let job = self.engine.last_job(&view).await.map_err(Error::Carry)?;
        self.agora.choose_again(&self.engine, &job).await
    }

    /// Sees that the thread's next dispatch has every secret that it needs, but for those that are about to be staged.
    pub(crate) async fn see_startable(&self, login: &NextLogin, staged: &Staged) -> Result<(), Error> {
        let view = self.view().await?;
        let mut job = self.engine.last_job(&view).await.map_err(Error::Carry)?.logging_in(Some(login));
        job.secrets.retain(|variable, _| !staged.contains_key(variable));
        self.engine.see_secrets(job).await.map_err(Error::Secret)
    }

    async fn continued(
        &self,
        by: Option<&Answerer>,
        message: Option<String>,
        attendance: Attendance,
    ) -> Result<Self, Error> {
        self.engine.see_rests(&self.id).await.map_err(Error::Accept)?;
        let Again { login, used, staged } = self.log_in_again().await?;
        let login = login.map_err(|vendor| Error::NoLogin { vendor })?;
        self.see_startable(&login, &staged).await?;
        // Until it is recorded, the lease says whose it is.
        let staging = if staged.is_empty() { None } else { self.try_lease().await? };
        self.agora.stage(&staged, &self.id).await?;
        let accepted = self.engine.go_on_as(&self.id, by, message, attendance, Some(&login)).await;
        drop(staging);
        let Accepted { dispatch_id, thread_id, .. } = accepted.map_err(Error::Accept)?;
        let next = Self::new(self.agora.clone(), self.engine.clone(), thread_id, dispatch_id);
        let next = next.with_login(used);
        if attendance == Attendance::Watched {
            next.carry().await?;
        }
        Ok(next)
    }
}

/// What happens to a thread, from an entry on.
#[derive(Debug)]
pub struct Events {
    engine: Engine,
    thread: ThreadId,
    seen: u64,
    read: VecDeque<Entry>,
    watch: Box<dyn Watch>,
}

impl Events {
    fn new(engine: Engine, thread: ThreadId, seen: u64) -> Result<Self, Error> {
        // Before anything is read: what is recorded in between is heard.
        let watch = engine.world().ledger.watch();
        let watch = watch.map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
        Ok(Self { engine, thread, seen, read: VecDeque::new(), watch })
    }

    /// Returns the next entry, when there is one. `None`: the thread has ended, and nothing will follow unless somebody
    /// continues it.
    pub async fn next(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            if let Some(entry) = self.read.pop_front() {
                self.seen = entry.seq;
                return Ok(Some(entry));
            }
            let ledger = &self.engine.world().ledger;
            let failed = |error| Error::Carry(CarryError::Ledger(error));
            self.read = ledger.read(&self.thread, self.seen, PAGE).await.map_err(failed)?.into();
            if self.read.is_empty() {
                let view = self.engine.view(&self.thread).await.map_err(Error::Carry)?;
                if view.thread.has_ended() && view.seen <= self.seen {
                    return Ok(None);
                }
                self.watch.next().await.map_err(failed)?;
            }
        }
    }
}
