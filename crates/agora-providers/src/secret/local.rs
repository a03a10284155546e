//! Secrets in files, sealed with a key of this machine.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use agora_core::Timestamp;
use agora_core::limits::SECRET_BYTES;
use agora_core::provider::secret::{SecretChange, SecretError, SecretStanding, SecretStore};
use agora_core::secret::{SecretName, SecretValue, ShortSecrets};
use agora_core::time::Clock;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use super::seal;
use crate::blocking::blocking;
use crate::home::{Home, list_dir, read_capped};
use crate::keys::{self, Key, KeyError};

/// The value as JSON, six bytes a character at worst, with the times beside it and what sealing adds.
const SEALED_BYTES: u64 = (SECRET_BYTES * 6 + 256 + seal::OVERHEAD) as u64;

const KEY: &str = "secrets.key";
const SUFFIX: &str = ".sealed";
const FOLDER: char = '+';

/// Keeps secrets under `$AGORA_HOME/secrets`.
#[derive(Clone, Debug)]
pub struct LocalSecrets {
    home: Home,
    clock: Arc<dyn Clock>,
}

/// What is sealed, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sealed {
    value: String,
    expires_at: Option<Timestamp>,
    /// When it got this value. Not known of what was stored before this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valued_at: Option<Timestamp>,
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.value.zeroize();
    }
}

impl LocalSecrets {
    pub fn new(home: Home, clock: Arc<dyn Clock>) -> Self {
        Self { home, clock }
    }

    fn dir(&self) -> PathBuf {
        self.home.root().join("secrets")
    }

    /// `auth/claude` is `secrets/+auth/claude.sealed`: no part of a name holds a `+`, so that no name is in another's way.
    fn path(&self, name: &SecretName) -> PathBuf {
        let mut path = self.dir();
        let (folders, last) = name.as_str().rsplit_once('/').unwrap_or(("", name.as_str()));
        path.extend(folders.split('/').filter(|part| !part.is_empty()).map(|part| format!("{FOLDER}{part}")));
        path.join(format!("{last}{SUFFIX}"))
    }

    fn open(&self, name: &SecretName, key: &Key) -> Result<Option<Sealed>, SecretError> {
        let path = self.path(name);
        let bytes = read_capped(&path, SEALED_BYTES)
            .map_err(|error| SecretError::Unavailable(self.home.unavailable("read", &path, error)))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let opened = seal::open(key, name, &bytes).and_then(|plain| serde_json::from_slice(&plain).ok());
        opened.map(Some).ok_or_else(|| SecretError::Sealed(name.clone()))
    }

    fn read(&self, name: &SecretName) -> Result<SecretValue, SecretError> {
        let missing = || SecretError::NotFound(name.clone());
        let key = keys::read(&self.home, KEY).map_err(no_key)?.ok_or_else(missing)?;
        let mut opened = self.open(name, &key)?.ok_or_else(missing)?;
        if let Some(at) = opened.expires_at.filter(|at| *at <= self.clock.now()) {
            return Err(SecretError::Expired { name: name.clone(), at });
        }
        // It was long enough, or forced, when it was stored.
        let value = std::mem::take(&mut opened.value);
        SecretValue::new(value, ShortSecrets::Allow).map_err(|_| SecretError::Sealed(name.clone()))
    }

    fn look(&self, name: &SecretName) -> Result<SecretStanding, SecretError> {
        let missing = || SecretError::NotFound(name.clone());
        let key = keys::read(&self.home, KEY).map_err(no_key)?.ok_or_else(missing)?;
        let opened = self.open(name, &key)?.ok_or_else(missing)?;
        Ok(SecretStanding { valued_at: opened.valued_at, expires_at: opened.expires_at })
    }

