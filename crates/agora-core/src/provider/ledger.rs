//! The durable, ordered record of what happened, and the papers that belong to it.
//!
//! What a thread *is* follows from its entries alone. Beside them stand a dispatch's papers, which nothing can be folded from:
//! its job, its worker's report, who has claimed it, and that somebody wishes to cancel it.

use std::fmt;

use async_trait::async_trait;

use super::Unavailable;
use crate::answer::Answerer;
use crate::entry::{Entry, EntryError, Happening};
use crate::hash::ContentHash;
use crate::id::{DispatchId, QuestionId, ThreadId};
use crate::job::Job;
use crate::name::{Name, Namespace};
use crate::question::Question;
use crate::state::{DispatchState, Illegal, Thread};
use crate::time::Timestamp;

/// What is recorded together: all of it, or nothing.
#[derive(Clone, Debug)]
pub struct Append {
    pub namespace: Namespace,
    pub thread_id: ThreadId,
    /// How many entries of the thread the caller has seen.
    pub seen: u64,
    pub what: Vec<Happening>,
    pub papers: Vec<Paper>,
}

/// What is kept beside the entries.
#[derive(Clone, Debug)]
pub enum Paper {
    /// The job of a dispatch that is accepted here. Each has one.
    Job(Box<Job>),
    /// The caller's own name for a request, under which it is accepted once.
    Key { key: String, request: ContentHash, dispatch_id: DispatchId },
    /// Accepts only as much as this allows. A dispatch that is known by its key counts for nothing: it is not accepted again.
    Allowance(Allowance),
    /// Takes room for a dispatch that is accepted here, as [`Ledger::claim`] would right after. Where there is none it waits.
    Claim { dispatch_id: DispatchId, mark: ClaimMark, most: u32 },
    /// What a worker reported, as it wrote it.
    Report { dispatch_id: DispatchId, text: String },
    /// What is to be told to somebody outside, at least once.
    Outgoing { destination: String, body: String },
}

/// How many dispatches with a label there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub label: Name,
    /// As many as are to be accepted from here on, this one among them: of many that belong together the first is refused, and not the last.
    pub more: u32,
    /// At once, accepted or running.
    pub most_live: u32,
    /// All together, as far as they are recorded.
    pub most: u32,
}

impl Allowance {
    /// Tells whether there may be as many more, beside those that there are. Each number may be cut off where it is too much anyhow.
    pub fn allows(&self, there: Labelled) -> Result<(), LedgerError> {
        let with_more = |number: u64| number.saturating_add(u64::from(self.more));
        if with_more(there.live) > u64::from(self.most_live) {
            return Err(LedgerError::NotAllowed(Beyond::Live(there.live)));
        }
        if with_more(there.all) > u64::from(self.most) {
            return Err(LedgerError::NotAllowed(Beyond::All(there.all)));
        }
        Ok(())
    }
}

/// How many dispatches with a label there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labelled {
    pub live: u64,
    pub all: u64,
}

/// What there would be too many of, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    Live(u64),
    All(u64),
}

/// Says why something was not recorded or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Somebody else recorded something first; fold it and decide again.
    #[error("the thread has moved on to entry {now}")]
    Moved { now: u64 },
    /// It cannot have happened to the thread in its state.
    #[error("that cannot happen to the thread now")]
    Illegal(#[source] Illegal),
    /// The id is another dispatch's.
    #[error("there is a dispatch `{0}` already")]
    DispatchTaken(DispatchId),
    /// The key was used before, for this dispatch and this request.
    #[error("the idempotency key was used for the dispatch `{dispatch_id}`")]
    KeyTaken { dispatch_id: DispatchId, request: ContentHash },
    /// There would be more with a label than may be. Nothing was recorded.
    #[error("there may be no more dispatches with that label")]
    NotAllowed(Beyond),
    /// It could never be read again. Nothing was recorded.
    #[error("that cannot be recorded")]
    Unreadable(#[source] EntryError),
    /// Nothing in it can be relied on.
    #[error("the ledger is damaged: {0}")]
    Damaged(String),
    /// One thread cannot be read. The others are not concerned.
    #[error("what is recorded of `{thread_id}` is damaged: {what}")]
    ThreadDamaged { thread_id: ThreadId, what: String },
    #[error(transparent)]
    Unavailable(Unavailable),
}

/// Whether a dispatch may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the caller's to start, and takes up room from now on until it ends.
    Granted,
    /// Somebody claimed it before.
    Earlier(ClaimMark),
    /// There is no room, or this many come before it.
    Waits { ahead: u64 },
    /// It has ended, or there is no such dispatch.
    Over,
}

/// Who claimed a dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMark {
    pub at: Timestamp,
    /// Which start of which machine: what ran before a reboot does not run any more.
    pub boot: String,
}

