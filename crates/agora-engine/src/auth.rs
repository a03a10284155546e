//! Logins that are stored for every dispatch: `local:auth/<vendor>/<VARIABLE>`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use agora_core::bundle::VariableName;
use agora_core::login::{CHATGPT_ACCESS, CHATGPT_ACCOUNT, CHATGPT_ID, CODEX, Login, Vendor};
use agora_core::secret::{SecretName, SecretValue, ShortSecrets};
use agora_providers::codex::{CodexHome, CodexTokens};

use crate::agora::Agora;
use crate::error::Error;

impl Agora {
    /// Stores what a vendor's program logs in with, in the place of what was stored before.
    pub async fn store_login(
        &self,
        vendor: &'static Vendor,
        values: &BTreeMap<VariableName, SecretValue>,
    ) -> Result<&'static Login, Error> {
        let given = |name: &str| values.keys().any(|variable| variable.as_str() == name);
        let login = vendor.login(given).filter(|login| login.stands_alone);
        let login = login.ok_or_else(|| Error::NotALogin {
            vendor,
            given: values.keys().map(ToString::to_string).collect(),
        })?;
        self.put_login(vendor, login, values).await?;
        if *vendor == CODEX {
            self.codex_home().forget().map_err(|error| self.codex_failed("forget", error))?;
        }
        Ok(login)
    }

    /// Stores the values that belong to a login, in the place of every other.
    async fn put_login(
        &self,
        vendor: &'static Vendor,
        login: &'static Login,
        values: &BTreeMap<VariableName, SecretValue>,
    ) -> Result<(), Error> {
        let given = |name: &str| values.keys().any(|variable| variable.as_str() == name);
        let belongs = |name: &str| login.variables.contains(&name) || login.beside.contains(&name);
        let name = |variable: &str| {
            let name = format!("{}{variable}", vendor.folder());
            name.parse::<SecretName>()
                .map_err(|error| Error::Request { field: "secret", why: error.to_string() })
        };
        for (variable, value) in values.iter().filter(|(variable, _)| belongs(variable.as_str())) {
            self.secrets().put(&name(variable.as_str())?, value, None).await.map_err(Error::Secret)?;
        }
        // The others only now: whoever dispatches meanwhile finds the old one or the new one.
        for variable in
            vendor.variables().into_iter().filter(|variable| !(belongs(variable) && given(variable)))
        {
            self.secrets().remove(&name(variable)?).await.map_err(Error::Secret)?;
        }
        Ok(())
    }

    /// Returns the CODEX_HOME that is agora's own.
    pub fn codex_home(&self) -> CodexHome {
        CodexHome::below(self.home().root())
    }

    /// Makes it ready for `codex login`.
    pub fn prepare_codex_home(&self) -> Result<PathBuf, Error> {
        self.prepare()?;
        let home = self.codex_home();
        home.prepare().map_err(|error| self.codex_failed("make", error))?;
        Ok(home.path().to_owned())
    }

    /// Takes the login that `codex login` left in agora's CODEX_HOME. `None`: it left none.
    pub async fn take_codex_login(&self) -> Result<Option<&'static Login>, Error> {
        let tokens = self.codex_home().read().map_err(|error| self.codex_failed("read", error))?;
        let Some(tokens) = tokens else { return Ok(None) };
        let values = chatgpt_values(&tokens);
        let given = |name: &str| values.keys().any(|variable| variable.as_str() == name);
        let Some(login) = CODEX.login(given) else { return Ok(None) };
        self.put_login(&CODEX, login, &values).await?;
        Ok(Some(login))
    }

    fn codex_failed(&self, doing: &str, error: io::Error) -> Error {
        let path = self.codex_home().path().to_owned();
        Error::CodexHome { doing: doing.to_owned(), path, source: error }
    }

    /// Returns what is stored for a vendor, by the names of its variables. `None`: nothing is.
    pub async fn stored_login(&self, vendor: &'static Vendor) -> Result<Option<&'static Login>, Error> {
        let names = self.secrets().names().await.map_err(Error::Secret)?;
        let stored = |variable: &str| {
            let name = format!("{}{variable}", vendor.folder());
            names.iter().any(|stored| stored.as_str() == name)
        };
        Ok(vendor.login(stored))
    }

    /// Forgets what a vendor's program would log in with. False: nothing was stored.
    pub async fn forget_login(&self, vendor: &Vendor) -> Result<bool, Error> {
        let names = self.secrets().names().await.map_err(Error::Secret)?;
        let stored: Vec<_> =
            names.iter().filter(|name| name.as_str().starts_with(&vendor.folder())).collect();
        for name in &stored {
            self.secrets().remove(name).await.map_err(Error::Secret)?;
        }
        if *vendor == CODEX {
            self.codex_home().forget().map_err(|error| self.codex_failed("forget", error))?;
        }
        Ok(!stored.is_empty())
    }
}

/// Names the parts of a ChatGPT login. What is too short to be hidden is none.
pub(crate) fn chatgpt_values(tokens: &CodexTokens) -> BTreeMap<VariableName, SecretValue> {
    let parts = [
        (CHATGPT_ACCESS, Some(tokens.access.as_str())),
        (CHATGPT_ID, Some(tokens.id.as_str())),
        (CHATGPT_ACCOUNT, tokens.account.as_deref()),
    ];
    let value = |(name, text): (&str, Option<&str>)| {
        let value = SecretValue::new(text?.to_owned(), ShortSecrets::Refuse).ok()?;
        Some((name.parse().ok()?, value))
    };
    parts.into_iter().filter_map(value).collect()
}
