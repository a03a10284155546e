//! Plans: many bundles checked first, and registered only when every one of them is good.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use agora_core::Name;
use agora_core::bundle::{Bundle, BundleKind, Encoded, EnvBundle, RawSubagent, Subagent, VariableName};
use agora_core::canonical::CanonicalError;
use agora_core::catalogue::{Change, Registration, ResolveError};
use agora_core::credential::Pattern;
use agora_core::provider::secret::SecretChange;
use agora_core::reference::BundleRef;
use agora_core::secret::{SecretName, SecretValue, ShortSecrets};
use serde_json::{Map, Value};

use crate::agora::Agora;
use crate::definition::{self, Deployment, EnvEntry, ValueEntry};
use crate::error::Error;
use crate::prepare;
use crate::secret::{Outside, SecretSource};
use crate::tree;

/// What would be registered, all of it checked.
#[derive(Debug)]
pub struct Plan {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    entry: PlannedEntry,
    work: Work,
}

/// What there is to do for an entry, besides naming it in the registry.
#[derive(Debug)]
enum Work {
    /// Read again when it is stored: a plan does not keep every file in memory.
    Tree {
        dir: PathBuf,
        prefix: String,
    },
    Manifest(Encoded),
    Env {
        manifest: Encoded,
        values: Vec<(VariableName, SecretName, SecretValue)>,
    },
}

/// One bundle of a plan.
#[derive(Clone, Debug)]
pub struct PlannedEntry {
    pub kind: BundleKind,
    pub name: Name,
    pub content_hash: agora_core::ContentHash,
    pub change: Change,
}

/// One bundle of a plan that was carried out.
#[derive(Clone, Debug)]
pub struct Applied {
    pub kind: BundleKind,
    pub name: Name,
    pub registration: Registration,
    /// The secrets whose value is another than before.
    pub rotated: Vec<VariableName>,
}

impl Plan {
    /// Returns what would change, capabilities first, then subagents, then envs.
    pub fn entries(&self) -> impl Iterator<Item = &PlannedEntry> {
        self.steps.iter().map(|step| &step.entry)
    }
}

