//! How an engine on this machine is set up, and the world that follows from it.

mod file;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use agora_core::blobs::Blobs;
use agora_core::bundle::VariableName;
use agora_core::job::Job;
use agora_core::provider::secret::{SecretError, SecretStore};
use agora_core::secret::{SecretRef, SecretValue};
use agora_core::time::Clock;
use agora_core::wire::bootstrap::Supplied;
use agora_core::wire::keys::EngineKeys;
use agora_core::{Name, ThreadId};
use agora_providers::compute::{LocalProcess, WorkerProgram, boot_id};
use agora_providers::keys::engine_secret;
use agora_providers::lease::LocalLeases;
use agora_providers::ledger::SqliteLedger;
use agora_providers::secret::command_secret;
use agora_providers::shelf::LocalShelf;
use agora_providers::{Home, SystemAlarm};
use async_trait::async_trait;

use crate::carry::CarryError;
use crate::dispatch::resolve::staged_folder;
use crate::error::Error;
use crate::world::{Entropy, Target, Task, Tasks, Vault, World};

pub use file::SettingsError;

/// How an engine is set up. Every part has a default.
#[derive(Clone, Debug)]
pub struct Settings {
    pub targets: BTreeMap<Name, TargetSettings>,
    /// The program that workers are: `agora worker run`.
    pub worker: WorkerProgram,
    /// Variables that workers get of their starter's: where programs are, and how to speak. No credentials.
    pub environment: Vec<(OsString, OsString)>,
    /// What the caller's own environment has to log in with. Used when a dispatch has nothing else.
    pub logins: BTreeMap<VariableName, SecretValue>,
    /// What all dispatches' places together may take, before a sweep takes snapshots of ended threads away.
    pub store_max_bytes: u64,
}

/// A named place to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSettings {
    pub max_concurrent: u32,
    pub memory_bytes: Option<u64>,
    pub processes: Option<u32>,
}

impl Default for TargetSettings {
    fn default() -> Self {
        Self { max_concurrent: 2, memory_bytes: None, processes: None }
    }
}

impl Settings {
    /// Sets up the one target `local`, with workers that are this `agora` program.
    pub fn with_worker(program: impl AsRef<Path>) -> Self {
        let arguments = ["worker", "run"].map(OsString::from).to_vec();
        Self {
            targets: BTreeMap::from([(local(), TargetSettings::default())]),
            worker: WorkerProgram { program: program.as_ref().to_owned(), arguments },
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            logins: BTreeMap::new(),
            store_max_bytes: 10 << 30,
        }
    }

    /// Lays what an `agora.toml` says over these. One that is not there says nothing.
    pub fn with_file(mut self, path: &Path) -> Result<Self, Error> {
        let laid = file::lay(path, &mut self);
        laid.map_err(|source| Error::Settings { file: path.to_owned(), source })?;
        Ok(self)
    }

    /// Makes the world of this machine.
    pub(crate) fn world(
        &self,
        home: &Home,
        blobs: Blobs,
        secrets: Arc<dyn SecretStore>,
        clock: Arc<dyn Clock>,
    ) -> Result<World, Error> {
        let compute =
            Arc::new(LocalProcess::new(home.clone(), self.worker.clone(), self.environment.clone()));
        let target = |settings: &TargetSettings| Target {
            memory_bytes: settings.memory_bytes,
            processes: settings.processes,
            ..Target::new(compute.clone(), settings.max_concurrent)
        };
        let ledger = SqliteLedger::open(home.clone(), Arc::clone(&clock))
            .map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
        Ok(World {
            ledger: Arc::new(ledger),
            leases: Arc::new(LocalLeases::new(home.clone())),
            shelf: Arc::new(LocalShelf::new(home.clone())),
            blobs,
            vault: Arc::new(LocalVault(secrets)),
            targets: self.targets.iter().map(|(name, settings)| (name.clone(), target(settings))).collect(),
            keys: EngineKeys::new(engine_secret(home).map_err(Error::Home)?),
            alarm: Arc::new(SystemAlarm::new(Arc::clone(&clock))),
            clock,
            tasks: Arc::new(TokioTasks),
            entropy: Arc::new(SystemEntropy),
            boot: boot_id().map_err(Error::Machine)?,
        })
    }
}

fn local() -> Name {
    #[expect(clippy::expect_used, reason = "it is one")]
    "local".parse().expect("`local` is a name")
}

/// Secrets of this machine's store, and what commands print.
#[derive(Debug)]
struct LocalVault(Arc<dyn SecretStore>);

#[async_trait]
impl Vault for LocalVault {
    async fn supply(&self, reference: &SecretRef) -> Supplied {
        match reference {
            SecretRef::Local(name) => match self.0.get(name).await {
                Ok(value) => Supplied::Value(value),
                Err(SecretError::Unavailable(error)) => Supplied::Unreachable(crate::error::chain(&error)),
                Err(error) => Supplied::Missing(crate::error::chain(&error)),
            },
            SecretRef::Command(command) => command_secret(command).await,
            SecretRef::AwsSecretsManager(_) => {
                Supplied::Unreachable("this agora was built without AWS".to_owned())
            }
        }
    }

    async fn forget(&self, job: &Job) -> Result<(), SecretError> {
        let folder = staged_folder(&job.thread_id);
        for name in job.secrets.values() {
            // What was stored for everybody stays.
            if let Ok(SecretRef::Local(name)) = name.parse()
                && name.as_str().starts_with(&folder)
            {
                self.0.remove(&name).await?;
            }
        }
        Ok(())
    }

    async fn forget_stray(&self, thread: &ThreadId) -> Result<(), SecretError> {
        let folder = staged_folder(thread);
        for name in self.0.names().await?.iter().filter(|name| name.as_str().starts_with(&folder)) {
            self.0.remove(name).await?;
        }
        Ok(())
    }
}

/// Tasks of the runtime that the caller is in.
#[derive(Debug)]
struct TokioTasks;

impl Tasks for TokioTasks {
    fn start(&self, task: Task) {
        drop(tokio::spawn(task));
    }
}

/// The kernel's.
#[derive(Debug)]
struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn draw(&self, bytes: &mut [u8]) {
        agora_providers::entropy::draw(bytes);
    }
}
