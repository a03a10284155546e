//! What the ledger in memory holds, and what can be asked of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::job::{self, Job};
use agora_core::provider::ledger::{
    Allowance, Append, CancelWish, Claim, ClaimMark, DispatchRow, DispatchView, Filter, Labelled,
    LedgerError, OpenFilter, OpenQuestion, Outgoing, Paper, StateWord, ThreadView,
};
use agora_core::record::Record;
use agora_core::state::{DispatchState, Illegal, QuestionState, Thread};
use agora_core::{ContentHash, DispatchId, Name, Namespace, ThreadId, Timestamp};

const DAY: Duration = Duration::from_secs(86_400);

#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    threads: BTreeMap<ThreadId, Recorded>,
    /// The order of all entries: whose, and which. `None`: it is forgotten, and its place stays empty.
    order: Vec<Option<(ThreadId, u64)>>,
    dispatches: HashMap<DispatchId, Filed>,
    accepted: Vec<DispatchId>,
    keys: HashMap<(Namespace, String), (DispatchId, ContentHash)>,
    out: BTreeMap<u64, (Outgoing, Timestamp)>,
    told: u64,
}

/// A thread's entries, and what they fold to.
#[derive(Clone, Debug)]
struct Recorded {
    thread: Thread,
    entries: Vec<Entry>,
    cancel_wish: Option<CancelWish>,
}

/// A dispatch's papers.
#[derive(Clone, Debug)]
struct Filed {
    job: Job,
    claim: Option<ClaimMark>,
    report: Option<String>,
}

impl Book {
    pub(super) fn append(&mut self, append: Append, now: Timestamp) -> Result<Vec<Entry>, LedgerError> {
        let Append { namespace, thread_id, seen, what, papers } = append;
        let before = self.threads.get(&thread_id);
        let (mut thread, mut entries) = match before {
            Some(recorded) => (Some(recorded.thread.clone()), recorded.entries.clone()),
            None => (None, Vec::new()),
        };
        let there = entries.len() as u64;
        if there != seen {
            return Err(LedgerError::Moved { now: there });
        }
        let now = entries.last().map_or(now, |last| last.at.max(now));
        for (what, seq) in what.into_iter().zip(seen + 1..) {
            let next = match thread {
                None => Thread::begin(&what),
                Some(thread) => thread.after(&what),
            };
            thread = Some(next.map_err(LedgerError::Illegal)?);
            let (namespace, thread_id) = (namespace.clone(), thread_id.clone());
            // Nothing else holds JSON that an agent wrote, and a simulation has no time to write all of it down.
            let asks = matches!(what, Happening::Event(Event::NeedsInput { .. }));
            let entry = Entry { seq, at: now, namespace, thread_id, what };
            if asks {
                entry.encode().map_err(LedgerError::Unreadable)?;
            }
            entries.push(entry);
        }
        let Some(thread) = thread else { return Ok(Vec::new()) };
        let new = entries[usize::try_from(seen).unwrap_or(usize::MAX)..].to_vec();
        self.check_papers(&namespace, &thread_id, &new, &papers)?;
        let ends = events(&new).any(|(event, _)| event.is_terminal());
        let wished = before.and_then(|recorded| recorded.cancel_wish.clone()).filter(|_| !ends);
        self.order.extend(new.iter().map(|entry| Some((thread_id.clone(), entry.seq))));
        self.threads.insert(thread_id.clone(), Recorded { thread, entries, cancel_wish: wished });
        self.file(&namespace, &thread_id, papers, now);
        Ok(new)
    }

