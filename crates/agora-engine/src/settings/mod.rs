//! How an engine on this machine is set up, and the world that follows from it.

mod commands;
mod container;
mod file;
mod mcp;
mod notify;
mod project;
mod route;
mod sift;
mod vault;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agora_core::Name;
use agora_core::blobs::Blobs;
use agora_core::bundle::VariableName;
use agora_core::provider::secret::SecretStore;
use agora_core::route::{AgentsMay, Routes};
use agora_core::secret::SecretValue;
use agora_core::time::Clock;
use agora_core::wall::{Isolation, Wish};
use agora_core::wire::keys::EngineKeys;
use agora_core::wire::manifest::Layers;
use agora_providers::codex::CodexHome;
use agora_providers::compute::{LocalProcess, WorkerProgram, boot_id};
use agora_providers::ground::LocalGrounds;
use agora_providers::keys::engine_secret;
use agora_providers::lease::LocalLeases;
use agora_providers::ledger::SqliteLedger;
use agora_providers::notify::Way;
use agora_providers::registry::LocalRegistry;
use agora_providers::shelf::LocalShelf;
use agora_providers::trust::TrustStore;
use agora_providers::{Home, SystemAlarm, entropy};

use crate::carry::CarryError;
use crate::error::Error;
use crate::notice::{Notifier, Quiet};
use crate::world::{Entropy, Target, Task, Tasks, World};
use commands::LocalCommands;
use notify::HandsOver;
use vault::LocalVault;

pub use container::ContainerTarget;
pub use file::SettingsError;
pub use mcp::McpSettings;
pub(crate) use project::Project;
pub use project::{Ignored, Unused};

/// How an engine is set up. Every part has a default.
#[derive(Clone, Debug)]
pub struct Settings {
    pub targets: BTreeMap<Name, TargetSettings>,
    /// The program that workers are: `agora worker run`.
    pub worker: WorkerProgram,
    /// Variables that workers get of their starter's: where programs are, and how to speak. No credentials.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that the host's git gets, which takes workspaces and brings work home: where it is, and whose it is.
    pub git_environment: Vec<(OsString, OsString)>,
    /// What the caller's own environment has to log in with. Used when a dispatch has nothing else.
    pub logins: BTreeMap<VariableName, SecretValue>,
    /// Where daemons that run containers usually listen.
    pub sockets: Vec<PathBuf>,
    /// What all dispatches' places together may take, before a sweep takes snapshots of ended threads away.
    pub store_max_bytes: u64,
    /// What a project's file says that does not count, because nobody trusts it.
    pub ignored: Option<Ignored>,
    /// A project's file of which nothing counts.
    pub unused: Option<Unused>,
    /// What the files say and does nothing, though whoever wrote it meant something by it.
    pub warnings: Vec<String>,
    /// How a person is told that a question wants them.
    pub notify: Vec<Way>,
    /// Whether nobody waits for what is carried here: then a person is told of every end, too.
    pub unattended: bool,
    /// Whether workspaces may be made of layers, by overlayfs, where the machine can. Else they are copies.
    pub workspace_layers: Layers,
    /// What agents that drive this agora may do.
    pub mcp: McpSettings,
    /// Who gets which question, who may answer it, and what silence means.
    pub routes: Routes,
    /// What agents may do about questions.
    pub agents: AgentsMay,
    /// Who tells people about questions, away from the terminal.
    pub notifier: Arc<dyn Notifier>,
}

/// A named place to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSettings {
    pub max_concurrent: u32,
    pub memory_bytes: Option<u64>,
    pub processes: Option<u32>,
    /// Its workers run in containers. `None`: as processes of this machine.
    pub container: Option<ContainerTarget>,
    /// What stands between agents there and everything else.
    pub wall: Wish,
}

impl Default for TargetSettings {
    fn default() -> Self {
        Self {
            max_concurrent: 2,
            memory_bytes: None,
            processes: None,
            container: None,
            wall: Wish::default(),
        }
    }
}

