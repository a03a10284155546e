//! From a request to a job: every name becomes a hash, once, and what can be wrong is found before anything is recorded.

use std::collections::BTreeMap;
use std::fmt::Display;

use agora_core::bundle::{BundleKind, EnvBundle, RawSubagent, Runtime, Subagent, VariableName};
use agora_core::canonical;
use agora_core::event::{Resolved, ResolvedBundle};
use agora_core::job::{Job, JobEssentials};
use agora_core::limits::{
    INPUT_BYTES, LEAST_MEMORY_BYTES, LONGEST_DISPATCH_SECONDS, LONGEST_RETENTION_DAYS, SETUP_SECONDS,
};
use agora_core::provider::registry::Version;
use agora_core::reference::BundleRef;
use agora_core::secret::{SecretRef, SecretValue};
use agora_core::strict;
use agora_core::template::PromptData;
use agora_core::wire::manifest::{Limits, Verbatim};
use agora_core::{ContentHash, DispatchId, Name, ThreadId};
use serde_json::{Map, Value, json};

use super::login::{Chosen, UsedLogin};
use super::{Capabilities, Dispatch};
use crate::agora::{Agora, Found};
use crate::carry::CarryError;
use crate::carry::accept::RequestKey;
use crate::error::Error;
use crate::world::World;

/// What a worker takes to fetch, to lay out and to put away.
const HANDLING_SECONDS: u32 = 600;
const SETUP_SWITCH: &str = "AGORA_SETUP_TIMEOUT_SECONDS";
/// A key is a name that a program makes, such as a UUID with a prefix.
const LONGEST_KEY: usize = 256;

/// A request that was checked.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) job: Job,
    pub(crate) key: Option<RequestKey>,
    /// What is staged for the thread alone.
    pub(crate) secrets: BTreeMap<VariableName, SecretValue>,
    pub(crate) login: Option<UsedLogin>,
    /// Whether what runs comes with agora, and has to be stored first.
    pub(crate) is_built_in: bool,
}

impl Agora {
    pub(crate) async fn resolve(&self, dispatch: &Dispatch, world: &World) -> Result<Checked, Error> {
        let found = self.subagent(&reference("subagent", &dispatch.subagent)?).await?;
        let is_built_in = found.is_built_in();
        let (subagent, subagent_at) = (&found.body, resolved(found.name.clone(), found.version));
        let capabilities = self.resolve_capabilities(dispatch, subagent).await?;
        let env = self.resolve_env(dispatch).await?;
        let input = check_input(dispatch, subagent)?;
        check_size("partialState", &dispatch.partial_state)?;
        let target_name: Name = parsed("target", &dispatch.target)?;
        let target = world.targets.get(&target_name).ok_or_else(|| Error::UnknownTarget {
            name: target_name.clone(),
            known: world.targets.keys().cloned().collect(),
        })?;
        let labels = dispatch.labels.iter().chain(&dispatch.marks).map(|label| parsed("label", label));
        let dispatch_id = match &dispatch.dispatch_id {
            Some(given) => parsed("dispatchId", given)?,
            None => DispatchId::from_entropy(world.random()),
        };
        let thread_id = ThreadId::from_entropy(world.random());
        let data = PromptData::new(&input, thread_id.as_str(), dispatch_id.as_str(), None)
            .with_partial_state(&dispatch.partial_state);
        // What only a dispatch that goes on would miss is missed now, too: by then somebody has answered.
        for data in [data.clone(), data.continued(None)] {
            data.prompt(subagent.prompt_template.as_ref()).map_err(Error::Render)?;
        }
        let limits = Limits {
            timeout_seconds: within("timeoutSeconds", dispatch.timeout_seconds, LONGEST_DISPATCH_SECONDS)?,
            memory_bytes: at_least(
                "memoryBytes",
                dispatch.memory_bytes.or(target.memory_bytes),
                LEAST_MEMORY_BYTES,
            )?,
            processes: at_least("processes", dispatch.processes.or(target.processes), 1)?,
            budget: dispatch.budget.clone().or_else(|| subagent.budget.clone()),
        };
        let runtime = runtime(dispatch, subagent)?;
        let Chosen { used, stored, mut staged } = self.choose_login(&runtime, dispatch, &env).await?;
        staged.extend(dispatch.secrets.clone());
        let image =
            target.compute.prepare().await.map_err(|error| Error::Carry(CarryError::Compute(error)))?;
        let mut job = Job::new(JobEssentials {
            namespace: self.catalogue().namespace().clone(),
            dispatch_id,
            thread_id,
            runtime,
            resolved: Resolved {
                subagent: subagent_at,
                capabilities,
                env: env.iter().map(|env| resolved(env.name.clone(), env.version)).collect(),
            },
            input,
            limits,
            target: target_name,
            retention_days: within("retentionDays", dispatch.retention_days, LONGEST_RETENTION_DAYS)?,
            overtime_seconds: overtime(subagent, &env),
            salt: salt(world),
        });
        job.image = image;
        job.partial_state = Verbatim(dispatch.partial_state.clone());
        job.model.clone_from(&dispatch.model);
        job.labels = labels.collect::<Result<_, _>>()?;
        job.priority = dispatch.priority;
        job.attendance = dispatch.attendance;
        job.owner = dispatch.owner.as_deref().map(|owner| parsed("owner", owner)).transpose()?;
        if let Some(settings) = self.settings() {
            job.routes = settings.routes.of(&job.resolved.subagent.name, &job.labels);
        }
        let names = staged.keys().map(|name| (name.clone(), staged_secret(&job.thread_id, name.as_str())));
        job.secrets = stored.into_iter().chain(names).collect();
        job.login = used.map(|used| used.source);
        Ok(Checked { key: request_key(dispatch)?, job, secrets: staged, login: used, is_built_in })
    }

