//! The one thread that writes.
//!
//! It takes everything that waits into one transaction, each piece of work in a savepoint of its own: a refused one is
//! undone alone, and one wait for the disk makes all the others durable. Nobody hears back before that.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use agora_core::provider::ledger::LedgerError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::bell::Bell;
use super::fault::Fault;
use super::files::Files;
use super::row::prepare;

/// The most that share a transaction: the first of them waits for the last.
const TOGETHER: usize = 256;

/// The door to the thread that writes, which starts when there is something to write and ends with the ledger.
#[derive(Debug)]
pub(super) struct Writer {
    files: Files,
    bell: Bell,
    queue: Mutex<Option<mpsc::Sender<Box<dyn Work>>>>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    pub(super) fn new(files: Files, bell: Bell) -> Self {
        Self { files, bell, queue: Mutex::default(), commits: Arc::default() }
    }

    /// Returns how many transactions wrote something.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Does a piece of work, all or nothing, and returns when it is durable. It may be run again when those it shared a
    /// transaction with made that fail.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Box::new(Asked { work, answer: None, reply }))?;
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(self.files.nobody_writes(io::Error::other("the thread that writes has stopped"))),
        }
    }

    fn enqueue(&self, work: Box<dyn Work>) -> Result<(), LedgerError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let work = match &*queue {
            None => work,
            Some(sender) => match sender.send(work) {
                Ok(()) => return Ok(()),
                // It panicked over something else; this work gets a new one.
                Err(mpsc::SendError(work)) => work,
            },
        };
        let (sender, waiting) = mpsc::channel();
        let desk = Desk {
            files: self.files.clone(),
            bell: self.bell.clone(),
            open: None,
            commits: Arc::clone(&self.commits),
        };
        let thread = thread::Builder::new().name("ledger".into()).spawn(move || desk.serve(&waiting));
        thread.map_err(|error| self.files.nobody_writes(error))?;
        // It lives until the sender is gone.
        let _ = sender.send(work);
        *queue = Some(sender);
        Ok(())
    }
}

/// A piece of work with somebody who waits for it.
trait Work: Send + fmt::Debug {
    /// Does it, and keeps the answer. False: whatever it wrote is to be undone.
    fn run(&mut self, connection: &Connection, files: &Files) -> bool;

    /// Answers, once it is known whether it is durable.
    fn reply(self: Box<Self>, durable: Result<(), LedgerError>);
}

struct Asked<T, F> {
    work: F,
    answer: Option<Result<T, LedgerError>>,
    reply: oneshot::Sender<Result<T, LedgerError>>,
}

impl<T, F> fmt::Debug for Asked<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, Fault> + Send> Work for Asked<T, F> {
    fn run(&mut self, connection: &Connection, files: &Files) -> bool {
        let answer = (self.work)(connection).map_err(|fault| fault.at("write", &files.ledger));
        self.answer.insert(answer).is_ok()
    }

    fn reply(self: Box<Self>, durable: Result<(), LedgerError>) {
        // Refused is refused, whatever became of the rest.
        let answer = match (self.answer, durable) {
            (Some(Err(refused)), _) | (_, Err(refused)) => Err(refused),
            (Some(Ok(answer)), Ok(())) => Ok(answer),
            (None, Ok(())) => return,
        };
        // Whoever asked may have gone.
        let _ = self.reply.send(answer);
    }
}

/// What the thread has before it.
#[derive(Debug)]
struct Desk {
    files: Files,
    bell: Bell,
    open: Option<(Connection, File)>,
    commits: Arc<AtomicU64>,
}

impl Desk {
    fn serve(mut self, waiting: &mpsc::Receiver<Box<dyn Work>>) {
        while let Ok(first) = waiting.recv() {
            let mut batch = vec![first];
            batch.extend(waiting.try_iter().take(TOGETHER - 1));
            if batch.len() > 1 && self.together(&mut batch).is_ok() {
                batch.into_iter().for_each(|work| work.reply(Ok(())));
                continue;
            }
            // Alone, or one of them made the transaction fail: each for itself, so that it fails for that one only.
            for mut work in batch {
                let durable = self.together(std::slice::from_mut(&mut work));
                work.reply(durable);
            }
        }
    }

    /// Does all of it in one transaction.
    fn together(&mut self, batch: &mut [Box<dyn Work>]) -> Result<(), LedgerError> {
        if self.open.is_none() {
            self.bell.open()?;
            self.open = Some(self.files.open_to_write()?);
        }
        let Some((connection, lock)) = &self.open else { return Ok(()) };
        self.files.lock(lock)?;
        let before = connection.total_changes();
        let done = transaction(connection, batch, &self.files);
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        // It cannot fail but for a descriptor that is none, and then there is no lock either.
        let _ = lock.unlock();
        done.map_err(|fault| fault.at("write", &self.files.ledger))?;
        if connection.total_changes() != before {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.bell.ring();
        }
        Ok(())
    }
}

fn transaction(connection: &Connection, batch: &mut [Box<dyn Work>], files: &Files) -> Result<(), Fault> {
    let run = |sql: &str| prepare(connection, sql)?.execute([]);
    run("BEGIN IMMEDIATE")?;
    let alone = batch.len() == 1;
    for work in batch {
        run("SAVEPOINT work")?;
        let keep = work.run(connection, files);
        if connection.is_autocommit() {
            // SQLite gave the whole transaction up: the disk is full, or worse. One that was alone has its answer.
            let lost = io::Error::other("the transaction was given up");
            return if alone && !keep { Ok(()) } else { Err(Fault::unwritable(lost)) };
        }
        if !keep {
            run("ROLLBACK TO work")?;
        }
        run("RELEASE work")?;
    }
    run("COMMIT")?;
    Ok(())
}