    fn check_papers(
        &self,
        namespace: &Namespace,
        thread: &ThreadId,
        new: &[Entry],
        papers: &[Paper],
    ) -> Result<(), LedgerError> {
        let accepts = |id: &DispatchId| {
            events(new).any(|(event, _)| matches!(event, Event::Accepted { .. }) && event.dispatch_id() == id)
        };
        for paper in papers {
            match paper {
                Paper::Job(job) if job.thread_id != *thread || !accepts(&job.dispatch_id) => {
                    return Err(LedgerError::Illegal(Illegal::UnknownDispatch));
                }
                Paper::Job(job) if self.dispatches.contains_key(&job.dispatch_id) => {
                    return Err(LedgerError::DispatchTaken(job.dispatch_id.clone()));
                }
                Paper::Key { key, .. } => {
                    if let Some((id, request)) = self.keys.get(&(namespace.clone(), key.clone())) {
                        let (dispatch_id, request) = (id.clone(), *request);
                        return Err(LedgerError::KeyTaken { dispatch_id, request });
                    }
                }
                Paper::Job(_)
                | Paper::Allowance(_)
                | Paper::Claim { .. }
                | Paper::Report { .. }
                | Paper::Outgoing { .. } => {}
            }
        }
        let allowed = papers.iter().map(|paper| match paper {
            Paper::Allowance(allowance) => self.allows(allowance),
            _ => Ok(()),
        });
        allowed.collect()
    }

    pub(super) fn allows(&self, allowance: &Allowance) -> Result<(), LedgerError> {
        let label = Some(allowance.label.clone());
        let rows = self.list(&Filter { label, most: usize::MAX, ..Filter::default() });
        let live = rows.iter().filter(|row| row.state.is_live()).count();
        allowance.allows(Labelled { live: live as u64, all: rows.len() as u64 })
    }

    fn file(&mut self, namespace: &Namespace, thread: &ThreadId, papers: Vec<Paper>, now: Timestamp) {
        let mut claims = Vec::new();
        for paper in papers {
            match paper {
                Paper::Claim { dispatch_id, mark, most } => claims.push((dispatch_id, mark, most)),
                Paper::Allowance(_) => {}
                Paper::Job(job) => {
                    let id = job.dispatch_id.clone();
                    self.accepted.push(id.clone());
                    self.dispatches.insert(id, Filed { job: *job, claim: None, report: None });
                }
                Paper::Key { key, request, dispatch_id } => {
                    self.keys.insert((namespace.clone(), key), (dispatch_id, request));
                }
                Paper::Report { dispatch_id, text } => {
                    if let Some(filed) = self.dispatches.get_mut(&dispatch_id) {
                        filed.report = Some(text);
                    }
                }
                Paper::Outgoing { destination, body } => {
                    self.told += 1;
                    let id = self.told;
                    let outgoing = Outgoing { id, thread_id: thread.clone(), destination, body, tries: 0 };
                    self.out.insert(id, (outgoing, now));
                }
            }
        }
        for (id, mark, most) in claims {
            self.claim(&id, mark, most);
        }
    }

    pub(super) fn read(&self, thread: &ThreadId, seen: u64, most: usize) -> Vec<Entry> {
        let entries = self.threads.get(thread).map(|recorded| recorded.entries.as_slice());
        let seen = usize::try_from(seen).unwrap_or(usize::MAX);
        entries.unwrap_or_default().iter().skip(seen).take(most).cloned().collect()
    }

    pub(super) fn read_all(&self, namespace: &Namespace, after: u64, most: usize) -> Vec<(u64, Entry)> {
        let numbered = (1_u64..).zip(&self.order).skip(usize::try_from(after).unwrap_or(usize::MAX));
        let entries = numbered.filter_map(|(place, entry)| {
            let (thread, seq) = entry.as_ref()?;
            let seq = usize::try_from(*seq).ok()?;
            let entry = self.threads.get(thread)?.entries.get(seq - 1)?;
            (entry.namespace == *namespace).then(|| (place, entry.clone()))
        });
        entries.take(most).collect()
    }

