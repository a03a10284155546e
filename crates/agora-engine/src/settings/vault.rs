//! Where the secrets of this machine come from.

use std::ffi::OsString;
use std::sync::Arc;

use agora_core::ThreadId;
use agora_core::job::Job;
use agora_core::login::{CHATGPT_ACCESS, CHATGPT_ACCOUNT, CHATGPT_ID, CODEX};
use agora_core::provider::secret::{SecretError, SecretStanding, SecretStore};
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
    /// Hands out a part of the ChatGPT login that lasts as long as a dispatch. From where it is renewed, and not from the store: of
    /// several that ask at once one renews, and the others must not get what was there before.
    async fn chatgpt(&self, part: &str) -> Supplied {
        let again = "`agora auth codex` logs in again";
        match self.codex.fresh(self.environment.clone(), self.clock.now()).await {
            Ok(Some(tokens)) => {
                let values = chatgpt_values(&tokens);
                let value = values.into_iter().find(|(name, _)| name.as_str() == part);
                let missing = || Supplied::Missing(format!("codex's login has none; {again}"));
                value.map_or_else(missing, |(_, value)| Supplied::Value(value))
            }
            Ok(None) => Supplied::Missing(format!("codex's login is gone; {again}")),
            Err(error) => Supplied::Unreachable(format!("{error}; {again}")),
        }
    }
}

/// Returns which part of a ChatGPT login a secret is.
fn chatgpt_part(name: &SecretName) -> Option<&str> {
    let part = name.as_str().strip_prefix(&CODEX.folder())?;
    [CHATGPT_ACCESS, CHATGPT_ID, CHATGPT_ACCOUNT].contains(&part).then_some(part)
}

#[async_trait]
impl Vault for LocalVault {
    async fn supply(&self, reference: &SecretRef) -> Supplied {
        if let SecretRef::Local(name) = reference
            && let Some(part) = chatgpt_part(name)
        {
            return self.chatgpt(part).await;
        }
        match reference {
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

    async fn standing(&self, reference: &SecretRef) -> Result<Option<SecretStanding>, SecretError> {
        match reference {
            // It is renewed whenever it is handed out.
            SecretRef::Local(name) if chatgpt_part(name).is_some() => Ok(None),
            SecretRef::Local(name) => self.secrets.standing(name).await.map(Some),
            SecretRef::Command(_) | SecretRef::AwsSecretsManager(_) => Ok(None),
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
