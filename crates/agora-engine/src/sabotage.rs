//! Bugs, put in on purpose: a test that finds none of them would find no other either.
//!
//! Without the feature `sabotage` there are none. With it there are none either until a test asks for one, on its own thread.

/// A mistake that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A thread is carried although another has its lease.
    NoLeaseCheck,
    /// A dispatch starts although there is no room.
    NoRoomCheck,
    /// A thread that continues itself is not looked at again before it does.
    DoubleResume,
    /// An end is recorded while the worker may still run.
    EndsTooEarly,
    /// What an engine says of an end overrules what the worker stored.
    ForgetsOutcome,
    /// A dispatch that waits does not hear that it is cancelled.
    LosesWish,
    /// A request is recorded without its key.
    ForgetsKey,
    /// A question is recorded with its pause, and never opened.
    LosesQuestion,
    /// Sweeping does not ask whether a thread is open.
    SweepsOpen,
    /// An answer counts also when it comes after the question's end.
    IgnoresExpiry,
    /// An answer is recorded without the dispatch that goes on with it.
    AnswerLeadsNowhere,
    /// A thread that is continued does not hear again what was answered.
    ForgetsAnswer,
    /// Whoever answers second is told that it counts.
    BelievesItWon,
    /// Nobody asks who answers.
    AnybodyAnswers,
    /// A reminder that nobody reacts to is an answer.
    ReminderAnswers,
}

#[cfg(feature = "sabotage")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    struct Restored(Option<Bug>);

    impl Drop for Restored {
        fn drop(&mut self) {
            BUG.set(self.0);
        }
    }

    /// Does some work with a bug in everything that runs on this thread meanwhile.
    pub fn with<T>(bug: Bug, work: impl FnOnce() -> T) -> T {
        let _restored = Restored(BUG.replace(Some(bug)));
        work()
    }

    pub(crate) fn is(bug: Bug) -> bool {
        BUG.get() == Some(bug)
    }
}

#[cfg(feature = "sabotage")]
pub(crate) use switch::is;
#[cfg(feature = "sabotage")]
pub use switch::with;

#[cfg(not(feature = "sabotage"))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

/// What a carrier without a lease holds.
#[derive(Debug)]
pub(crate) struct NoLease;

impl agora_core::provider::lease::Lease for NoLease {}
