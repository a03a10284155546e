//! What a pause takes, as it is counted while it lasts: processes by the kernel, money by the ledger.

use agora_engine::{Agora, DispatchResult};
use serde_json::{Value, json};

use super::play::{Paused, Play};
use super::processes;
use crate::failure::Failure;

/// What was found of a dispatch that waits for its answer.
pub(super) struct Idle {
    pub(super) processes: Vec<u32>,
    /// None where the worker was a process of this machine. `None`: it had one, and nobody counts those.
    pub(super) containers: Option<usize>,
    /// What the ledger's cost has grown by since the dispatch asked.
    pub(super) cost_usd: f64,
}

impl Idle {
    pub(super) fn document(&self) -> Value {
        json!({"processes": self.processes.len(), "containers": self.containers, "costUsd": self.cost_usd})
    }
}

impl Play<'_> {
    /// Counts what is left of the dispatch that asked.
    pub(super) async fn count(
        &self,
        agora: &Agora,
        paused: &Paused,
        first: &DispatchResult,
    ) -> Result<Idle, Failure> {
        let dir = self.home().join("dispatches").join(paused.dispatch.as_str());
        let left = processes::of_dispatch(&dir, &[std::process::id(), paused.engine]);
        let before = first.usage.as_ref().and_then(|usage| usage.cost_usd).unwrap_or_default();
        let now = agora.find(&paused.thread).await?.story().await?.totals.cost_usd.unwrap_or_default();
        Ok(Idle {
            processes: left.into_iter().collect(),
            containers: first.image.is_none().then_some(0),
            cost_usd: now - before,
        })
    }
}