/// What a plan is made in.
pub(crate) struct Planner<'a> {
    pub(crate) agora: &'a Agora,
    pub(crate) allowed: &'a [Pattern],
    steps: Vec<Step>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(agora: &'a Agora, allowed: &'a [Pattern]) -> Self {
        Self { agora, allowed, steps: Vec::new() }
    }

    /// Plans what a deployment file says.
    pub(crate) async fn deploy(mut self, file: &Path, outside: &dyn Outside) -> Result<Plan, Error> {
        let deployment = definition::read_deployment(file)?;
        let base = file.parent().unwrap_or(Path::new("."));
        for (name, entry) in &deployment.capabilities {
            self.tree(name, base.join(&entry.from), String::new()).await?;
        }
        for name in deployment.subagents.keys() {
            let fields = self.subagent_fields(&deployment, base, name, &mut Vec::new()).await;
            let fields = fields.map_err(|error| in_entry(BundleKind::Subagent, name, error))?;
            self.subagent(name, fields).await?;
        }
        for name in deployment.envs.keys() {
            let planned = self.env(&deployment, base, name, outside).await;
            planned.map_err(|error| in_entry(BundleKind::Env, name, error))?;
        }
        Ok(Plan { steps: self.steps })
    }

    /// Plans what a project has for Claude Code: its agents and its skills. `broken` decides whether to go on without one that cannot
    /// be used.
    pub(crate) async fn sync(
        mut self,
        dir: &Path,
        mut broken: impl FnMut(Error) -> Result<(), Error>,
    ) -> Result<Plan, Error> {
        let (skills, agents) = (dir.join(".claude/skills"), dir.join(".claude/agents"));
        for skill in names_in(&skills)?.into_iter().filter(|name| skills.join(name).is_dir()) {
            self.project_skill(&skills, &skill).await.or_else(&mut broken)?;
        }
        for agent in names_in(&agents)? {
            if let Some(stem) = agent.strip_suffix(".md") {
                self.project_agent(&agents.join(&agent), stem).await.or_else(&mut broken)?;
            }
        }
        Ok(Plan { steps: self.steps })
    }

    async fn project_skill(&mut self, skills: &Path, skill: &str) -> Result<(), Error> {
        let name = parse_name(&skills.join(skill), skill)?;
        self.tree(&name, skills.join(skill), format!(".claude/skills/{skill}/")).await
    }

    async fn project_agent(&mut self, file: &Path, stem: &str) -> Result<(), Error> {
        let fields = definition::read_subagent_fields(file)?;
        // The front matter's name is the agent's; the file's is only where it stands.
        let written = fields.get("name").and_then(Value::as_str).unwrap_or(stem).to_owned();
        self.subagent(&parse_name(file, &written)?, fields).await
    }

    async fn tree(&mut self, name: &Name, dir: PathBuf, prefix: String) -> Result<(), Error> {
        let kind = BundleKind::Capability;
        let read = tree::read(&dir, &prefix, self.allowed).map_err(|error| in_entry(kind, name, error))?;
        self.add(kind, name, read.manifest.hash, Work::Tree { dir, prefix }).await
    }

    async fn subagent(&mut self, name: &Name, fields: Map<String, Value>) -> Result<(), Error> {
        let kind = BundleKind::Subagent;
        let entry = |error| in_entry(kind, name, error);
        let raw: RawSubagent = definition::typed(fields)
            .map_err(|source| entry(Error::Definition { file: PathBuf::from(name.as_str()), source }))?;
        let subagent = prepare::subagent(name, raw, self.allowed).map_err(entry)?;
        for capability in &subagent.capabilities {
            self.check_capability(capability).await.map_err(entry)?;
        }
        let manifest = prepare::encode(Bundle::Subagent(Box::new(subagent))).map_err(entry)?;
        self.add(kind, name, manifest.hash, Work::Manifest(manifest)).await
    }

    /// Checks that a capability is registered, or comes with this plan.
    async fn check_capability(&self, reference: &BundleRef) -> Result<(), Error> {
        let coming = self.steps.iter().any(|step| {
            step.entry.kind == BundleKind::Capability
                && step.entry.name == reference.name
                && match &reference.pin {
                    agora_core::reference::Pin::Latest => true,
                    agora_core::reference::Pin::Hash(prefix) => step.entry.content_hash.has_prefix(prefix),
                    agora_core::reference::Pin::At(_) => false,
                }
        });
        if coming {
            return Ok(());
        }
        self.agora
            .catalogue()
            .resolve(BundleKind::Capability, reference)
            .await
            .map(drop)
            .map_err(Error::Resolve)
    }

    /// Puts a subagent's fields together: what it extends, then its file, then its own.
    async fn subagent_fields(
        &self,
        deployment: &Deployment,
        base: &Path,
        name: &Name,
        way: &mut Vec<Name>,
    ) -> Result<Map<String, Value>, Error> {
        let Some(entry) = deployment.subagents.get(name) else { return Ok(Map::new()) };
        let mut fields = match &entry.extends {
            None => Map::new(),
            Some(extended) => {
                step_up(BundleKind::Subagent, name, extended, way)?;
                if deployment.subagents.contains_key(extended) {
                    Box::pin(self.subagent_fields(deployment, base, extended, way)).await?
                } else {
                    self.registered_fields(name, extended).await?
                }
            }
        };
        if let Some(file) = &entry.from {
            fields.extend(definition::read_subagent_fields(&base.join(file))?);
        }
        fields.remove("name");
        fields.extend(entry.fields.clone());
        Ok(fields)
    }

    async fn registered_fields(&self, name: &Name, extended: &Name) -> Result<Map<String, Value>, Error> {
        let found = self.agora.get::<Subagent>(&extended.clone().into()).await;
        let found = found.map_err(|error| unknown_base(BundleKind::Subagent, name, extended, error))?;
        let written = serde_json::to_value(RawSubagent::from(found.body)).and_then(serde_json::from_value);
        written.map_err(|source| Error::Canonical(CanonicalError::NotJson(source)))
    }

    async fn env(
        &mut self,
        deployment: &Deployment,
        base: &Path,
        name: &Name,
        outside: &dyn Outside,
    ) -> Result<(), Error> {
        let entry = self.env_entry(deployment, name, &mut Vec::new()).await?;
        let mut values = BTreeMap::new();
        for (variable, value) in entry.values {
            values.insert(variable.clone(), plain_value(&variable, value, outside)?);
        }
        let mut secrets = BTreeMap::new();
        for (variable, value) in entry.secrets {
            let failed = |source| Error::SecretSource { variable: variable.to_string(), source };
            let source = match value {
                ValueEntry::FromEnv(name) => SecretSource::Env(name),
                ValueEntry::Text(text) => SecretSource::parse(&text).map_err(failed)?,
            };
            let input = source.resolve(variable.as_str(), base, outside, ShortSecrets::Refuse)?;
            secrets.insert(variable, input);
        }
        let prepared = prepare::env(self.agora.catalogue().namespace(), name, values, secrets, self.allowed)?;
        let hash = prepared.manifest.hash;
        let work = Work::Env { manifest: prepared.manifest, values: prepared.values };
        self.add(BundleKind::Env, name, hash, work).await
    }

    /// Puts an env's variables together: what it extends, then its own.
    async fn env_entry(
        &self,
        deployment: &Deployment,
        name: &Name,
        way: &mut Vec<Name>,
    ) -> Result<EnvEntry, Error> {
        let Some(own) = deployment.envs.get(name) else { return Ok(EnvEntry::default()) };
        let mut entry = match &own.extends {
            None => EnvEntry::default(),
            Some(extended) => {
                step_up(BundleKind::Env, name, extended, way)?;
                if deployment.envs.contains_key(extended) {
                    Box::pin(self.env_entry(deployment, extended, way)).await?
                } else {
                    self.registered_env(name, extended).await?
                }
            }
        };
        // A variable has one source: saying it again, as either, replaces the inherited one.
        for variable in own.values.keys().chain(own.secrets.keys()) {
            entry.values.remove(variable);
            entry.secrets.remove(variable);
        }
        entry.values.extend(own.values.clone());
        entry.secrets.extend(own.secrets.clone());
        Ok(entry)
    }

    async fn registered_env(&self, name: &Name, extended: &Name) -> Result<EnvEntry, Error> {
        let found = self.agora.get::<EnvBundle>(&extended.clone().into()).await;
        let env = found.map_err(|error| unknown_base(BundleKind::Env, name, extended, error))?.body;
        let text = |text: String| ValueEntry::Text(text);
        Ok(EnvEntry {
            extends: None,
            values: env.values().iter().map(|(key, value)| (key.clone(), text(value.clone()))).collect(),
            secrets: env
                .secrets()
                .iter()
                .map(|(key, value)| (key.clone(), text(value.to_string())))
                .collect(),
        })
    }

    async fn add(
        &mut self,
        kind: BundleKind,
        name: &Name,
        hash: agora_core::ContentHash,
        work: Work,
    ) -> Result<(), Error> {
        let change = self.agora.catalogue().foresee(kind, name, hash).await.map_err(Error::Registry)?;
        let entry = PlannedEntry { kind, name: name.clone(), content_hash: hash, change };
        self.steps.push(Step { entry, work });
        Ok(())
    }
}

