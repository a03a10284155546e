//! The face: one value that everything is asked of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agora_core::blobs::Blobs;
use agora_core::bundle::{Bundle, BundleBody, BundleKind, Encoded, RawSubagent, Subagent, VariableName};
use agora_core::catalogue::{Catalogue, RegisterError, Registration};
use agora_core::credential::Pattern;
use agora_core::provider::registry::Version;
use agora_core::provider::secret::{SecretChange, SecretStore};
use agora_core::reference::BundleRef;
use agora_core::route::Routes;
use agora_core::secret::{SecretName, ShortSecrets};
use agora_core::time::Clock;
use agora_core::wall::{Isolation, Wish};
use agora_core::{Name, Namespace};
use agora_providers::blob::LocalBlobs;
use agora_providers::registry::LocalRegistry;
use agora_providers::secret::LocalSecrets;
use agora_providers::{Home, SystemClock};

use crate::carry::Engine;
use crate::error::Error;
use crate::plan::{Plan, Planner};
use crate::prepare;
use crate::secret::{Outside, SecretSource};
use crate::settings::{Ignored, McpSettings, Settings, TargetSettings, Unused};
use crate::tree::{self, ReadTree};

/// What holds where nothing is configured.
static NO_ROUTES: Routes = Routes { routes: Vec::new(), groups: BTreeMap::new() };

/// Everything that agora knows and can do, in one directory and one namespace.
#[derive(Clone, Debug)]
pub struct Agora {
    home: Home,
    catalogue: Catalogue,
    secrets: Arc<dyn SecretStore>,
    clock: Arc<dyn Clock>,
    /// `None`: nothing can be dispatched.
    settings: Option<Arc<Settings>>,
    /// Made when it is first needed: most commands need no ledger.
    engine: Arc<OnceLock<Engine>>,
}

/// A version of a name with what it holds.
#[derive(Clone, Debug)]
pub struct Found<T> {
    pub name: Name,
    pub version: Version,
    pub body: T,
}

/// An env bundle that was registered, and what happened to each value that came with it.
#[derive(Clone, Debug)]
pub struct RegisteredEnv {
    pub registration: Registration,
    pub secrets: Vec<(VariableName, SecretChange)>,
}

impl Agora {
    /// Opens a directory, in the namespace `default`. One that does not exist is made by the first write.
    pub fn open(home: impl Into<PathBuf>) -> Self {
        Self::with(Home::new(home), Namespace::default(), Arc::new(SystemClock))
    }

    /// Opens a directory with a namespace and a clock of one's own.
    pub fn with(home: Home, namespace: Namespace, clock: Arc<dyn Clock>) -> Self {
        let blobs = Blobs::new(Arc::new(LocalBlobs::new(home.clone())));
        let registry = Arc::new(LocalRegistry::new(home.clone()));
        let catalogue = Catalogue::new(registry, blobs, Arc::clone(&clock), namespace);
        let secrets = Arc::new(LocalSecrets::new(home.clone(), Arc::clone(&clock)));
        Self { home, catalogue, secrets, clock, settings: None, engine: Arc::default() }
    }

