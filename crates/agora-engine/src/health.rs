//! Whether what is kept is still what was stored.

use agora_core::bundle::{Bundle, BundleKind};
use agora_core::provider::ledger::LedgerError;
use agora_core::provider::registry::Version;
use agora_core::secret::SecretName;

use crate::agora::Agora;
use crate::carry::CarryError;
use crate::error::Error;

/// How many ended threads are read: whoever asks a doctor waits for the answer.
const NEWEST: usize = 10_000;

/// What a look at everything of one sort found.
#[derive(Debug, Default)]
pub struct Health {
    /// How many were looked at.
    pub looked_at: usize,
    /// What is wrong, and with what.
    pub problems: Vec<(String, Error)>,
}

impl Agora {
    /// Reads the latest version of every name, manifest and files, and checks every hash.
    pub async fn check_bundles(&self) -> Health {
        let mut health = Health::default();
        for kind in BundleKind::ALL {
            match self.list(kind).await {
                Err(error) => health.problems.push((format!("the list of {kind} names"), error)),
                Ok(names) => {
                    for (name, version) in names {
                        health.looked_at += 1;
                        let checked = self.check_bundle(&version).await;
                        health
                            .problems
                            .extend(checked.err().map(|error| (format!("the {kind} `{name}`"), error)));
                    }
                }
            }
        }
        health
    }

    async fn check_bundle(&self, version: &Version) -> Result<(), Error> {
        let (blobs, hash) = (self.catalogue().blobs(), version.content_hash);
        match blobs.read(hash).await.map_err(Error::Read)? {
            Bundle::Capability(capability) => {
                blobs.read_pack(hash, &capability).await.map(drop).map_err(Error::Read)
            }
            Bundle::Subagent(_) | Bundle::Env(_) => Ok(()),
        }
    }

    /// Reads what is recorded of every open thread, and of the newest others, and checks that it is what was recorded.
    pub async fn check_ledger(&self) -> Health {
        let mut health = Health::default();
        let failed = |error| Error::Carry(CarryError::Ledger(error));
        let checked = match self.engine() {
            Ok(engine) => engine.world().ledger.check(NEWEST).await.map_err(failed),
            Err(error) => Err(error),
        };
        match checked {
            Err(error) => health.problems.push(("the ledger".to_owned(), error)),
            Ok(checked) => {
                health.looked_at = checked.threads;
                health.problems = checked
                    .damaged
                    .into_iter()
                    .map(|(thread_id, what)| {
                        let named = format!("the thread `{thread_id}`");
                        (named, failed(LedgerError::ThreadDamaged { thread_id, what }))
                    })
                    .collect();
            }
        }
        health
    }

    /// Opens every secret of the local store. One that has expired is a problem too: whoever needs it will meet it.
    pub async fn check_secrets(&self) -> Health {
        let mut health = Health::default();
        let names: Vec<SecretName> = match self.secret_names().await {
            Ok(names) => names,
            Err(error) => {
                health.problems.push(("the secret store".to_owned(), error));
                return health;
            }
        };
        for name in names {
            health.looked_at += 1;
            let opened = self.secrets().get(&name).await.map(drop).map_err(Error::Secret);
            health.problems.extend(opened.err().map(|error| (format!("`local:{name}`"), error)));
        }
        health
    }
}
