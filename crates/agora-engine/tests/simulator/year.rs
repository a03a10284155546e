//! A blocked thread that is left alone for a year.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use agora_core::route::{Route, Routes, Step, Steps};
use agora_core::state::{QuestionState, ThreadState};
use agora_engine::Sweep;

use crate::deed;
use crate::machine::Faults;
use crate::scenario::Story;
use crate::seams::whole;
use crate::store::Kind;

const HOUR: i64 = 3_600_000;
const YEAR: i64 = 365 * 24 * HOUR;

fn a_year(kind: Kind) {
    let mut story = Story::new(1, Faults::NONE, kind);
    story.machine.only_asks.store(true, Ordering::Relaxed);
    let (process, engine) = story.engine();
    let (machine, executor) = (Arc::clone(&story.machine), story.machine.executor.clone());
    let mut job = deed::job(&machine, &engine);
    let people = vec![Step::Inbox("user:ann".parse().unwrap())];
    let route = Route {
        steps: Steps::new(people, false).unwrap(),
        remind_after_ms: Some(3_600_000),
        ..Route::default()
    };
    job.routes = Routes { routes: vec![route], ..Routes::default() };
    (job.limits.timeout_seconds, job.overtime_seconds) = (60, 60);
    let thread = job.thread_id.clone();
    machine.state().secrets.insert(thread.clone());
    let began = executor.now();
    let (alone, watched) = (engine, thread.clone());
    let task = async move {
        alone.accept(job, None).await.unwrap();
        let lease = alone.world().leases.try_take(&watched).await.unwrap().unwrap();
        alone.carry_on(&watched, &*lease).await.unwrap();
        drop(lease);
        // A command now and then, and one at every moment that something is due.
        let mut rounds = 0_u32;
        while machine.executor.now() < began + YEAR {
            let due = alone.world().ledger.next_due().await.unwrap().expect("the next reminder");
            let day = machine.executor.now() + 24 * HOUR;
            machine.executor.sleep_until(due.as_millis().min(day) + 1_500).await;
            let found = alone.recover().await.unwrap();
            assert!(found.orphans.is_empty() && found.settled.is_empty(), "{found:?}");
            alone.sweep(Sweep::Really, Some(0)).await.unwrap();
            rounds += 1;
        }
        assert!(rounds > 300, "somebody looked every day");
    };
    executor.spawn(process, Box::pin(task));
    while executor.alive(process) && story.store.enter(|| executor.step()) {}
    story.store.enter(|| {
        let view = whole(story.ledger.thread(&thread)).unwrap().expect("it is there");
        assert_eq!(*view.thread.state(), ThreadState::Waiting);
        assert_eq!(view.thread.dispatches().len(), 1, "nothing was dispatched");
        let asked = &view.thread.questions()[0];
        assert_eq!(asked.state, QuestionState::Open, "and nothing was decided");
        // After an hour, 2, 4 … 128 hours, then every week.
        let reminders = u64::from(asked.progress.reminders);
        assert!((55..=60).contains(&reminders), "{reminders} reminders");
        assert_eq!(
            view.seen,
            4 + reminders,
            "accepted, started, asked, opened, and the reminders: nothing else grew"
        );
        assert!(
            whole(story.ledger.outgoing(agora_core::Timestamp::from_millis(i64::MAX), 9)).unwrap().is_empty()
        );
        assert!(story.machine.state().secrets.contains(&thread), "what it goes on with is kept");
    });
}

#[test]
fn a_blocked_thread_left_alone_for_a_year_is_reminded_of_and_nothing_else() {
    a_year(Kind::Memory);
}

#[test]
fn a_blocked_thread_left_alone_for_a_year_in_a_file() {
    a_year(Kind::File);
}