/// A thread, folded, with what stands beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadView {
    pub namespace: Namespace,
    pub thread_id: ThreadId,
    /// How many entries were folded.
    pub seen: u64,
    pub thread: Thread,
    pub began_at: Timestamp,
    /// When the last thing happened to it.
    pub moved_at: Timestamp,
    /// Somebody's wish to cancel the dispatch that is live.
    pub cancel_wish: Option<CancelWish>,
}

/// A wish to cancel. The first counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelWish {
    pub at: Timestamp,
    /// Who it was, where that is known.
    pub by: Option<Answerer>,
}

/// A dispatch with its papers.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchView {
    pub job: Job,
    pub state: DispatchState,
    pub accepted_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// From start to end, as the terminal event says.
    pub duration_ms: Option<u64>,
    pub claim: Option<ClaimMark>,
    pub report: Option<String>,
}

/// A dispatch as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchRow {
    pub dispatch_id: DispatchId,
    pub thread_id: ThreadId,
    pub subagent: Name,
    pub target: Name,
    pub labels: Vec<Name>,
    pub state: StateWord,
    pub accepted_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub claimed: bool,
}

/// A dispatch's state without what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateWord {
    Accepted,
    Running,
    Finished,
    NeedsInput,
    Failed,
    Cancelled,
}

impl StateWord {
    pub const ALL: [Self; 6] =
        [Self::Accepted, Self::Running, Self::Finished, Self::NeedsInput, Self::Failed, Self::Cancelled];

    /// Returns the state as it stands in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::NeedsInput => "needs_input",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Tells whether a worker of it may be alive.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Accepted | Self::Running)
    }
}

impl From<&DispatchState> for StateWord {
    fn from(state: &DispatchState) -> Self {
        match state {
            DispatchState::Accepted => Self::Accepted,
            DispatchState::Running => Self::Running,
            DispatchState::Finished => Self::Finished,
            DispatchState::NeedsInput => Self::NeedsInput,
            DispatchState::Failed(_) => Self::Failed,
            DispatchState::Cancelled => Self::Cancelled,
        }
    }
}

/// Which dispatches a list shows. Newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// `None`: of every namespace.
    pub namespace: Option<Namespace>,
    pub thread: Option<ThreadId>,
    pub label: Option<Name>,
    /// `None`: in any state.
    pub states: Option<Vec<StateWord>>,
    /// Those whose id, or whose thread's id, begins so.
    pub prefix: Option<String>,
    /// Only the last of each thread: a row a thread.
    pub last: bool,
    /// Only those accepted before this dispatch, for the next page.
    pub before: Option<DispatchId>,
    pub most: usize,
}

/// A question that is open, as an inbox shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    pub question_id: QuestionId,
    pub namespace: Namespace,
    pub thread_id: ThreadId,
    /// The dispatch that asked.
    pub dispatch_id: DispatchId,
    pub subagent: Name,
    pub labels: Vec<Name>,
    pub question: Question,
    pub asked_at: Timestamp,
}

/// Which open questions a list shows. Those that wait longest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFilter {
    /// `None`: of every namespace.
    pub namespace: Option<Namespace>,
    /// Only those asked after this one, for the next page.
    pub after: Option<(ThreadId, QuestionId)>,
    pub most: usize,
}

/// How much there is in a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Dispatches whose worker runs or is being started.
    pub running: u64,
    /// Dispatches that wait for room.
    pub queued: u64,
    /// Questions that are open.
    pub questions: u64,
    /// When the question was asked that waits longest.
    pub oldest_asked_at: Option<Timestamp>,
}

/// What a look at the ledger itself found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// How many threads were looked at.
    pub threads: usize,
    /// Those that are not as they were recorded, and what is wrong with each.
    pub damaged: Vec<(ThreadId, String)>,
}

/// Something to be told to somebody outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The same at every try.
    pub id: u64,
    pub thread_id: ThreadId,
    pub destination: String,
    pub body: String,
    pub tries: u32,
}

/// Hears that something was recorded, by whichever process.
#[async_trait]
pub trait Watch: fmt::Debug + Send {
    /// Returns when anything may have been recorded since this watch was made or last returned, and when a process that
    /// records has died. It may return without a reason, and never misses one.
    async fn next(&mut self) -> Result<(), LedgerError>;
}

/// Records what happens to threads.
///
/// Every implementation keeps true: entries are numbered from 1 within a thread, without gaps; an append is all or
/// nothing and durable when it returns; nothing is recorded that [`crate::state::Thread::after`] refuses, or that could not
/// be read again; a thread that cannot be read keeps nobody from the others; of several
/// appends with the same expectation one succeeds; time does not run backwards within a thread, whatever the clock does;
/// a claim is granted once, and never to more dispatches of a target at once than there is room for; nothing is accepted beyond an
/// allowance, whoever accepts at once.
#[async_trait]
pub trait Ledger: fmt::Debug + Send + Sync {
    /// Records what happened after exactly `seen` entries of the thread, numbers and dates it.
    async fn append(&self, append: Append) -> Result<Vec<Entry>, LedgerError>;

