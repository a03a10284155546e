//! Bundles: the immutable, content-addressed artifacts that define what a worker is, can do and has access to.

mod capability;
mod env;
mod subagent;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use capability::{Capability, FileEntry, FileMode, TreeError};
pub use env::{EnvBundle, EnvError, SWITCHES, VariableName, VariableNameError};
pub use subagent::{Ask, Budget, Model, OnLimit, RawSubagent, Runtime, Subagent, SubagentError, Verify};

use crate::canonical::{self, CanonicalError};
use crate::hash::ContentHash;

/// The version of the manifest's form. A reader refuses what it does not know rather than guess.
const SCHEMA: u32 = 1;

/// The three kinds of bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BundleKind {
    Capability,
    Subagent,
    Env,
}

impl BundleKind {
    pub const ALL: [Self; 3] = [Self::Capability, Self::Subagent, Self::Env];

    /// Returns the word for the kind, as it is typed and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Capability => "capability",
            Self::Subagent => "subagent",
            Self::Env => "env",
        }
    }
}

impl fmt::Display for BundleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Bundle {
    Capability(Capability),
    Subagent(Box<Subagent>),
    Env(EnvBundle),
}

impl Bundle {
    pub fn kind(&self) -> BundleKind {
        match self {
            Self::Capability(_) => BundleKind::Capability,
            Self::Subagent(_) => BundleKind::Subagent,
            Self::Env(_) => BundleKind::Env,
        }
    }
}

/// What one kind of bundle holds: whoever asks for a kind gets its type, and no other can come.
pub trait BundleBody: Sized {
    const KIND: BundleKind;

    /// Takes the body out of a bundle of this kind.
    fn from_bundle(bundle: Bundle) -> Option<Self>;
}

macro_rules! body {
    ($type:ty, $kind:ident, $bundle:ident => $body:expr) => {
        impl BundleBody for $type {
            const KIND: BundleKind = BundleKind::$kind;

            fn from_bundle(bundle: Bundle) -> Option<Self> {
                if let Bundle::$kind($bundle) = bundle { Some($body) } else { None }
            }
        }
    };
}

body!(Capability, Capability, capability => capability);
body!(Subagent, Subagent, subagent => *subagent);
body!(EnvBundle, Env, env => env);

/// A bundle in the form whose hash is its identity. Its name is not in it: a name belongs to the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    schema: u32,
    bundle: Bundle,
}

/// Says why bytes are not a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest has the schema {0}; this agora reads {SCHEMA}")]
    Schema(u32),
    #[error("the manifest is malformed")]
    Malformed(#[source] serde_json::Error),
}

/// A manifest as it is stored, with the hash that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub hash: ContentHash,
    pub bytes: Vec<u8>,
}

impl Manifest {
    pub fn new(bundle: Bundle) -> Self {
        Self { schema: SCHEMA, bundle }
    }

    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    pub fn into_bundle(self) -> Bundle {
        self.bundle
    }

    /// Writes the canonical bytes and their hash: the bundle's identity.
    pub fn encode(&self) -> Result<Encoded, CanonicalError> {
        let bytes = canonical::to_bytes(self)?;
        Ok(Encoded { hash: ContentHash::of(&bytes), bytes })
    }

    /// Reads a manifest, with every check that registering makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        // The schema is looked at alone first, so that a newer manifest is not called malformed.
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_slice(bytes).map_err(ManifestError::Malformed)?;
        if head.schema != SCHEMA {
            return Err(ManifestError::Schema(head.schema));
        }
        serde_json::from_slice(bytes).map_err(ManifestError::Malformed)
    }
}
