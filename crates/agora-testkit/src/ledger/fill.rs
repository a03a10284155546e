//! Many questions that are open, recorded as real ones are: by the ledger's own append.

use std::sync::Arc;

use agora_core::event::Event;
use agora_core::job::Job;
use agora_core::provider::ledger::{Append, Ledger, Paper};
use agora_core::{DispatchId, QuestionId, ThreadId};
use tokio::task::JoinSet;

use super::sample::{asked, started};

/// How many are recorded at once: whoever waits shares a transaction.
const AT_ONCE: usize = 512;

/// Returns the ids of one that was filled in, counted from 0.
pub fn ids(number: u64) -> (ThreadId, DispatchId, QuestionId) {
    let id = |kind: &str| format!("{kind}_many-{number:07}");
    (id("t").parse().unwrap(), id("d").parse().unwrap(), id("q").parse().unwrap())
}

/// Records threads that began like the one of this job, and wait for an answer. In the order of their numbers, but for those that
/// are recorded at once.
pub async fn paused(ledger: &Arc<dyn Ledger>, like: &Job, numbers: std::ops::Range<u64>) {
    let mut under_way = JoinSet::new();
    for number in numbers {
        if under_way.len() >= AT_ONCE {
            under_way.join_next().await.unwrap().unwrap();
        }
        let (ledger, append) = (Arc::clone(ledger), pause(like, number));
        under_way.spawn(async move { ledger.append(append).await.map(drop).unwrap() });
    }
    while let Some(done) = under_way.join_next().await {
        done.unwrap();
    }
}

fn pause(like: &Job, number: u64) -> Append {
    let (thread_id, dispatch_id, question_id) = ids(number);
    let mut job = like.clone();
    (job.thread_id, job.dispatch_id) = (thread_id.clone(), dispatch_id.clone());
    let accepted = Event::Accepted { dispatch_id, resolved: job.resolved.clone() }.into();
    let mut what = vec![accepted, started(job.dispatch_id.as_str())];
    what.extend(asked(job.dispatch_id.as_str(), question_id.as_str()));
    let namespace = job.namespace.clone();
    Append { namespace, thread_id, seen: 0, what, papers: vec![Paper::Job(Box::new(job))] }
}
