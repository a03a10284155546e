//! Secrets in files, encrypted with age to a key of this machine.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use age::x25519::Identity;
use agora_core::Timestamp;
use agora_core::limits::SECRET_BYTES;
use agora_core::provider::secret::{SecretChange, SecretError, SecretStanding, SecretStore};
use agora_core::secret::{SecretName, SecretValue, ShortSecrets};
use agora_core::time::Clock;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use super::key;
use crate::blocking::blocking;
use crate::home::{Home, list_dir, read_capped};

/// The value as JSON, six bytes a character at worst, with what surrounds it and the encryption's header.
const SEALED_BYTES: u64 = SECRET_BYTES as u64 * 6 + 4096;

const SUFFIX: &str = ".age";
const FOLDER: char = '+';

/// Keeps secrets under `$AGORA_HOME/secrets`.
#[derive(Clone, Debug)]
pub struct LocalSecrets {
    home: Home,
    clock: Arc<dyn Clock>,
}

/// What is encrypted. The name is inside, so that one secret's file cannot stand in for another's.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sealed {
    version: u32,
    name: SecretName,
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

    /// `auth/claude` is `secrets/+auth/claude.age`: no part of a name holds a `+`, so that no name is in another's way.
    fn path(&self, name: &SecretName) -> PathBuf {
        let mut path = self.dir();
        let (folders, last) = name.as_str().rsplit_once('/').unwrap_or(("", name.as_str()));
        path.extend(folders.split('/').filter(|part| !part.is_empty()).map(|part| format!("{FOLDER}{part}")));
        path.join(format!("{last}{SUFFIX}"))
    }

    fn open(&self, name: &SecretName, key: &Identity) -> Result<Option<Sealed>, SecretError> {
        let path = self.path(name);
        let bytes = read_capped(&path, SEALED_BYTES)
            .map_err(|error| SecretError::Unavailable(self.home.unavailable("read", &path, error)))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let sealed = || SecretError::Sealed(name.clone());
        let plain = Zeroizing::new(age::decrypt(key, &bytes).map_err(|_| sealed())?);
        let opened: Sealed = serde_json::from_slice(&plain).map_err(|_| sealed())?;
        if opened.version == 1 && opened.name == *name { Ok(Some(opened)) } else { Err(sealed()) }
    }

    fn read(&self, name: &SecretName) -> Result<SecretValue, SecretError> {
        let missing = || SecretError::NotFound(name.clone());
        let key = key::read(&self.home)?.ok_or_else(missing)?;
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
        let key = key::read(&self.home)?.ok_or_else(missing)?;
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
        let key = key::read_or_make(&self.home)?;
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
        let (name_inside, value) = (name.clone(), value.expose().to_owned());
        let sealed = Sealed { version: 1, name: name_inside, value, expires_at, valued_at };
        let cannot = || SecretError::Sealed(name.clone());
        let plain = Zeroizing::new(serde_json::to_vec(&sealed).map_err(|_| cannot())?);
        let bytes = age::encrypt(&key.to_public(), &plain).map_err(|_| cannot())?;
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
