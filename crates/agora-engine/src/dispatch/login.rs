//! Which login an agent gets: the first that there is, and no other.
//!
//! ```text
//!  the dispatch's own secrets ─▶ its env bundles ─▶ what `agora auth` stored ─▶ the caller's own environment ─▶ none: refused
//! ```

use std::collections::BTreeMap;

use agora_core::bundle::{EnvBundle, VariableName};
use agora_core::job::{Job, NextLogin};
use agora_core::login::{Login, LoginSource, Vendor};
use agora_core::secret::SecretValue;

use super::Dispatch;
use super::resolve::staged_secret;
use crate::agora::{Agora, Found};
use crate::carry::Engine;
use crate::error::Error;

/// The login that a dispatch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedLogin {
    pub source: LoginSource,
    pub login: &'static Login,
}

/// What the next dispatch of a thread logs in with, or whose login there is none of.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) login: Result<NextLogin, &'static Vendor>,
    pub(crate) used: Option<UsedLogin>,
    pub(crate) staged: Staged,
}

/// What is staged for a thread alone.
pub(crate) type Staged = BTreeMap<VariableName, SecretValue>;

/// A login, and what has to be staged for it.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// `None` for a runtime that logs in with whatever it likes.
    pub(crate) used: Option<UsedLogin>,
    /// Which variable gets which secret of the store.
    pub(crate) stored: BTreeMap<VariableName, String>,
    pub(crate) staged: Staged,
}

impl Agora {
    /// Returns what a vendor's program would log in with, if a dispatch like this one ran it. `None`: there is nothing.
    pub async fn login_of(
        &self,
        vendor: &'static Vendor,
        dispatch: &Dispatch,
    ) -> Result<Option<UsedLogin>, Error> {
        let env = self.resolve_env(dispatch).await?;
        match self.choose_login(vendor.runtime, dispatch, &env).await {
            Ok(chosen) => Ok(chosen.used),
            Err(Error::NoLogin { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Chooses the login for a runtime, before anything is recorded.
    pub(crate) async fn choose_login(
        &self,
        runtime: &str,
        dispatch: &Dispatch,
        env: &[Found<EnvBundle>],
    ) -> Result<Chosen, Error> {
        let Some(vendor) = Vendor::of_runtime(runtime) else { return Ok(Chosen::default()) };
        let own = |name: &str| dispatch.secrets.keys().any(|own| own.as_str() == name);
        let env: Vec<&EnvBundle> = env.iter().map(|env| &env.body).collect();
        self.choose(vendor, &own, &env).await?.ok_or(Error::NoLogin { vendor })
    }

    /// Chooses again for the next dispatch of a thread: what is there now, and not what was.
    pub(crate) async fn choose_again(&self, engine: &Engine, job: &Job) -> Result<Again, Error> {
        let as_it_was = || {
            let login = NextLogin { secrets: job.secrets.clone(), source: job.login };
            Again { login: Ok(login), used: None, staged: Staged::new() }
        };
        let Some(vendor) = Vendor::of_runtime(&job.runtime) else { return Ok(as_it_was()) };
        let (login, mut secrets): (BTreeMap<_, _>, BTreeMap<_, _>) = job
            .secrets
            .clone()
            .into_iter()
            .partition(|(variable, _)| vendor.variables().contains(&variable.as_str()));
        let mut there = BTreeMap::new();
        for (variable, reference) in login {
            if engine.has_secret(&reference).await {
                there.insert(variable, reference);
            }
        }
        let stored = format!("local:{}", vendor.folder());
        let was_chosen = matches!(job.login, Some(LoginSource::Stored | LoginSource::Around));
        let given: BTreeMap<_, _> = there
            .iter()
            .filter(|(_, reference)| !was_chosen && !reference.starts_with(&stored))
            .map(|(variable, reference)| (variable.clone(), reference.clone()))
            .collect();
        let mut env = Vec::new();
        for bundle in &job.resolved.env {
            env.extend(engine.env_bundle(bundle.content_hash).await.map_err(Error::Read)?);
        }
        let env: Vec<&EnvBundle> = env.iter().collect();
        let has =
            |all: &BTreeMap<VariableName, String>, name: &str| all.keys().any(|own| own.as_str() == name);
        let Some(chosen) = self.choose(vendor, &|name| has(&given, name), &env).await? else {
            // Of somebody's environment who is not here: it was staged for the thread, and is until that ends.
            let login = vendor.login(|name| has(&there, name));
            let is_staged = login.is_some() && job.login == Some(LoginSource::Around);
            let none = Again { login: Err(vendor), used: None, staged: Staged::new() };
            return Ok(if is_staged { as_it_was() } else { none });
        };
        secrets.extend(given);
        secrets.extend(chosen.stored);
        let names = chosen.staged.keys();
        secrets.extend(names.map(|name| (name.clone(), staged_secret(&job.thread_id, name.as_str()))));
        let source = chosen.used.map(|used| used.source);
        Ok(Again { login: Ok(NextLogin { secrets, source }), used: chosen.used, staged: chosen.staged })
    }

    /// Chooses the first login that there is. `None`: there is none.
    async fn choose(
        &self,
        vendor: &'static Vendor,
        own: &(dyn Fn(&str) -> bool + Sync),
        env: &[&EnvBundle],
    ) -> Result<Option<Chosen>, Error> {
        let used = |source, login| Some(UsedLogin { source, login });
        if let Some(login) = vendor.login(own) {
            return Ok(Some(Chosen { used: used(LoginSource::Dispatch, login), ..Chosen::default() }));
        }
        let given = |name: &str| own(name) || env.iter().any(|env| sets(env, name));
        if let Some(login) = vendor.login(given) {
            return Ok(Some(Chosen { used: used(LoginSource::Env, login), ..Chosen::default() }));
        }
        let names = self.secrets().names().await.map_err(Error::Secret)?;
        let name_of = |variable: &str| format!("{}{variable}", vendor.folder());
        let is_stored = |variable: &str| names.iter().any(|name| name.as_str() == name_of(variable));
        if let Some(login) = vendor.login(is_stored) {
            let all = login.variables.iter().chain(login.beside).filter(|variable| is_stored(variable));
            let stored = all.filter_map(|variable| {
                Some((variable.parse().ok()?, format!("local:{}", name_of(variable))))
            });
            return Ok(Some(Chosen {
                used: used(LoginSource::Stored, login),
                stored: stored.collect(),
                ..Chosen::default()
            }));
        }
        let around = self.settings().map(|settings| &settings.logins);
        let value = |variable: &str| around?.iter().find(|(name, _)| name.as_str() == variable);
        let alone = vendor.logins.iter().filter(|login| login.stands_alone);
        let login = alone.into_iter().find(|login| login.variables.iter().all(|name| value(name).is_some()));
        let Some(login) = login else { return Ok(None) };
        let all = login.variables.iter().chain(login.beside);
        let staged =
            all.filter_map(|variable| value(variable)).map(|(name, value)| (name.clone(), value.clone()));
        let used = used(LoginSource::Around, login);
        Ok(Some(Chosen { used, staged: staged.collect(), ..Chosen::default() }))
    }
}

fn sets(bundle: &EnvBundle, variable: &str) -> bool {
    let is = |name: &VariableName| name.as_str() == variable;
    bundle.values().keys().any(is) || bundle.secrets().keys().any(is)
}