    async fn resolve_capabilities(
        &self,
        dispatch: &Dispatch,
        subagent: &Subagent,
    ) -> Result<Vec<ResolvedBundle>, Error> {
        let mut bundles: Vec<ResolvedBundle> = Vec::new();
        for reference in dispatch.capabilities.of(subagent)? {
            let version = self.catalogue().resolve(BundleKind::Capability, &reference).await;
            if bundles.iter().any(|bundle| bundle.name == reference.name) {
                let why = format!(
                    "`{}` is there twice; its place decides who wins, so it can have only one",
                    reference.name
                );
                return Err(Error::Request { field: "capabilities", why });
            }
            bundles.push(resolved(reference.name, version.map_err(Error::Resolve)?));
        }
        Ok(bundles)
    }

    pub(super) async fn resolve_env(&self, dispatch: &Dispatch) -> Result<Vec<Found<EnvBundle>>, Error> {
        let Some(names) = &dispatch.env else {
            return Ok(self.default_env().await?.into_iter().collect());
        };
        let mut found = Vec::new();
        for name in names {
            found.push(self.get(&reference("env", name)?).await?);
        }
        Ok(found)
    }
}

impl Capabilities {
    /// Returns which these are for a subagent, in the order that decides who wins.
    fn of(&self, subagent: &Subagent) -> Result<Vec<BundleRef>, Error> {
        let named = |names: &[String]| -> Result<Vec<BundleRef>, Error> {
            names.iter().map(|name| reference("capability", name)).collect()
        };
        Ok(match self {
            Self::Assigned => subagent.capabilities.clone(),
            Self::Instead(names) => named(names)?,
            Self::Beside(names) => [subagent.capabilities.clone(), named(names)?].concat(),
        })
    }
}

impl Dispatch {
    /// Moves what this dispatch says instead of its subagent (model, runtime, capabilities, budget) into the subagent, and returns that:
    /// what would run, as it can be registered.
    pub fn settle(&mut self, subagent: Subagent) -> Result<RawSubagent, Error> {
        let runtime = runtime(self, &subagent)?;
        let capabilities = std::mem::take(&mut self.capabilities).of(&subagent)?;
        let mut raw = RawSubagent::from(subagent);
        // Another runtime has no use for it.
        raw.command = raw.command.filter(|_| runtime == "command");
        raw.runtime = self.runtime.take().or(raw.runtime);
        raw.capabilities = Some(capabilities);
        raw.model = self.model.take().or(raw.model);
        raw.budget = self.budget.take().or(raw.budget);
        Ok(raw)
    }
}