    /// Returns up to `most` entries of a thread after the first `seen`, in order; none for an unknown thread.
    async fn read(&self, thread: &ThreadId, seen: u64, most: usize) -> Result<Vec<Entry>, LedgerError>;

    /// Returns up to `most` entries of a namespace after a place in the order of all, each with its place.
    async fn read_all(
        &self,
        namespace: &Namespace,
        after: u64,
        most: usize,
    ) -> Result<Vec<(u64, Entry)>, LedgerError>;

    /// Returns the place of the last entry in the order of all, of every namespace; 0 when there is none.
    async fn end(&self) -> Result<u64, LedgerError>;

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadView>, LedgerError>;

    async fn dispatch(&self, dispatch: &DispatchId) -> Result<Option<DispatchView>, LedgerError>;

    async fn list(&self, filter: &Filter) -> Result<Vec<DispatchRow>, LedgerError>;

    /// Looks whether as much may be accepted now, as an append with this paper would. Takes as long as the allowance is large, however
    /// much is recorded.
    async fn allows(&self, allowance: &Allowance) -> Result<(), LedgerError>;

    /// Returns questions that are open. One that cannot be read is left out: whoever asks for its thread is told.
    async fn questions(&self, filter: &OpenFilter) -> Result<Vec<OpenQuestion>, LedgerError>;

    /// Counts what runs, waits and asks, however much that is, without reading it.
    async fn tally(&self, namespace: &Namespace) -> Result<Tally, LedgerError>;

    /// Returns the threads that somebody has to carry, of every namespace: a dispatch of theirs is live, or they are to go on.
    async fn carried(&self) -> Result<Vec<ThreadId>, LedgerError>;

    /// Returns the threads that move on by themselves by that moment, those due first.
    async fn due(&self, by: Timestamp) -> Result<Vec<ThreadId>, LedgerError>;

    /// Returns the moment when the next thread moves on by itself.
    async fn next_due(&self) -> Result<Option<Timestamp>, LedgerError>;

    /// Returns the dispatches of a target that may start now where `most` may run at once: continued threads first, then by
    /// priority, then in the order they came.
    async fn head(&self, target: &Name, most: u32) -> Result<Vec<DispatchId>, LedgerError>;

    /// Returns the threads whose dispatch takes up room at a target, in the order they came.
    async fn underway(&self, target: &Name) -> Result<Vec<ThreadId>, LedgerError>;

    /// Returns how many dispatches of the same target come before one that waits. `None`: it does not wait.
    async fn place(&self, dispatch: &DispatchId) -> Result<Option<u64>, LedgerError>;

    /// Takes room for a dispatch that is among the [`Ledger::head`] of its target.
    async fn claim(&self, dispatch: &DispatchId, mark: ClaimMark, most: u32) -> Result<Claim, LedgerError>;

    /// Takes a claim over whose worker never ran: it is another's from now on. False: it is not as the caller saw it.
    async fn reclaim(
        &self,
        dispatch: &DispatchId,
        seen: &ClaimMark,
        mark: ClaimMark,
    ) -> Result<bool, LedgerError>;

    /// Notes that somebody wishes to cancel the thread's live dispatch. Forgotten when the dispatch ends; false when none is live.
    async fn wish_cancel(&self, thread: &ThreadId, by: Option<&Answerer>) -> Result<bool, LedgerError>;

    /// Returns the threads that somebody wishes to cancel, of every namespace.
    async fn wished(&self) -> Result<Vec<ThreadId>, LedgerError>;

    /// Returns what is to be told outside by that moment, oldest first.
    async fn outgoing(&self, by: Timestamp, most: usize) -> Result<Vec<Outgoing>, LedgerError>;

    /// Notes how a try went: told, or to be tried again at that moment.
    async fn told(&self, id: u64, again_at: Option<Timestamp>) -> Result<(), LedgerError>;

    /// Returns the threads that ended by that moment and whose retention is over, oldest first.
    async fn expired(&self, by: Timestamp, most: usize) -> Result<Vec<ThreadId>, LedgerError>;

    /// Forgets a thread that has ended, with all its papers. False: there is none, or it has not ended.
    async fn forget(&self, thread: &ThreadId) -> Result<bool, LedgerError>;

    /// Looks whether what is recorded is what was recorded: of every open thread, and of the newest others.
    async fn check(&self, newest: usize) -> Result<Checked, LedgerError>;

    /// Takes a thread out that cannot be read, and keeps what is left of its record aside. Returns the jobs of its dispatches, as
    /// far as they can be read. `None`: there is none, or it can be read.
    async fn discard(&self, thread: &ThreadId) -> Result<Option<Vec<Job>>, LedgerError>;

    /// Starts to listen.
    fn watch(&self) -> Result<Box<dyn Watch>, LedgerError>;
}