impl TargetSettings {
    /// Returns what a worker is to build. In a container namespaces are there before it, and the strongest that it can build itself
    /// is all that can be asked of it.
    fn wall(&self) -> Wish {
        let mut wall = self.wall.clone();
        if self.container.is_some() && wall.isolation == Isolation::Strict {
            wall.isolation = Isolation::Auto;
        }
        wall
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
            git_environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            logins: BTreeMap::new(),
            sockets: ["/var/run/docker.sock", "/run/podman/podman.sock"].map(PathBuf::from).to_vec(),
            store_max_bytes: 10 << 30,
            ignored: None,
            unused: None,
            warnings: Vec::new(),
            notify: Vec::new(),
            unattended: false,
            workspace_layers: Layers::Auto,
            mcp: McpSettings::default(),
            routes: Routes::default(),
            agents: AgentsMay::default(),
            notifier: Arc::new(Quiet),
        }
    }

    /// Lays what an `agora.toml` says over these. One that is not there says nothing.
    pub fn with_file(mut self, path: &Path) -> Result<Self, Error> {
        let laid = file::lay(path, &mut self);
        laid.map_err(|source| Error::Settings { file: path.to_owned(), source })?;
        Ok(self)
    }

    /// Lays what counts of a project's file over these.
    pub(crate) fn with_project(mut self, project: Project, trust: &TrustStore) -> Result<Self, Error> {
        project.lay(trust, &mut self)?;
        Ok(self)
    }

    /// Chooses who tells people: by the ways that a file names, else whoever was handed in.
    fn notifier(&self, home: &Home) -> Arc<dyn Notifier> {
        if self.notify.is_empty() {
            return Arc::clone(&self.notifier);
        }
        Arc::new(HandsOver {
            program: self.worker.program.clone(),
            home: home.clone(),
            ways: self.notify.clone(),
            unattended: self.unattended,
        })
    }

    /// Makes the world of this machine.
    pub(crate) fn world(
        &self,
        home: &Home,
        blobs: Blobs,
        secrets: Arc<dyn SecretStore>,
        clock: Arc<dyn Clock>,
    ) -> Result<World, Error> {
        let local = Arc::new(LocalProcess::new(home.clone(), self.worker.clone(), self.environment.clone()));
        let target = |settings: &TargetSettings| Target {
            memory_bytes: settings.memory_bytes,
            processes: settings.processes,
            wall: settings.wall(),
            ..Target::new(
                match &settings.container {
                    #[cfg(feature = "docker")]
                    Some(container) => container.compute(home, &self.sockets, settings.wall.network),
                    // Without the feature no file can ask for it.
                    _ => local.clone(),
                },
                settings.max_concurrent,
            )
        };
        let ledger = SqliteLedger::open(home.clone(), Arc::clone(&clock))
            .map_err(|error| Error::Carry(CarryError::Ledger(error)))?;
        Ok(World {
            ledger: Arc::new(ledger),
            leases: Arc::new(LocalLeases::new(home.clone())),
            shelf: Arc::new(LocalShelf::new(home.clone())),
            grounds: Arc::new(
                LocalGrounds::new(home.clone(), &self.git_environment).with_layers(self.workspace_layers),
            ),
            blobs,
            registry: Arc::new(LocalRegistry::new(home.clone())),
            vault: Arc::new(LocalVault {
                secrets,
                codex: CodexHome::below(home.root()),
                environment: self.environment.clone(),
                clock: Arc::clone(&clock),
            }),
            targets: self.targets.iter().map(|(name, settings)| (name.clone(), target(settings))).collect(),
            keys: EngineKeys::new(engine_secret(home).map_err(Error::Home)?),
            alarm: Arc::new(SystemAlarm::new(Arc::clone(&clock))),
            clock,
            tasks: Arc::new(TokioTasks),
            entropy: Arc::new(SystemEntropy::new().map_err(Error::NoEntropy)?),
            boot: boot_id().map_err(Error::Machine)?,
            agents: self.agents,
            notifier: self.notifier(home),
            commands: Arc::new(LocalCommands),
        })
    }
}

fn local() -> Name {
    #[expect(clippy::expect_used, reason = "a name by the rules, written out here")]
    "local".parse().expect("`local` is a name")
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
struct SystemEntropy(());

impl SystemEntropy {
    fn new() -> io::Result<Self> {
        entropy::draw(&mut [0]).map(Self)
    }
}

impl Entropy for SystemEntropy {
    fn draw(&self, bytes: &mut [u8]) {
        // A kernel that gave some once gives them from then on (getrandom(2)): this asks one time.
        while entropy::draw(bytes).is_err() {}
    }
}