impl Agora {
    /// Returns which secrets the env bundles of a dispatch refer to, by their variables.
    pub async fn env_secrets(&self, dispatch: &Dispatch) -> Result<BTreeMap<VariableName, SecretRef>, Error> {
        let bundles = self.resolve_env(dispatch).await?;
        let secrets = bundles.iter().flat_map(|env| env.body.secrets());
        Ok(secrets.map(|(variable, reference)| (variable.clone(), reference.clone())).collect())
    }
}

/// Names the place of a secret that was given for one thread.
pub(crate) fn staged_secret(thread: &ThreadId, variable: &str) -> String {
    format!("local:{}{variable}", staged_folder(thread))
}

/// Returns what the names of all secrets begin with that were given for one thread.
pub(crate) fn staged_folder(thread: &ThreadId) -> String {
    format!("thread/{thread}/")
}

fn resolved(name: Name, version: Version) -> ResolvedBundle {
    ResolvedBundle { name, content_hash: version.content_hash, registered_at: version.registered_at }
}

fn parsed<T: std::str::FromStr<Err: std::error::Error>>(field: &'static str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|error: T::Err| Error::Request { field, why: crate::error::chain(&error) })
}

fn reference(field: &'static str, text: &str) -> Result<BundleRef, Error> {
    parsed(field, text)
}

fn within(field: &'static str, value: u32, most: u32) -> Result<u32, Error> {
    if (1..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Error::Request { field, why: format!("it is {value}, and must be from 1 to {most}") })
    }
}

fn at_least<T: PartialOrd + Display>(
    field: &'static str,
    value: Option<T>,
    least: T,
) -> Result<Option<T>, Error> {
    match value {
        Some(value) if value < least => {
            Err(Error::Request { field, why: format!("it is {value}, and must be at least {least}") })
        }
        value => Ok(value),
    }
}

/// Checks that a value can be kept: not too large, and no deeper than what keeps it can be read.
fn check_size(field: &'static str, value: &Value) -> Result<(), Error> {
    let text = value.to_string();
    let size = text.len();
    if size > INPUT_BYTES {
        let why = format!("it has {size} bytes as JSON, the most is {INPUT_BYTES} (1 MiB)");
        return Err(Error::Request { field, why });
    }
    strict::parse(&text).map(drop).map_err(|error| Error::Request { field, why: error.to_string() })
}

/// Checks the input against what the subagent declares, or what its template asks for.
fn check_input(dispatch: &Dispatch, subagent: &Subagent) -> Result<Map<String, Value>, Error> {
    let Value::Object(input) = &dispatch.input else {
        return Err(Error::Request { field: "input", why: "it is not a JSON object".to_owned() });
    };
    check_size("input", &dispatch.input)?;
    let wrong = |why: String| Error::Request { field: "input", why };
    if let Some(schema) = &subagent.inputs {
        let validator = jsonschema::validator_for(&Value::Object(schema.clone()))
            .map_err(|error| wrong(format!("the subagent's `inputs` cannot be used: {error}")))?;
        let mut errors = validator.iter_errors(&dispatch.input);
        if let Some(first) = errors.next() {
            let place = first.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!("at `{place}`: ") };
            return Err(wrong(format!("{place}{first}{}", and_more(errors.count()))));
        }
    } else if let Some(template) = &subagent.prompt_template
        && let [first, others @ ..] = template.missing_inputs(input).as_slice()
    {
        return Err(wrong(format!("{first:?} is a required property{}", and_more(others.len()))));
    }
    Ok(input.clone())
}

fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" (and {count} more)") }
}

/// Returns the adapter's word.
fn runtime(dispatch: &Dispatch, subagent: &Subagent) -> Result<String, Error> {
    let Some(word) = &dispatch.runtime else { return Ok(subagent.runtime.as_str().to_owned()) };
    let has_command = matches!(subagent.runtime, Runtime::Command(_));
    match word.as_str() {
        "command" if !has_command => {
            let why = "the subagent has no `command` to run".to_owned();
            Err(Error::Request { field: "runtime", why })
        }
        "claude-code" | "codex" | "command" => Ok(word.clone()),
        name => parsed::<Name>("runtime", name).map(|name| name.to_string()),
    }
}