impl Agora {
    /// Carries a plan out. Every entry was checked; what can still fail is the disk, and doing it again then is safe.
    pub async fn apply(&self, plan: Plan, allowed: &[Pattern]) -> Result<Vec<Applied>, Error> {
        let mut applied = Vec::new();
        for Step { entry, work } in plan.steps {
            let PlannedEntry { kind, name, content_hash, .. } = entry;
            let mut rotated = Vec::new();
            match work {
                Work::Tree { .. } if entry.change == Change::Unchanged => {}
                Work::Tree { dir, prefix } => {
                    let read = tree::read(&dir, &prefix, allowed)?;
                    if read.manifest.hash != content_hash {
                        return Err(Error::ChangedMeanwhile { kind, name });
                    }
                    self.store_tree(read).await?;
                }
                Work::Manifest(manifest) => self.store_manifest(&manifest).await?,
                Work::Env { manifest, values } => {
                    for (variable, place, value) in values {
                        let change = self.secrets().put(&place, &value, None).await.map_err(Error::Secret)?;
                        rotated.extend((change == SecretChange::Rotated).then_some(variable));
                    }
                    self.store_manifest(&manifest).await?;
                }
            }
            let registration =
                self.catalogue().register(kind, &name, content_hash).await.map_err(Error::Register)?;
            applied.push(Applied { kind, name, registration, rotated });
        }
        Ok(applied)
    }
}

fn plain_value(variable: &VariableName, value: ValueEntry, outside: &dyn Outside) -> Result<String, Error> {
    match value {
        ValueEntry::Text(text) => Ok(text),
        ValueEntry::FromEnv(name) => outside.variable(&name).ok_or_else(|| Error::SecretSource {
            variable: variable.to_string(),
            source: crate::secret::SecretSourceError::NoVariable(name),
        }),
    }
}

/// Notes that an entry extends another, and refuses to come back to where it was.
fn step_up(kind: BundleKind, name: &Name, extended: &Name, way: &mut Vec<Name>) -> Result<(), Error> {
    way.push(name.clone());
    let seen: BTreeSet<&Name> = way.iter().collect();
    if seen.contains(extended) {
        return Err(Error::Circle { kind, name: way[0].clone(), way: way.clone() });
    }
    Ok(())
}

fn unknown_base(kind: BundleKind, name: &Name, base: &Name, error: Error) -> Error {
    match error {
        Error::Resolve(ResolveError::UnknownName { .. }) => {
            Error::UnknownBase { kind, name: name.clone(), base: base.clone() }
        }
        other => other,
    }
}

fn in_entry(kind: BundleKind, name: &Name, error: Error) -> Error {
    Error::Entry { kind, name: name.clone(), source: Box::new(error) }
}

/// Lists a directory by name, in order. One that does not exist is empty.
fn names_in(dir: &Path) -> Result<Vec<String>, Error> {
    let unreadable = |source| Error::Unreadable { file: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(unreadable)?.file_name();
        let fault =
            || Error::File { path: dir.join(&name).display().to_string(), fault: tree::TreeFault::NotUtf8 };
        names.push(name.to_str().ok_or_else(fault)?.to_owned());
    }
    names.sort();
    Ok(names)
}

fn parse_name(file: &Path, text: &str) -> Result<Name, Error> {
    text.parse().map_err(|error| {
        let source = definition::DefinitionError::Fields(format!("`{text}` cannot be its name: {error}"));
        Error::Definition { file: file.to_owned(), source }
    })
}
