//! What is asked of [`Agora`] about dispatches.

use std::collections::BTreeSet;

use agora_core::answer::Answerer;
use agora_core::catalogue::near;
use agora_core::provider::ground::CameHome;
use agora_core::provider::lease::Lease;
use agora_core::provider::ledger::{
    Allowance, DispatchRow, Filter, LedgerError, Paper, StateWord, ThreadView,
};
use agora_core::provider::shelf::Shelf;
use agora_core::secret::SecretRef;
use agora_core::state::ThreadState;
use agora_core::{DispatchId, Name, ThreadId};

use crate::agora::Agora;
use crate::carry::accept::{AcceptError, Accepted};
use crate::carry::recover::Recovered;
use crate::carry::sweep::{Sweep, Swept};
use crate::carry::{CarryError, Engine};
use crate::dispatch::Dispatch;
use crate::dispatch::login::Staged;
use crate::dispatch::resolve::{Checked, staged_secret};
use crate::dispatch::result::{DispatchResult, Read};
use crate::error::Error;
use crate::handle::Thread;

/// What of a worker's own words is in a result.
const STDERR_BYTES: u64 = 256 * 1024;
/// How many dispatches a prefix is compared with.
const NEAR: usize = 200;

impl Agora {
    /// Accepts a dispatch and begins to carry it in this process. When this returns it is recorded, and not lost whatever happens.
    ///
    /// Needs a tokio runtime that lives as long as somebody waits. When it ends first, the worker runs on, and the next process
    /// that looks takes the thread in.
    ///
    /// ```no_run
    /// # async fn example(agora: agora_engine::Agora) -> Result<(), Box<dyn std::error::Error>> {
    /// use agora_engine::Dispatch;
    /// use serde_json::json;
    ///
    /// let request = Dispatch::to("planner").input(json!({"task": "split the parser"})).label("nightly");
    /// let thread = agora.dispatch(request).await?;
    /// println!("{} is recorded", thread.dispatch_id());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn dispatch(&self, dispatch: Dispatch) -> Result<Thread, Error> {
        let (thread, lease) = self.record(dispatch, Room::Now).await?;
        match lease {
            Some(lease) => thread.carry_accepted(lease),
            None => thread.carry().await?,
        }
        Ok(thread)
    }

    /// Accepts a dispatch, and leaves it to others to carry.
    pub async fn accept(&self, dispatch: Dispatch) -> Result<Thread, Error> {
        let (thread, _lease) = self.record(dispatch, Room::Later).await?;
        Ok(thread)
    }

    /// Checks a dispatch as if it were accepted, and changes nothing: the names that it uses, its input, its limits, its login.
    pub async fn check(&self, dispatch: &Dispatch) -> Result<(), Error> {
        let engine = self.engine()?;
        self.resolve(dispatch, engine.world()).await.map(drop)
    }

    /// Looks whether as much may be accepted now, before anything is made ready for it. Only [`Dispatch::allowance`] holds, whoever accepts
    /// at the same time.
    pub async fn allows(&self, allowance: &Allowance) -> Result<(), Error> {
        match self.engine()?.world().ledger.allows(allowance).await {
            Ok(()) => Ok(()),
            Err(LedgerError::NotAllowed(beyond)) => Err(Error::Accept(AcceptError::NotAllowed(beyond))),
            Err(error) => Err(Error::Carry(CarryError::Ledger(error))),
        }
    }

    /// Records a dispatch. With the lease of its thread, if it was taken and the thread is a new one.
    async fn record(
        &self,
        dispatch: Dispatch,
        room: Room,
    ) -> Result<(Thread, Option<Box<dyn Lease>>), Error> {
        let engine = self.engine()?;
        let checked = self.resolve(&dispatch, engine.world()).await?;
        let Checked { mut job, key, secrets, login, is_built_in } = checked;
        if is_built_in {
            self.keep_builtin(job.resolved.subagent.content_hash).await?;
        }
        let taken =
            engine.world().grounds.take(&dispatch.ground, &job.thread_id).await.map_err(Error::Ground)?;
        job.ground = taken.map(Box::new);
        let lease = match room {
            Room::Later if secrets.is_empty() => None,
            Room::Later | Room::Now => take(&engine, &job.thread_id).await?,
        };
        self.stage(&secrets, &job.thread_id).await?;
        let staged = job.clone();
        let claim = match (room, &lease) {
            (Room::Now, Some(_)) => engine.claim_for(&job),
            (Room::Now | Room::Later, _) => None,
        };
        let allowance = dispatch.allowance.map(Paper::Allowance);
        let accepted = engine.accept_with(job, key, allowance.into_iter().chain(claim)).await;
        let is_new = accepted.as_ref().is_ok_and(|accepted| accepted.dispatch_id == staged.dispatch_id);
        if !is_new {
            // What was staged belongs to a dispatch that is none.
            engine.world().vault.forget(&staged).await.map_err(Error::Secret)?;
            let forgotten = engine.world().grounds.forget(&staged.thread_id).await;
            forgotten.map_err(|error| Error::Carry(CarryError::Shelf(error)))?;
        }
        let Accepted { dispatch_id, thread_id, .. } = accepted.map_err(Error::Accept)?;
        let thread =
            Thread::new(self.clone(), engine, thread_id, dispatch_id).with_login(login).novel(is_new);
        let thread = thread.with_ground(staged.ground.filter(|_| is_new));
        Ok((thread, lease.filter(|_| is_new)))
    }

    /// Stores the secrets that were given for the thread alone. Whoever dies before the dispatch is recorded leaves the thread's
    /// lease behind, by which they are found and taken away.
    pub(crate) async fn stage(&self, secrets: &Staged, thread: &ThreadId) -> Result<(), Error> {
        for (variable, value) in secrets {
            if let Ok(SecretRef::Local(name)) = staged_secret(thread, variable.as_str()).parse() {
                self.secrets().put(&name, value, None).await.map_err(Error::Secret)?;
            }
        }
        Ok(())
    }

    /// Returns a thread, with its last dispatch.
    pub async fn thread(&self, id: &ThreadId) -> Result<Thread, Error> {
        let engine = self.engine()?;
        let view = engine.view(id).await.map_err(Error::Carry)?;
        match view.thread.dispatches().last() {
            Some((last, _)) => Ok(Thread::new(self.clone(), engine, id.clone(), last.clone())),
            None => Err(Error::UnknownId { text: id.to_string(), near: Vec::new() }),
        }
    }

    /// Returns a thread as it stands.
    pub async fn view(&self, id: &ThreadId) -> Result<ThreadView, Error> {
        self.engine()?.view(id).await.map_err(Error::Carry)
    }

    /// Finds a thread by whatever a person has of it: the id of a dispatch, of a thread or of a question, the beginning of one, a
    /// label, or `@` for the last one.
    pub async fn find(&self, text: &str) -> Result<Thread, Error> {
        match self.find_exactly(text).await {
            Err(Error::UnknownId { text, .. }) => {
                let near = self.near(&text).await?;
                Err(Error::UnknownId { text, near })
            }
            found => found,
        }
    }

    /// Returns what somebody may have meant, of the last dispatches.
    async fn near(&self, text: &str) -> Result<Vec<Name>, Error> {
        let Ok(wanted) = text.parse::<Name>() else { return Ok(Vec::new()) };
        let namespace = Some(self.catalogue().namespace().clone());
        let rows = self.dispatches(&Filter { namespace, most: NEAR, ..Filter::default() }).await?;
        let known: BTreeSet<Name> = rows
            .into_iter()
            .flat_map(|row| {
                let ids = [row.dispatch_id.as_str(), row.thread_id.as_str()].map(str::parse);
                row.labels.into_iter().chain(ids.into_iter().flatten())
            })
            .collect();
        Ok(near(&wanted, known.into_iter().collect()))
    }

    async fn find_exactly(&self, text: &str) -> Result<Thread, Error> {
        let unknown = || Error::UnknownId { text: text.to_owned(), near: Vec::new() };
        let any =
            Filter { namespace: Some(self.catalogue().namespace().clone()), most: 1, ..Filter::default() };
        if text == "@" {
            let rows = self.dispatches(&any).await?;
            return rows.into_iter().next().ok_or_else(unknown).and_then(|row| self.of_row(row));
        }
        // A question is its dispatch's, by the same digits.
        let asked = text.strip_prefix("q_").map(|digits| format!("d_{digits}"));
        let prefix = asked.unwrap_or_else(|| text.to_owned());
        if prefix.starts_with("d_") || prefix.starts_with("t_") {
            let begins = Filter { prefix: Some(prefix), most: NEAR, ..any.clone() };
            // Whoever names a question means one that was asked, and not another dispatch that begins with the same digits.
            if text.starts_with("q_") {
                let asked = Some(vec![StateWord::NeedsInput]);
                let rows = self.dispatches(&Filter { states: asked, ..begins.clone() }).await?;
                if !rows.is_empty() {
                    return self.only_one(text, rows);
                }
            }
            let rows = self.dispatches(&begins).await?;
            return self.only_one(text, rows);
        }
        let Ok(label) = text.parse::<Name>() else { return Err(unknown()) };
        let rows = self.dispatches(&Filter { label: Some(label), ..any }).await?;
        rows.into_iter().next().ok_or_else(unknown).and_then(|row| self.of_row(row))
    }

    fn only_one(&self, text: &str, rows: Vec<DispatchRow>) -> Result<Thread, Error> {
        let exact = rows.iter().position(|row| row.dispatch_id.as_str() == text);
        let first = rows.get(exact.unwrap_or(0)).cloned();
        let one = first.ok_or_else(|| Error::UnknownId { text: text.to_owned(), near: Vec::new() })?;
        let another = rows.iter().any(|row| row.thread_id != one.thread_id);
        if another && exact.is_none() {
            // In the words of the question: who names a thread is shown threads.
            let word = |row: &DispatchRow| match text.get(..2) {
                Some("t_") => row.thread_id.to_string(),
                Some("q_") => row.dispatch_id.as_str().replacen("d_", "q_", 1),
                _ => row.dispatch_id.to_string(),
            };
            let mut matches: Vec<String> = rows.iter().map(word).collect();
            matches.dedup();
            matches.truncate(5);
            return Err(Error::AmbiguousId { text: text.to_owned(), matches });
        }
        self.of_row(one)
    }

    fn of_row(&self, row: DispatchRow) -> Result<Thread, Error> {
        Ok(Thread::new(self.clone(), self.engine()?, row.thread_id, row.dispatch_id))
    }

    /// Returns dispatches, newest first.
    pub async fn dispatches(&self, filter: &Filter) -> Result<Vec<DispatchRow>, Error> {
        let listed = self.engine()?.world().ledger.list(filter).await;
        listed.map_err(|error| Error::Carry(CarryError::Ledger(error)))
    }

    /// Returns who sat at a dispatch, when a person had taken its thread over.
    pub async fn person(&self, dispatch: &DispatchId) -> Result<Option<Answerer>, Error> {
        let papers = self.engine()?.papers(dispatch).await.map_err(Error::Carry)?;
        Ok(papers.job.person().cloned())
    }

    /// Returns how many come before a dispatch that waits.
    pub async fn place(&self, dispatch: &DispatchId) -> Result<Option<u64>, Error> {
        let place = self.engine()?.world().ledger.place(dispatch).await;
        place.map_err(|error| Error::Carry(CarryError::Ledger(error)))
    }

    pub(crate) async fn describe_dispatch(
        &self,
        engine: &Engine,
        id: &DispatchId,
    ) -> Result<DispatchResult, Error> {
        let view = engine.papers(id).await.map_err(Error::Carry)?;
        let thread = engine.view(&view.job.thread_id).await.map_err(Error::Carry)?;
        let report = view.report.as_ref().and_then(|text| engine.read_report(id, text));
        let shelf = &engine.world().shelf;
        let (stdout, stderr) = (said(&**shelf, id).await?, complained(&**shelf, id).await?);
        let home = match &view.job.ground {
            Some(_) => {
                let home = engine.world().grounds.came_home(&view.job.thread_id, id).await;
                home.map_err(|error| Error::Carry(CarryError::Shelf(error)))?.unwrap_or_default()
            }
            None => CameHome::default(),
        };
        let place = if view.claim.is_none() && view.state.is_live() { self.place(id).await? } else { None };
        let last = thread.thread.dispatches().last().is_some_and(|(last, _)| last == id);
        let stale = if last && *thread.thread.state() == ThreadState::Waiting {
            engine.stale_since(&view, thread.began_at).await
        } else {
            Vec::new()
        };
        let mut result = DispatchResult::from(Read { view, thread, report, home, stdout, stderr, place });
        if let Some(asked) = &mut result.needs_input {
            asked.stale = stale;
        }
        Ok(result)
    }

    /// Does what every command does first: takes in what has ended, turns timers that are due, and names what nobody carries.
    pub async fn recover(&self) -> Result<Recovered, Error> {
        self.engine()?.recover().await.map_err(Error::Carry)
    }

    /// Carries threads until each of them rests, all at once. What somebody else carries is left to them.
    pub async fn carry(&self, threads: Vec<ThreadId>) -> Result<(), Error> {
        let engine = self.engine()?;
        let mut carriers = tokio::task::JoinSet::new();
        for thread in threads {
            let lease = engine.world().leases.try_take(&thread).await;
            let Some(lease) = lease.map_err(|error| Error::Carry(CarryError::Lease(error)))? else {
                continue;
            };
            let engine = engine.clone();
            carriers.spawn(async move { engine.carry_on(&thread, &*lease).await });
        }
        let mut failed = None;
        while let Some(carried) = carriers.join_next().await {
            match carried {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => failed = Some(error),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        failed.map_or(Ok(()), |error| Err(Error::Carry(error)))
    }

    /// Takes away what nobody may want any more.
    pub async fn sweep(&self, mode: Sweep) -> Result<Swept, Error> {
        let most = self.settings().map(|settings| settings.store_max_bytes);
        self.engine()?.sweep(mode, most).await.map_err(Error::Carry)
    }

    /// Reads of a file that a dispatch left, such as a log or a patch, from a place on. `None`: there is none.
    pub async fn read_left(
        &self,
        dispatch: &DispatchId,
        path: &str,
        from: u64,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let read = self.engine()?.world().shelf.read(dispatch, path, from, most).await;
        read.map_err(|error| Error::Carry(CarryError::Shelf(error)))
    }
}

/// When a dispatch that is accepted is to have room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// With the same write, if there is some: it is carried here.
    Now,
    /// When somebody carries it.
    Later,
}

async fn take(engine: &Engine, thread: &ThreadId) -> Result<Option<Box<dyn Lease>>, Error> {
    let lease = engine.world().leases.try_take(thread).await;
    lease.map_err(|error| Error::Carry(CarryError::Lease(error)))
}

async fn said(shelf: &dyn Shelf, id: &DispatchId) -> Result<String, Error> {
    let mut text = String::new();
    loop {
        let more = shelf.lines(id, text.len() as u64).await;
        let more = more.map_err(|error| Error::Carry(CarryError::Shelf(error)))?;
        if more.is_empty() {
            return Ok(text);
        }
        text.push_str(&more);
    }
}

async fn complained(shelf: &dyn Shelf, id: &DispatchId) -> Result<String, Error> {
    let read = shelf.read(id, "worker.stderr", 0, STDERR_BYTES).await;
    let bytes = read.map_err(|error| Error::Carry(CarryError::Shelf(error)))?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
