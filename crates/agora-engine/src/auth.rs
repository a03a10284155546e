//! Logins that are stored for every dispatch: `local:auth/<vendor>/<VARIABLE>`.

use std::collections::BTreeMap;

use agora_core::bundle::VariableName;
use agora_core::login::{Login, Vendor};
use agora_core::secret::{SecretName, SecretValue};

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
        Ok(login)
    }

    /// Forgets what a vendor's program would log in with. False: nothing was stored.
    pub async fn forget_login(&self, vendor: &Vendor) -> Result<bool, Error> {
        let names = self.secrets().names().await.map_err(Error::Secret)?;
        let stored: Vec<_> =
            names.iter().filter(|name| name.as_str().starts_with(&vendor.folder())).collect();
        for name in &stored {
            self.secrets().remove(name).await.map_err(Error::Secret)?;
        }
        Ok(!stored.is_empty())
    }
}
