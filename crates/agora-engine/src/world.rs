//! Everything that threads are moved on with. All of it comes from outside, so that a test can bring a world of its own, in
//! which time, crashes and chance are what a seed says.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use agora_core::blobs::Blobs;
use agora_core::job::Job;
use agora_core::provider::alarm::Alarm;
use agora_core::provider::compute::Compute;
use agora_core::provider::ground::Grounds;
use agora_core::provider::lease::Leases;
use agora_core::provider::ledger::{ClaimMark, Ledger};
use agora_core::provider::registry::Registry;
use agora_core::provider::secret::{SecretError, SecretStanding};
use agora_core::provider::shelf::Shelf;
use agora_core::route::AgentsMay;
use agora_core::secret::SecretRef;
use agora_core::time::Clock;
use agora_core::wall::Wish;
use agora_core::wire::bootstrap::Supplied;
use agora_core::wire::keys::EngineKeys;
use agora_core::{Name, ThreadId};
use async_trait::async_trait;

use crate::carry::queue::Queue;
use crate::notice::Notifier;
use crate::route::RouteCommands;

/// What an engine works with.
#[derive(Debug)]
pub struct World {
    pub ledger: Arc<dyn Ledger>,
    pub leases: Arc<dyn Leases>,
    pub shelf: Arc<dyn Shelf>,
    pub grounds: Arc<dyn Grounds>,
    pub blobs: Blobs,
    /// What names mean now. What a thread runs was resolved when it was accepted.
    pub registry: Arc<dyn Registry>,
    pub vault: Arc<dyn Vault>,
    pub targets: BTreeMap<Name, Target>,
    pub keys: EngineKeys,
    pub clock: Arc<dyn Clock>,
    pub alarm: Arc<dyn Alarm>,
    pub tasks: Arc<dyn Tasks>,
    pub entropy: Arc<dyn Entropy>,
    /// Which start of which machine this is.
    pub boot: String,
    /// What agents may do about questions.
    pub agents: AgentsMay,
    /// Tells people about questions.
    pub notifier: Arc<dyn Notifier>,
    /// Runs the commands of routes.
    pub commands: Arc<dyn RouteCommands>,
}

/// A named place to run.
#[derive(Debug)]
pub struct Target {
    pub compute: Arc<dyn Compute>,
    /// How many dispatches run there at once; the others wait in the ledger.
    pub max_concurrent: u32,
    /// What a dispatch gets that does not say.
    pub memory_bytes: Option<u64>,
    pub processes: Option<u32>,
    /// What stands between agents there and everything else.
    pub wall: Wish,
    /// Who waits for room there, in this process.
    pub(crate) queue: Queue,
}

impl Target {
    pub fn new(compute: Arc<dyn Compute>, max_concurrent: u32) -> Self {
        Self {
            compute,
            max_concurrent,
            memory_bytes: None,
            processes: None,
            wall: Wish::default(),
            queue: Queue::default(),
        }
    }
}

/// Where secrets come from.
#[async_trait]
pub trait Vault: fmt::Debug + Send + Sync {
    /// Resolves a reference, or says why it cannot be.
    async fn supply(&self, reference: &SecretRef) -> Supplied;

    /// Tells how a secret stands, without its value. `None`: that cannot be told without getting it.
    async fn standing(&self, _reference: &SecretRef) -> Result<Option<SecretStanding>, SecretError> {
        Ok(None)
    }

    /// Takes away what was staged for a job's thread. Again is no error.
    async fn forget(&self, job: &Job) -> Result<(), SecretError>;

    /// Takes away what was staged for a thread that never came to be. Again is no error.
    async fn forget_stray(&self, thread: &ThreadId) -> Result<(), SecretError>;
}

/// A thing to do beside what the caller does.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Does things beside what the caller does.
pub trait Tasks: fmt::Debug + Send + Sync {
    fn start(&self, task: Task);
}

/// Draws random bytes. Whoever makes one has seen that there are some: ids and nonces of nothing but zeros would be taken for fresh ones.
pub trait Entropy: fmt::Debug + Send + Sync {
    fn draw(&self, bytes: &mut [u8]);
}

impl World {
    pub(crate) fn mark(&self) -> ClaimMark {
        ClaimMark { at: self.clock.now(), boot: self.boot.clone() }
    }

    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.entropy.draw(&mut bytes);
        bytes
    }
}