    /// Says where and by which program workers run. Without it nothing can be dispatched.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings: Some(Arc::new(settings)), engine: Arc::default(), ..self }
    }

    /// Uses another namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: Namespace) -> Self {
        let (settings, engine) = (self.settings, self.engine);
        Self { settings, engine, ..Self::with(self.home, namespace, self.clock) }
    }

    /// Makes the directory ready, as every write does, and removes what processes that died left in it.
    pub fn prepare(&self) -> Result<(), Error> {
        self.home.prepare().map_err(Error::Home)
    }

    /// Registers the files below a directory.
    pub async fn register_capability(
        &self,
        name: &Name,
        dir: &Path,
        allowed: &[Pattern],
    ) -> Result<Registration, Error> {
        let read = tree::read(dir, "", allowed)?;
        let hash = read.manifest.hash;
        self.store_tree(read).await?;
        self.catalogue.register(BundleKind::Capability, name, hash).await.map_err(Error::Register)
    }

    /// Registers a subagent. Its capabilities must be registered.
    pub async fn register_subagent(
        &self,
        name: &Name,
        raw: RawSubagent,
        allowed: &[Pattern],
    ) -> Result<Registration, Error> {
        let subagent = prepare::subagent(name, raw, allowed)?;
        for capability in &subagent.capabilities {
            self.catalogue.resolve(BundleKind::Capability, capability).await.map_err(Error::Resolve)?;
        }
        let manifest = prepare::encode(Bundle::Subagent(Box::new(subagent)))?;
        self.catalogue
            .store_and_register(BundleKind::Subagent, name, &manifest)
            .await
            .map_err(Error::Register)
    }

    /// Registers a subagent again with other capabilities, and nothing else changed.
    pub async fn assign(&self, name: &Name, capabilities: Vec<BundleRef>) -> Result<Registration, Error> {
        let found = self.get::<Subagent>(&name.clone().into()).await?;
        let raw = RawSubagent { capabilities: Some(capabilities), ..RawSubagent::from(found.body) };
        // Its words passed when they were registered, with what was allowed then.
        self.register_subagent(name, raw, &Pattern::all().collect::<Vec<_>>()).await
    }

    /// Registers an env bundle. Values of secrets go to the store first; another value than before rotates.
    pub async fn register_env(
        &self,
        name: &Name,
        values: BTreeMap<VariableName, String>,
        secrets: BTreeMap<VariableName, SecretSource>,
        options: EnvOptions<'_>,
    ) -> Result<RegisteredEnv, Error> {
        let mut inputs = BTreeMap::new();
        for (variable, source) in secrets {
            let input = source.resolve(variable.as_str(), Path::new(""), options.outside, options.short)?;
            inputs.insert(variable, input);
        }
        let prepared = prepare::env(self.catalogue.namespace(), name, values, inputs, options.allowed)?;
        let expires_at = options.time_to_live.map(|time| self.clock.now().plus(time));
        let mut changes = Vec::new();
        for (variable, place, value) in prepared.values {
            changes
                .push((variable, self.secrets.put(&place, &value, expires_at).await.map_err(Error::Secret)?));
        }
        let registered = self.catalogue.store_and_register(BundleKind::Env, name, &prepared.manifest).await;
        Ok(RegisteredEnv { registration: registered.map_err(Error::Register)?, secrets: changes })
    }

    /// Finds a version of a kind, which is that of the type that is asked for, and reads what it holds.
    pub async fn get<T: BundleBody>(&self, reference: &BundleRef) -> Result<Found<T>, Error> {
        let version = self.catalogue.resolve(T::KIND, reference).await.map_err(Error::Resolve)?;
        let bundle = self.catalogue.blobs().read(version.content_hash).await.map_err(Error::Read)?;
        let body = T::from_bundle(bundle).ok_or_else(|| wrong_kind(&version))?;
        Ok(Found { name: reference.name.clone(), version, body })
    }

    /// Returns every name of a kind with its latest version, ordered by name.
    pub async fn list(&self, kind: BundleKind) -> Result<Vec<(Name, Version)>, Error> {
        self.catalogue.names(kind).await.map_err(Error::Registry)
    }

    /// Returns every version of a name, newest first.
    pub async fn versions(&self, kind: BundleKind, name: &Name) -> Result<Vec<Version>, Error> {
        self.catalogue.versions(kind, name).await.map_err(Error::Resolve)
    }

    /// Checks everything that a deployment file says, and tells what it would change.
    pub async fn plan_deployment(
        &self,
        file: &Path,
        outside: &dyn Outside,
        allowed: &[Pattern],
    ) -> Result<Plan, Error> {
        Planner::new(self, allowed).deploy(file, outside).await
    }

    /// Checks the agents and skills that a project has for Claude Code, and tells what registering them would change.
    pub async fn plan_sync(&self, dir: &Path, allowed: &[Pattern]) -> Result<Plan, Error> {
        let plan = Planner::new(self, allowed).sync(dir, Err).await?;
        if plan.entries().next().is_none() {
            return Err(Error::NothingToSync { dir: dir.to_owned() });
        }
        Ok(plan)
    }

    /// Does the same with those that can be used, if there are any, and tells why the others cannot.
    pub async fn plan_sync_of_usable(&self, dir: &Path) -> Result<(Plan, Vec<Error>), Error> {
        let mut broken = Vec::new();
        let plan = Planner::new(self, &[]).sync(dir, |error| {
            broken.push(error);
            Ok(())
        });
        let plan = plan.await?;
        Ok((plan, broken))
    }

    /// Returns the names of the secrets in the local store.
    pub async fn secret_names(&self) -> Result<Vec<SecretName>, Error> {
        self.secrets.names().await.map_err(Error::Secret)
    }

    /// Returns how a target is set up, if there is one of that name.
    pub fn target(&self, name: &Name) -> Option<&TargetSettings> {
        self.settings.as_ref()?.targets.get(name)
    }

    /// Tells whether there is a target whose agents stand behind no wall.
    pub fn has_open_targets(&self) -> bool {
        let open = |wall: &Wish| wall.isolation == Isolation::None;
        self.settings
            .as_ref()
            .is_some_and(|settings| settings.targets.values().any(|target| open(&target.wall)))
    }

    /// Returns who gets which question that is asked from now on.
    pub fn routes(&self) -> &Routes {
        self.settings.as_ref().map_or(&NO_ROUTES, |settings| &settings.routes)
    }

    /// Returns what a project's `agora.toml` says and does not count, because nobody trusts it.
    pub fn ignored_settings(&self) -> Option<&Ignored> {
        self.settings.as_ref()?.ignored.as_ref()
    }

    /// Returns the project's `agora.toml` of which nothing counts.
    pub fn unused_settings(&self) -> Option<&Unused> {
        self.settings.as_ref()?.unused.as_ref()
    }

    /// Returns what is said in an `agora.toml` and does nothing, though whoever wrote it meant something by it.
    pub fn settings_warnings(&self) -> &[String] {
        self.settings.as_ref().map(|settings| settings.warnings.as_slice()).unwrap_or_default()
    }

    /// Returns what agents that drive this agora may do.
    pub fn mcp_settings(&self) -> McpSettings {
        self.settings.as_ref().map(|settings| settings.mcp.clone()).unwrap_or_default()
    }

    /// Returns whose names these are.
    pub fn namespace(&self) -> &Namespace {
        self.catalogue.namespace()
    }

    pub(crate) fn settings(&self) -> Option<&Settings> {
        self.settings.as_deref()
    }

    /// Returns what moves threads on, made with the first call.
    pub fn engine(&self) -> Result<Engine, Error> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine.clone());
        }
        let settings = self.settings.as_ref().ok_or(Error::NoWorker)?;
        let (blobs, secrets) = (self.catalogue.blobs().clone(), Arc::clone(&self.secrets));
        let world = settings.world(&self.home, blobs, secrets, Arc::clone(&self.clock))?;
        Ok(self.engine.get_or_init(|| Engine::new(world)).clone())
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    pub(crate) fn secrets(&self) -> &dyn SecretStore {
        &*self.secrets
    }

    pub(crate) async fn store_manifest(&self, manifest: &Encoded) -> Result<(), Error> {
        let stored = self.catalogue.blobs().write_manifest(manifest).await;
        stored.map_err(|source| Error::Register(RegisterError::Store(source)))
    }

    /// Stores a capability's files before its manifest: whoever finds the manifest finds the files.
    pub(crate) async fn store_tree(&self, read: ReadTree) -> Result<(), Error> {
        let stored = self.catalogue.blobs().write_pack(read.manifest.hash, read.pack).await;
        stored.map_err(|source| Error::Register(RegisterError::Store(source)))?;
        self.store_manifest(&read.manifest).await
    }
}

/// How an env bundle is registered.
#[derive(Clone, Copy)]
pub struct EnvOptions<'a> {
    pub outside: &'a dyn Outside,
    pub short: ShortSecrets,
    /// How long the values that come in now may be used.
    pub time_to_live: Option<Duration>,
    pub allowed: &'a [Pattern],
}

impl std::fmt::Debug for EnvOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnvOptions")
            .field("short", &self.short)
            .field("time_to_live", &self.time_to_live)
            .finish_non_exhaustive()
    }
}

/// Says that the registry points to a bundle of another kind: its files were changed by hand.
fn wrong_kind(version: &Version) -> Error {
    let file = version.content_hash.to_string();
    let why = "the registry names it as a bundle of another kind".to_owned();
    Error::Registry(agora_core::provider::registry::RegistryError::Damaged { file, why })
}
