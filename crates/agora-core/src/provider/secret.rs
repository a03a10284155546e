//! Where secret values are kept.

use std::fmt;

use async_trait::async_trait;

use super::Unavailable;
use crate::secret::{SecretName, SecretValue};
use crate::time::Timestamp;

/// What storing a secret changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretChange {
    New,
    /// Another value than before.
    Rotated,
    /// The same value; its time to live may be another.
    Unchanged,
}

/// How a secret stands in the store. Holds nothing of its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecretStanding {
    /// When it got the value that it has. `None`: nobody noted that.
    pub valued_at: Option<Timestamp>,
    /// When its time is, or was, over.
    pub expires_at: Option<Timestamp>,
}

/// Says why a secret could not be stored or had. Never holds a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("no secret is stored as `local:{0}`")]
    NotFound(SecretName),
    #[error("the secret `local:{name}` expired at {at}")]
    Expired { name: SecretName, at: Timestamp },
    #[error("the secret `local:{0}` cannot be opened: it is damaged, or belongs to another key")]
    Sealed(SecretName),
    /// Others could read the key.
    #[error("the key file `{file}` may be read by others (mode {mode:o})")]
    KeyExposed { file: String, mode: u32 },
    #[error("the key file `{file}` holds no key")]
    KeyDamaged { file: String },
    #[error(transparent)]
    Unavailable(Unavailable),
}

/// Keeps secret values.
///
/// Every implementation keeps true: nothing at rest shows a value; a secret is never handed out after its time,
/// whether or not anybody swept; `put` is atomic and durable; no error and no log holds a value.
#[async_trait]
pub trait SecretStore: fmt::Debug + Send + Sync {
    /// Stores a value, in place of an earlier one.
    async fn put(
        &self,
        name: &SecretName,
        value: &SecretValue,
        expires_at: Option<Timestamp>,
    ) -> Result<SecretChange, SecretError>;

    async fn get(&self, name: &SecretName) -> Result<SecretValue, SecretError>;

    /// Tells how a secret stands, also one that has expired. [`SecretError::NotFound`] where none is stored.
    async fn standing(&self, name: &SecretName) -> Result<SecretStanding, SecretError>;

    /// Takes a value away for good. Taking away what is not there is no error.
    async fn remove(&self, name: &SecretName) -> Result<(), SecretError>;

    /// Returns the names of what is stored, also of what has expired, in order.
    async fn names(&self) -> Result<Vec<SecretName>, SecretError>;
}
