//! What must be true when a story is over.

use std::collections::BTreeSet;
use std::fmt::Write;

use agora_core::entry::{Entry, Happening};
use agora_core::provider::ledger::Filter;
use agora_core::route::IfStale;
use agora_core::state::{QuestionState, Thread, ThreadState};
use agora_core::{DispatchId, ThreadId};

use crate::journal::is_reply;
use crate::scenario::Story;
use crate::seams::whole;

impl Story {
    /// Checks everything, and returns what was recorded.
    pub(crate) fn check(&self) -> String {
        let mut text = String::new();
        self.check_machine();
        let journal = self.machine.journal();
        let mut there: BTreeSet<DispatchId> = BTreeSet::new();
        for (id, entries) in journal.threads() {
            for entry in entries {
                writeln!(text, "{id} {} {}", entry.seq, entry.what.kind()).unwrap();
            }
            if let Some(thread) = journal.thread(id) {
                there.extend(thread.dispatches().iter().map(|(id, _)| id.clone()));
                self.check_thread(id, entries, &thread, journal.by_itself(&thread));
            } else {
                assert_eq!(whole(self.ledger.thread(id)).unwrap(), None, "{id} is forgotten");
            }
        }
        for (thread, dispatch) in &self.told.words().accepted {
            let (_, entries) =
                journal.threads().find(|(id, _)| *id == thread).expect("what was accepted is recorded");
            assert!(
                entries.iter().any(|entry| accepts(entry, dispatch)),
                "{dispatch} was accepted, and is lost"
            );
        }
        let all = Filter { most: usize::MAX, ..Filter::default() };
        let listed = whole(self.ledger.list(&all)).unwrap();
        let listed: BTreeSet<DispatchId> = listed.into_iter().map(|row| row.dispatch_id).collect();
        assert_eq!(listed, there, "what is listed is what was recorded and not forgotten");
        let state = self.machine.state();
        let strays: Vec<_> = state.places.keys().filter(|id| !there.contains(*id)).collect();
        assert!(strays.is_empty(), "places are left of what nobody knows: {strays:?}");
        text
    }

    fn check_machine(&self) {
        let state = self.machine.state();
        assert!(state.leases.is_empty(), "invariant 9: a lease is left: {:?}", state.leases);
        let (busiest, room) = (state.busiest, self.room);
        assert!(busiest <= room as usize, "{busiest} ran at once, with room for {room}");
        for (id, worker) in &state.workers {
            assert!(!worker.alive && worker.runs <= 1, "invariants 2 and 9: {id}: {worker:?}");
        }
    }

    fn check_thread(&self, id: &ThreadId, entries: &[Entry], thread: &Thread, own: usize) {
        let view = whole(self.ledger.thread(id)).unwrap().expect("what was recorded is not lost");
        let read = whole(self.ledger.read(id, 0, usize::MAX)).unwrap();
        assert_eq!(read, entries, "{id}: what is read is what was recorded, in its order");
        assert_eq!(view.thread, *thread, "{id}: replay is what was live");
        assert_eq!(view.cancel_wish, None, "{id}: a wish is left");
        assert!(entries.windows(2).all(|pair| pair[0].at <= pair[1].at), "{id}: time runs forward");
        assert!(
            entries.iter().zip(1..).all(|(entry, seq)| entry.seq == seq),
            "invariant 10: {id}: without gaps"
        );
        self.store.check(id);
        let words = self.told.words();
        let terminal = |entry: &&Entry| matches!(&entry.what, Happening::Event(event) if event.is_terminal());
        let ends = entries.iter().filter(terminal).count();
        assert_eq!(ends, thread.dispatches().len(), "invariants 2 and 10: {id}: each dispatch has one end");
        let waits = matches!(thread.state(), ThreadState::Waiting);
        assert!(waits || thread.has_ended(), "{id} does not rest: {:?}", thread.state());
        for asked in thread.questions() {
            // Invariants 4 and 5; the journal has looked at who answered, and when something expired.
            let kept = match asked.state {
                QuestionState::Open => waits,
                QuestionState::Cancelled => words.cancels.contains(id),
                QuestionState::Answered | QuestionState::Declined => {
                    self.machine.state().tries.iter().any(|(question, _)| *question == asked.id)
                }
                QuestionState::Expired => asked.terms.expiry.is_some(),
                QuestionState::Stale => asked.terms.if_stale == IfStale::Fail,
                QuestionState::Asked => false,
            };
            assert!(kept, "invariants 4 and 5: {id}: its question is {:?}, and nobody did that", asked.state);
        }
        let wanted = words.continues.get(id).copied().unwrap_or_default();
        let next = thread.dispatches().len() - 1;
        let replied = entries.iter().filter(|entry| is_reply(&entry.what)).count();
        assert!(
            next <= wanted + own + replied,
            "invariant 3: {id} went on {next} times: {wanted} by wish, {own} by itself, {replied} by answers"
        );
        let state = self.machine.state();
        assert!(waits || !state.secrets.contains(id), "invariant 9: {id}: its secrets are left");
        for (dispatch, _) in thread.dispatches() {
            let left = state.places.get(dispatch).is_some_and(|place| place.workspace);
            assert!(!left, "{dispatch}: its workspace is left");
        }
    }
}

fn accepts(entry: &Entry, dispatch: &DispatchId) -> bool {
    matches!(&entry.what, Happening::Event(event) if event.dispatch_id() == dispatch)
}
