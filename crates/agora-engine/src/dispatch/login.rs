//! Which login an agent gets: the first that there is, and no other.
//!
//! ```text
//!  the dispatch's own secrets ─▶ its env bundles ─▶ what `agora auth` stored ─▶ the caller's own environment ─▶ none: refused
//! ```

use std::collections::BTreeMap;

use agora_core::bundle::{EnvBundle, VariableName};
use agora_core::login::{Login, Vendor};
use agora_core::secret::SecretValue;

use super::Dispatch;
use crate::agora::{Agora, Found};
use crate::error::Error;

/// Where a login came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginSource {
    /// Given with the dispatch.
    Dispatch,
    /// In an env bundle.
    Env,
    /// Stored with `agora auth`.
    Stored,
    /// In the environment of whoever dispatched.
    Around,
}

/// The login that a dispatch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedLogin {
    pub source: LoginSource,
    pub login: &'static Login,
}

/// A login, and what has to be staged for it.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// `None` for a runtime that logs in with whatever it likes.
    pub(crate) used: Option<UsedLogin>,
    /// Which variable gets which secret of the store.
    pub(crate) stored: BTreeMap<VariableName, String>,
    /// What is staged for the thread alone.
    pub(crate) staged: BTreeMap<VariableName, SecretValue>,
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
        let used = |source, login| Some(UsedLogin { source, login });
        let own = |name: &str| dispatch.secrets.keys().any(|own| own.as_str() == name);
        if let Some(login) = vendor.login(own) {
            return Ok(Chosen { used: used(LoginSource::Dispatch, login), ..Chosen::default() });
        }
        let given = |name: &str| own(name) || env.iter().any(|env| sets(&env.body, name));
        if let Some(login) = vendor.login(given) {
            return Ok(Chosen { used: used(LoginSource::Env, login), ..Chosen::default() });
        }
        let names = self.secrets().names().await.map_err(Error::Secret)?;
        let name_of = |variable: &str| format!("{}{variable}", vendor.folder());
        let is_stored = |variable: &str| names.iter().any(|name| name.as_str() == name_of(variable));
        if let Some(login) = vendor.login(is_stored) {
            let all = login.variables.iter().chain(login.beside).filter(|variable| is_stored(variable));
            let stored = all.filter_map(|variable| {
                Some((variable.parse().ok()?, format!("local:{}", name_of(variable))))
            });
            return Ok(Chosen {
                used: used(LoginSource::Stored, login),
                stored: stored.collect(),
                ..Chosen::default()
            });
        }
        let around = self.settings().map(|settings| &settings.logins);
        let value = |variable: &str| around?.iter().find(|(name, _)| name.as_str() == variable);
        let alone = vendor.logins.iter().filter(|login| login.stands_alone);
        let login = alone.into_iter().find(|login| login.variables.iter().all(|name| value(name).is_some()));
        let Some(login) = login else { return Err(Error::NoLogin { vendor }) };
        let all = login.variables.iter().chain(login.beside);
        let staged =
            all.filter_map(|variable| value(variable)).map(|(name, value)| (name.clone(), value.clone()));
        Ok(Chosen { used: used(LoginSource::Around, login), staged: staged.collect(), ..Chosen::default() })
    }
}

fn sets(bundle: &EnvBundle, variable: &str) -> bool {
    let is = |name: &VariableName| name.as_str() == variable;
    bundle.values().keys().any(is) || bundle.secrets().keys().any(is)
}