    fn write(
        &self,
        name: &SecretName,
        value: &SecretValue,
        expires_at: Option<Timestamp>,
    ) -> Result<SecretChange, SecretError> {
        let path = self.path(name);
        self.home.prepare().map_err(SecretError::Unavailable)?;
        self.home.make_dirs(path.parent().unwrap_or(&path)).map_err(SecretError::Unavailable)?;
        let _lock = self.lock()?;
        let key = keys::read_or_make(&self.home, KEY).map_err(no_key)?;
        // What cannot be opened any more is replaced: that is how a person mends it.
        let now = Some(self.clock.now());
        let (change, valued_at) = match self.open(name, &key) {
            Ok(None) => (SecretChange::New, now),
            Ok(Some(before)) if before.value == value.expose() => {
                (SecretChange::Unchanged, before.valued_at.or(now))
            }
            Ok(Some(_)) | Err(SecretError::Sealed(_)) => (SecretChange::Rotated, now),
            Err(error) => return Err(error),
        };
        let sealed = Sealed { value: value.expose().to_owned(), expires_at, valued_at };
        let cannot = |error| SecretError::Unavailable(self.home.unavailable("write", &path, error));
        let plain = Zeroizing::new(serde_json::to_vec(&sealed).map_err(|error| cannot(error.into()))?);
        let bytes = seal::seal(&key, name, &plain).map_err(cannot)?;
        self.home.replace(&path, &bytes).map_err(SecretError::Unavailable)?;
        Ok(change)
    }

    /// Waits for the store's lock, which ends with the process.
    fn lock(&self) -> Result<File, SecretError> {
        let path = self.dir().join("lock");
        let open = || {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            file.lock().map(|()| file)
        };
        open().map_err(|error| SecretError::Unavailable(self.home.unavailable("write", &path, error)))
    }

    fn take_away(&self, name: &SecretName) -> Result<(), SecretError> {
        let path = self.path(name);
        self.home.remove(&path).map_err(SecretError::Unavailable)
    }

    fn list(&self) -> Result<Vec<SecretName>, SecretError> {
        let mut names = Vec::new();
        let mut open = vec![(self.dir(), String::new())];
        while let Some((dir, prefix)) = open.pop() {
            let unreadable = |error| SecretError::Unavailable(self.home.unavailable("read", &dir, error));
            for file in list_dir(&dir).map_err(unreadable)?.iter().filter_map(|file| file.to_str()) {
                if let Some(folder) = file.strip_prefix(FOLDER) {
                    open.push((dir.join(file), format!("{prefix}{folder}/")));
                } else if let Some(last) = file.strip_suffix(SUFFIX) {
                    names.extend(format!("{prefix}{last}").parse::<SecretName>().ok());
                }
            }
        }
        names.sort();
        Ok(names)
    }
}

fn no_key(error: KeyError) -> SecretError {
    match error {
        KeyError::Exposed { path, mode } => SecretError::KeyExposed { file: Home::shown(&path), mode },
        KeyError::Damaged { path } => SecretError::KeyDamaged { file: Home::shown(&path) },
        KeyError::Unavailable(unavailable) => SecretError::Unavailable(unavailable),
    }
}

#[async_trait]
impl SecretStore for LocalSecrets {
    async fn put(
        &self,
        name: &SecretName,
        value: &SecretValue,
        expires_at: Option<Timestamp>,
    ) -> Result<SecretChange, SecretError> {
        let (this, name, value) = (self.clone(), name.clone(), value.clone());
        blocking(move || this.write(&name, &value, expires_at)).await
    }

    async fn get(&self, name: &SecretName) -> Result<SecretValue, SecretError> {
        let (this, name) = (self.clone(), name.clone());
        blocking(move || this.read(&name)).await
    }

    async fn standing(&self, name: &SecretName) -> Result<SecretStanding, SecretError> {
        let (this, name) = (self.clone(), name.clone());
        blocking(move || this.look(&name)).await
    }

    async fn remove(&self, name: &SecretName) -> Result<(), SecretError> {
        let (this, name) = (self.clone(), name.clone());
        blocking(move || this.take_away(&name)).await
    }

    async fn names(&self) -> Result<Vec<SecretName>, SecretError> {
        let this = self.clone();
        blocking(move || this.list()).await
    }
}