    /// The last place that still holds an entry: a thread that was forgotten holds none.
    pub(super) fn end(&self) -> u64 {
        self.order.iter().rposition(Option::is_some).map_or(0, |last| last as u64 + 1)
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    pub(super) fn thread(&self, id: &ThreadId) -> Option<ThreadView> {
        let Recorded { thread, entries, cancel_wish } = self.threads.get(id)?;
        let (first, last) = (entries.first()?, entries.last()?);
        Some(ThreadView {
            namespace: first.namespace.clone(),
            thread_id: id.clone(),
            seen: entries.len() as u64,
            thread: thread.clone(),
            began_at: first.at,
            moved_at: last.at,
            cancel_wish: cancel_wish.clone(),
        })
    }

    pub(super) fn dispatch(&self, id: &DispatchId) -> Option<DispatchView> {
        let Filed { job, claim, report } = self.dispatches.get(id)?.clone();
        let recorded = self.threads.get(&job.thread_id)?;
        let (_, state) = recorded.thread.dispatches().iter().find(|(known, _)| known == id)?;
        let mut view = DispatchView {
            job,
            state: state.clone(),
            accepted_at: recorded.entries.first()?.at,
            started_at: None,
            ended_at: None,
            duration_ms: None,
            claim,
            report,
        };
        for (event, at) in events(&recorded.entries).filter(|(event, _)| event.dispatch_id() == id) {
            match event {
                Event::Accepted { .. } => view.accepted_at = at,
                Event::Started { .. } => view.started_at = Some(at),
                Event::Finished { duration_ms, .. }
                | Event::NeedsInput { duration_ms, .. }
                | Event::Failed { duration_ms, .. }
                | Event::Cancelled { duration_ms, .. } => {
                    (view.ended_at, view.duration_ms) = (Some(at), Some(*duration_ms));
                }
            }
        }
        Some(view)
    }

    pub(super) fn list(&self, filter: &Filter) -> Vec<DispatchRow> {
        let newest_first = self.accepted.iter().rev();
        let later = |id: &&DispatchId| filter.before.as_ref().is_some_and(|before| **id != *before);
        let skip = match &filter.before {
            Some(before) if self.accepted.contains(before) => {
                newest_first.clone().take_while(later).count() + 1
            }
            Some(_) | None => 0,
        };
        let rows = newest_first.skip(skip).filter_map(|id| self.row(id));
        let matching = rows.filter(|(namespace, row)| {
            filter.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
                && filter.thread.as_ref().is_none_or(|wanted| *wanted == row.thread_id)
                && filter.label.as_ref().is_none_or(|wanted| row.labels.contains(wanted))
                && (!filter.last || self.is_last(row))
                && filter.states.as_ref().is_none_or(|wanted| wanted.contains(&row.state))
                && filter.prefix.as_ref().is_none_or(|prefix| {
                    row.dispatch_id.as_str().starts_with(prefix) || row.thread_id.as_str().starts_with(prefix)
                })
        });
        matching.map(|(_, row)| row).take(filter.most).collect()
    }

    fn is_last(&self, row: &DispatchRow) -> bool {
        let dispatches = self.threads.get(&row.thread_id).map(|recorded| recorded.thread.dispatches());
        dispatches.and_then(<[_]>::last).is_some_and(|(last, _)| *last == row.dispatch_id)
    }

    fn row(&self, id: &DispatchId) -> Option<(Namespace, DispatchRow)> {
        let view = self.dispatch(id)?;
        let job = view.job;
        let row = DispatchRow {
            dispatch_id: id.clone(),
            thread_id: job.thread_id,
            subagent: job.resolved.subagent.name,
            target: job.target,
            labels: job.labels,
            state: StateWord::from(&view.state),
            accepted_at: view.accepted_at,
            started_at: view.started_at,
            ended_at: view.ended_at,
            claimed: view.claim.is_some(),
        };
        Some((job.namespace, row))
    }

    pub(super) fn questions(&self, filter: &OpenFilter) -> Vec<OpenQuestion> {
        let asked = self.order.iter().flatten().filter_map(|(thread, seq)| {
            let recorded = self.threads.get(thread)?;
            let entry = recorded.entries.get(usize::try_from(*seq).ok()? - 1)?;
            let Happening::Event(Event::NeedsInput { dispatch_id, question_id, question, .. }) = &entry.what
            else {
                return None;
            };
            let asked = recorded.thread.questions().iter().find(|asked| asked.id == *question_id)?;
            let job = &self.dispatches.get(dispatch_id)?.job;
            let row = OpenQuestion {
                question_id: question_id.clone(),
                namespace: entry.namespace.clone(),
                thread_id: thread.clone(),
                dispatch_id: dispatch_id.clone(),
                subagent: job.resolved.subagent.name.clone(),
                labels: job.labels.clone(),
                question: question.clone(),
                asked_at: entry.at,
            };
            Some((asked.state, row))
        });
        let closed = [
            QuestionState::Answered,
            QuestionState::Declined,
            QuestionState::Expired,
            QuestionState::Stale,
            QuestionState::Cancelled,
        ];
        let asked: Vec<_> = asked.filter(|(state, _)| !closed.contains(state)).collect();
        let is_last = |(_, row): &(_, OpenQuestion)| {
            filter.after.as_ref() == Some(&(row.thread_id.clone(), row.question_id.clone()))
        };
        let skip = asked.iter().position(is_last).map_or(0, |place| place + 1);
        let open = asked.into_iter().skip(skip).filter(|(state, _)| *state == QuestionState::Open);
        let open = open.map(|(_, row)| row);
        let open = open.filter(|row| filter.namespace.as_ref().is_none_or(|wanted| *wanted == row.namespace));
        open.take(filter.most).collect()
    }

    pub(super) fn carried(&self) -> Vec<ThreadId> {
        let carried = self.threads.iter().filter(|(_, recorded)| recorded.thread.wants_carrier());
        carried.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn all_due(&self) -> Vec<(Timestamp, ThreadId)> {
        let due = self.threads.iter().filter_map(|(id, recorded)| {
            let (last, _) = recorded.thread.dispatches().last()?;
            let job = &self.dispatches.get(last)?.job;
            job::due_at(&recorded.thread, job).map(|at| (at, id.clone()))
        });
        let mut due: Vec<_> = due.collect();
        due.sort();
        due
    }

    fn state(&self, id: &DispatchId) -> Option<&DispatchState> {
        let thread = &self.threads.get(&self.dispatches.get(id)?.job.thread_id)?.thread;
        thread.dispatches().iter().find(|(known, _)| known == id).map(|(_, state)| state)
    }

    fn is_live(&self, id: &DispatchId) -> bool {
        self.state(id).is_some_and(DispatchState::is_live)
    }

    /// Returns who waits at a target, in their order.
    fn waiting(&self, target: &Name) -> Vec<DispatchId> {
        let mut waiting: Vec<_> = (0..)
            .zip(&self.accepted)
            .filter_map(|(place, id): (u64, _)| {
                let filed = self.dispatches.get(id)?;
                let waits = filed.claim.is_none() && filed.job.target == *target && self.is_live(id);
                waits.then(|| {
                    ((Reverse(filed.job.is_continued()), Reverse(filed.job.priority), place), id.clone())
                })
            })
            .collect();
        waiting.sort();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    fn room(&self, target: &Name, most: u32) -> usize {
        (most as usize).saturating_sub(self.underway(target).len())
    }

    pub(super) fn head(&self, target: &Name, most: u32) -> Vec<DispatchId> {
        self.waiting(target).into_iter().take(self.room(target, most)).collect()
    }

    pub(super) fn underway(&self, target: &Name) -> Vec<ThreadId> {
        let live = self.accepted.iter().filter(|id| self.is_live(id));
        let filed = live.filter_map(|id| self.dispatches.get(id));
        let claimed = filed.filter(|filed| filed.claim.is_some() && filed.job.target == *target);
        claimed.map(|filed| filed.job.thread_id.clone()).collect()
    }

    pub(super) fn place(&self, id: &DispatchId) -> Option<u64> {
        let target = &self.dispatches.get(id)?.job.target;
        let ahead = self.waiting(target).iter().position(|waiting| waiting == id)?;
        Some(ahead as u64)
    }

    pub(super) fn claim(&mut self, id: &DispatchId, mark: ClaimMark, most: u32) -> Claim {
        let Some(filed) = self.dispatches.get(id).filter(|_| self.is_live(id)) else { return Claim::Over };
        if let Some(earlier) = &filed.claim {
            return Claim::Earlier(earlier.clone());
        }
        if !self.head(&filed.job.target, most).contains(id) {
            return Claim::Waits { ahead: self.place(id).unwrap_or_default() };
        }
        if let Some(filed) = self.dispatches.get_mut(id) {
            filed.claim = Some(mark);
        }
        Claim::Granted
    }

    pub(super) fn reclaim(&mut self, id: &DispatchId, seen: &ClaimMark, mark: ClaimMark) -> bool {
        let live = self.is_live(id);
        match self.dispatches.get_mut(id) {
            Some(filed) if live && filed.claim.as_ref() == Some(seen) => {
                filed.claim = Some(mark);
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn wish_cancel(&mut self, thread: &ThreadId, wish: CancelWish) -> bool {
        let Some(recorded) = self.threads.get_mut(thread) else { return false };
        let live = recorded.thread.dispatches().iter().any(|(_, state)| state.is_live());
        if live {
            recorded.cancel_wish.get_or_insert(wish);
        }
        live
    }

    pub(super) fn wished(&self) -> Vec<ThreadId> {
        let wished = self.threads.iter().filter(|(_, recorded)| recorded.cancel_wish.is_some());
        wished.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn outgoing(&self, by: Timestamp, most: usize) -> Vec<Outgoing> {
        let due = self.out.values().filter(|(_, at)| *at <= by);
        due.map(|(outgoing, _)| outgoing.clone()).take(most).collect()
    }

    pub(super) fn told(&mut self, id: u64, again_at: Option<Timestamp>) {
        match (again_at, self.out.get_mut(&id)) {
            (Some(at), Some((outgoing, due))) => {
                outgoing.tries += 1;
                *due = at;
            }
            (None, _) => drop(self.out.remove(&id)),
            (Some(_), None) => {}
        }
    }

    pub(super) fn expired(&self, by: Timestamp, most: usize) -> Vec<ThreadId> {
        let mut over: Vec<_> = self
            .threads
            .iter()
            .filter_map(|(id, recorded)| {
                let ended_at = ended_at(recorded)?;
                let (last, _) = recorded.thread.dispatches().last()?;
                let days = self.dispatches.get(last)?.job.retention_days;
                (ended_at.plus(DAY * days) <= by).then(|| (ended_at, id.clone()))
            })
            .collect();
        over.sort();
        over.into_iter().map(|(_, id)| id).take(most).collect()
    }

    pub(super) fn forget(&mut self, thread: &ThreadId) -> bool {
        let Some(recorded) = self.threads.get(thread).filter(|recorded| recorded.thread.has_ended()) else {
            return false;
        };
        let gone: Vec<DispatchId> = recorded.thread.dispatches().iter().map(|(id, _)| id.clone()).collect();
        self.threads.remove(thread);
        let theirs =
            |entry: &&mut Option<(ThreadId, u64)>| entry.as_ref().is_some_and(|(whose, _)| whose == thread);
        self.order.iter_mut().filter(theirs).for_each(|entry| *entry = None);
        self.accepted.retain(|id| !gone.contains(id));
        self.dispatches.retain(|id, _| !gone.contains(id));
        self.keys.retain(|_, (id, _)| !gone.contains(id));
        self.out.retain(|_, (outgoing, _)| outgoing.thread_id != *thread);
        true
    }
}

fn events(entries: &[Entry]) -> impl Iterator<Item = (&Event, Timestamp)> {
    entries.iter().filter_map(|entry| match &entry.what {
        Happening::Event(event) => Some((event, entry.at)),
        Happening::Record(_) => None,
    })
}

/// Returns when the thread's books were closed, if they are.
fn ended_at(recorded: &Recorded) -> Option<Timestamp> {
    let closed = |entry: &&Entry| entry.what == Happening::Record(Record::ThreadEnded {});
    recorded.entries.iter().rev().find(closed).filter(|_| recorded.thread.has_ended()).map(|entry| entry.at)
}
