//! Steps 7 and 8: secrets by their names, and the environment of everything behind the wall.
//!
//! The environment starts empty. A few variables of the worker's own come in, then the env bundles, then the dispatch's own
//! secrets; later ones win.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use agora_core::bundle::{EnvBundle, SWITCHES, VariableName};
use agora_core::login::{Login, Vendor};
use agora_core::secret::SecretValue;
use agora_core::wire::bootstrap::Supplied;

use super::fetch::Task;
use super::stage::Staged;
use crate::adapter::{Environment, Runtime};
use crate::desk::Desk;
use crate::fault::Fault;
use crate::overlay::Laid;

/// Where every variable comes from, with its secrets resolved.
#[derive(Debug)]
pub(crate) struct Secured {
    task: Task,
    runtime: Runtime,
    laid: Laid,
    /// Bundle by bundle, then the dispatch's own.
    layers: Vec<BTreeMap<VariableName, Variable>>,
}

#[derive(Debug)]
enum Variable {
    Visible(String),
    Secret(SecretValue),
}

/// A workspace and the environment to work in it.
#[derive(Debug)]
pub(crate) struct Equipped {
    pub(crate) task: Task,
    pub(crate) runtime: Runtime,
    pub(crate) laid: Laid,
    pub(crate) environment: Environment,
}

/// Step 7. A secret that a later bundle hides need not be there.
pub(crate) fn resolve_secrets(staged: Staged) -> Result<Secured, Fault> {
    let Staged { task, runtime, env, supplied, laid } = staged;
    let mut layers: Vec<BTreeMap<VariableName, Variable>> = Vec::new();
    for (place, bundle) in env.iter().enumerate() {
        let hidden = |name: &VariableName| {
            env[place + 1..].iter().any(|later| sets(later, name)) || task.manifest.secrets.contains_key(name)
        };
        let visible =
            bundle.values().iter().map(|(name, value)| (name.clone(), Variable::Visible(value.clone())));
        let mut layer: BTreeMap<_, _> = visible.collect();
        for (name, reference) in bundle.secrets().iter().filter(|(name, _)| !hidden(name)) {
            let secret = find(&supplied, name, &reference.to_string())?;
            layer.insert(name.clone(), Variable::Secret(secret));
        }
        layers.push(layer);
    }
    let own = task.manifest.secrets.iter();
    let own = own.map(|(name, secret)| Ok((name.clone(), Variable::Secret(find(&supplied, name, secret)?))));
    layers.push(own.collect::<Result<_, Fault>>()?);
    Ok(Secured { task, runtime, laid, layers })
}

fn sets(bundle: &EnvBundle, name: &VariableName) -> bool {
    bundle.values().contains_key(name) || bundle.secrets().contains_key(name)
}

fn find(
    supplied: &BTreeMap<String, Supplied>,
    variable: &VariableName,
    name: &str,
) -> Result<SecretValue, Fault> {
    let (variable, name) = (variable.to_string(), name.to_owned());
    match supplied.get(&name) {
        Some(Supplied::Value(value)) => Ok(value.clone()),
        Some(Supplied::Missing(why)) => Err(Fault::SecretMissing { variable, name, why: why.clone() }),
        Some(Supplied::Unreachable(why)) => {
            Err(Fault::SecretUnreachable { variable, name, why: why.clone() })
        }
        None => Err(Fault::SecretMissing { variable, name, why: "the engine handed over none".to_owned() }),
    }
}

/// Step 8: merges the layers, and leaves the agent one login.
pub(crate) fn merge(secured: Secured, desk: &mut Desk) -> Equipped {
    let Secured { task, runtime, laid, layers } = secured;
    let own: Vec<VariableName> = layers.last().into_iter().flat_map(BTreeMap::keys).cloned().collect();
    let mut variables = desk.place.base().clone();
    for (name, variable) in layers.into_iter().flatten() {
        let value = match variable {
            Variable::Visible(value) => OsString::from(value),
            Variable::Secret(value) => OsString::from(value.expose()),
        };
        if !SWITCHES.contains(&name.as_str()) {
            variables.insert(name.as_str().into(), value);
        }
    }
    let inside = desk.place.inside();
    variables.insert("HOME".into(), inside.home.into());
    // Its own: what runtimes leave in `/tmp` would be left for ever.
    variables.insert("TMPDIR".into(), inside.tmp.into());
    if let Some(people) = task.manifest.workspace.as_ref().and_then(|at| at.people.as_ref()) {
        // The author is in the repository's configuration, which anybody may change; who did it is not for the agent to say.
        variables.insert("GIT_COMMITTER_NAME".into(), people.committer.name.clone().into());
        variables.insert("GIT_COMMITTER_EMAIL".into(), people.committer.email.clone().into());
        // Its files may be somebody else's, by their owner; they were made for this agent.
        if !variables.contains_key(OsStr::new("GIT_CONFIG_COUNT")) {
            variables.insert("GIT_CONFIG_COUNT".into(), "1".into());
            variables.insert("GIT_CONFIG_KEY_0".into(), "safe.directory".into());
            variables.insert("GIT_CONFIG_VALUE_0".into(), "*".into());
        }
    }
    let mut environment = Environment(variables);
    if let Some(vendor) = runtime.vendor()
        && let Some(kept) = keep_one_login(&mut environment, &own, vendor, desk)
    {
        let env: Vec<&str> = task.manifest.env.iter().map(|env| env.name.as_str()).collect();
        desk.refused = task.manifest.login.map(|source| vendor.refused(kept, source, &env));
    }
    Equipped { task, runtime, laid, environment }
}

/// Takes every login away but one: which of several a runtime would use is its secret, and we record which it was. One that
/// was given for the dispatch itself goes before those of its env bundles.
fn keep_one_login(
    environment: &mut Environment,
    own: &[VariableName],
    vendor: &'static Vendor,
    desk: &mut Desk,
) -> Option<&'static Login> {
    let is_own = |name: &str| own.iter().any(|own| own.as_str() == name);
    let all = || vendor.login(|name| environment.has(name));
    let kept = vendor.login(is_own).or_else(all)?;
    desk.report.auth = Some(kept.name.to_owned());
    let others = vendor.logins.iter().filter(|login| *login != kept);
    let spare = others.flat_map(|login| login.variables).filter(|name| {
        // An endpoint may belong to the one that is kept.
        environment.has(name) && !kept.variables.contains(name) && !name.ends_with("_BASE_URL")
    });
    let mut spare: Vec<&str> = spare.copied().collect();
    spare.dedup();
    for name in &spare {
        environment.0.remove(std::ffi::OsStr::new(name));
    }
    if !spare.is_empty() {
        let names = spare.join(", ");
        desk.warn(format!("several credentials were given; the {} is used, not {names}", kept.name));
    }
    Some(kept)
}