fn overtime(subagent: &Subagent, env: &[Found<EnvBundle>]) -> u32 {
    let switch = env.iter().rev().find_map(|env| {
        env.body.values().iter().find(|(name, _)| name.as_str() == SETUP_SWITCH).map(|(_, value)| value)
    });
    let setup = switch.and_then(|text| text.trim().parse().ok()).unwrap_or(SETUP_SECONDS);
    let verify = subagent.verify.as_ref().map_or(0, |verify| verify.timeout_seconds);
    HANDLING_SECONDS.saturating_add(setup).saturating_add(verify)
}

fn salt(world: &World) -> String {
    world.random::<16>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes the request as it was written, so that the same words under the same key are one dispatch.
fn request_key(dispatch: &Dispatch) -> Result<Option<RequestKey>, Error> {
    let Some(key) = &dispatch.idempotency_key else { return Ok(None) };
    if key.trim().is_empty() || key.len() > LONGEST_KEY || key.chars().any(char::is_control) {
        let why = format!("it has 1 to {LONGEST_KEY} bytes, and no control characters");
        return Err(Error::Request { field: "idempotencyKey", why });
    }
    let (capabilities, kind) = match &dispatch.capabilities {
        Capabilities::Assigned => (None, "assigned"),
        Capabilities::Instead(names) => (Some(names), "instead"),
        Capabilities::Beside(names) => (Some(names), "beside"),
    };
    let mut request = json!({
        "subagent": dispatch.subagent,
        "target": dispatch.target,
        "env": dispatch.env,
        "capabilities": {"kind": kind, "names": capabilities},
        // As texts: canonical JSON has no numbers of every size.
        "input": dispatch.input.to_string(),
        "partialState": dispatch.partial_state.to_string(),
        "model": dispatch.model,
        "runtime": dispatch.runtime,
        "secrets": dispatch.secrets.keys().map(ToString::to_string).collect::<Vec<_>>(),
        "timeoutSeconds": dispatch.timeout_seconds,
        "budget": dispatch.budget.as_ref().map(|budget| serde_json::to_string(budget).unwrap_or_default()),
        "retentionDays": dispatch.retention_days,
        "memoryBytes": dispatch.memory_bytes.map(|bytes| bytes.to_string()),
        "processes": dispatch.processes,
        "labels": dispatch.labels,
        "priority": dispatch.priority,
        "workspace": format!("{:?}", dispatch.ground),
    });
    if let Some(together) = dispatch.one_of {
        // Only where it is said: what was asked for alone stays the same request as before.
        request["together"] = json!(together.to_string());
    }
    let request: ContentHash = canonical::hash(&request).map_err(Error::Canonical)?;
    Ok(Some(RequestKey { key: key.clone(), request }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_with_which_nothing_starts_is_a_wrong_request() {
        assert!(matches!(at_least("memoryBytes", Some(4 << 20), LEAST_MEMORY_BYTES), Ok(Some(_))));
        assert!(matches!(at_least("processes", None, 1), Ok(None)));
        for wrong in [
            at_least("memoryBytes", Some(LEAST_MEMORY_BYTES - 1), LEAST_MEMORY_BYTES).map(drop),
            at_least("processes", Some(0), 1).map(drop),
        ] {
            assert!(matches!(wrong, Err(Error::Request { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_dispatch_says_instead_becomes_the_subagents_own() {
        let own = RawSubagent {
            runtime: Some("command".to_owned()),
            command: Some(vec!["/bin/true".to_owned()]),
            system_prompt: Some("You plan.".to_owned()),
            ..RawSubagent::default()
        };
        let own = Subagent::new(own).unwrap();
        for (word, command) in [("command", own.clone().into()), ("codex", RawSubagent::default())] {
            let mut dispatch = Dispatch::to("planner").runtime(word);
            let raw = dispatch.settle(own.clone()).unwrap();
            assert_eq!((raw.runtime.as_deref(), &raw.command), (Some(word), &command.command));
            assert_eq!(Subagent::new(raw).unwrap().runtime.as_str(), word);
            assert_eq!(dispatch.runtime, None);
        }
    }
}
