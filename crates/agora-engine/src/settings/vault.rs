//! Where the secrets of this machine come from.

use std::ffi::OsString;
use std::sync::Arc;

use agora_core::ThreadId;
use agora_core::job::Job;
use agora_core::login::{CHATGPT_ACCESS, CODEX};
use agora_core::provider::secret::{SecretError, SecretStore};
use agora_core::secret::{SecretName, SecretRef};
use agora_core::time::Clock;
use agora_core::wire::bootstrap::Supplied;
use agora_providers::codex::CodexHome;
use agora_providers::secret::command_secret;
use async_trait::async_trait;

use crate::auth::chatgpt_values;
use crate::dispatch::resolve::staged_folder;
use crate::world::Vault;

/// Secrets of this machine's store, and what commands print.
#[derive(Debug)]
pub(super) struct LocalVault {
    pub(super) secrets: Arc<dyn SecretStore>,
    /// Codex's login that is agora's own, which is kept fresh.
    pub(super) codex: CodexHome,
    /// How the vendor's program is found that renews it.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) clock: Arc<dyn Clock>,
}

impl LocalVault {
    /// Sees to it that a stored ChatGPT login lasts as long as a dispatch. Called before its first part is handed out.
    async fn keep_codex_fresh(&self) -> Result<(), String> {
        let fresh = self.codex.fresh(self.environment.clone(), self.clock.now()).await;
        let fresh = fresh.map_err(|error| format!("{error}; `agora auth codex` logs in again"))?;
        let Some((tokens, true)) = fresh else { return Ok(()) };
        for (variable, value) in chatgpt_values(&tokens) {
            let name = format!("{}{variable}", CODEX.folder()).parse::<SecretName>();
            let name = name.map_err(|error| error.to_string())?;
            self.secrets.put(&name, &value, None).await.map_err(|error| crate::error::chain(&error))?;
        }
        Ok(())
    }
}

/// Tells whether a secret is the first part of a ChatGPT login, in the order in which parts are asked for.
fn begins_chatgpt(name: &SecretName) -> bool {
    name.as_str().strip_prefix(&CODEX.folder()) == Some(CHATGPT_ACCESS)
}

#[async_trait]
impl Vault for LocalVault {
    async fn supply(&self, reference: &SecretRef) -> Supplied {
        match reference {
            SecretRef::Local(name)
                if begins_chatgpt(name)
                    && let Err(why) = self.keep_codex_fresh().await =>
            {
                Supplied::Unreachable(why)
            }
            SecretRef::Local(name) => match self.secrets.get(name).await {
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
                self.secrets.remove(&name).await?;
            }
        }
        Ok(())
    }

    async fn forget_stray(&self, thread: &ThreadId) -> Result<(), SecretError> {
        let folder = staged_folder(thread);
        for name in self.secrets.names().await?.iter().filter(|name| name.as_str().starts_with(&folder)) {
            self.secrets.remove(name).await?;
        }
        Ok(())
    }
}
