//! What registering and resolving mean, whatever keeps the registry.

use std::sync::Arc;

use crate::blobs::Blobs;
use crate::bundle::{BundleKind, Encoded};
use crate::hash::ContentHash;
use crate::name::{Name, Namespace};
use crate::provider::blob::StoreError;
use crate::provider::registry::{Registry, RegistryError, RegistryKey, Version};
use crate::reference::{BundleRef, Pin};
use crate::time::{Clock, Timestamp};

/// Names and versions, with the rules of registering and resolving.
#[derive(Clone, Debug)]
pub struct Catalogue {
    registry: Arc<dyn Registry>,
    blobs: Blobs,
    clock: Arc<dyn Clock>,
    namespace: Namespace,
}

/// What registering changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The name is new.
    New,
    /// The name has a new version.
    Changed,
    /// The latest version has this content already.
    Unchanged,
}

/// What came of registering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    pub version: Version,
    pub change: Change,
}

/// Says why a bundle was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error("the bundle was not stored")]
    Store(#[source] StoreError),
    #[error("the {key} was not registered")]
    Registry {
        key: RegistryKey,
        #[source]
        source: RegistryError,
    },
}

/// Says why a reference means no version.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("there is no {kind} named `{name}`")]
    UnknownName { kind: BundleKind, name: Name, near: Vec<Name> },
    #[error("no version of the {kind} `{name}` has a hash that begins like that in `{reference}`")]
    UnknownHash { kind: BundleKind, name: Name, reference: BundleRef },
    #[error("`{reference}` means more than one version of the {kind} `{name}`")]
    Ambiguous { kind: BundleKind, name: Name, reference: BundleRef, matches: Vec<ContentHash> },
    #[error("the {kind} `{name}` had no version yet at {at}; its first is of {first}")]
    TooEarly { kind: BundleKind, name: Name, at: Timestamp, first: Timestamp },
    #[error("the registry cannot be read")]
    Registry(#[source] RegistryError),
}

impl Catalogue {
    pub fn new(
        registry: Arc<dyn Registry>,
        blobs: Blobs,
        clock: Arc<dyn Clock>,
        namespace: Namespace,
    ) -> Self {
        Self { registry, blobs, clock, namespace }
    }

    /// Returns the checked door to what the versions hold.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Makes a stored bundle the latest version of a name. The same content as the latest changes nothing; older
    /// content again is a new version, which is how one rolls back.
    pub async fn register(
        &self,
        kind: BundleKind,
        name: &Name,
        hash: ContentHash,
    ) -> Result<Registration, RegisterError> {
        let key = self.key(kind, name);
        let failed = |source| RegisterError::Registry { key: self.key(kind, name), source };
        loop {
            let latest = self.registry.latest(&key).await.map_err(failed)?;
            if let Some(version) = latest.filter(|latest| latest.content_hash == hash) {
                return Ok(Registration { version, change: Change::Unchanged });
            }
            let version = self.next(latest, hash);
            match self.registry.append(&key, version).await {
                Ok(()) => {
                    let change = if latest.is_some() { Change::Changed } else { Change::New };
                    return Ok(Registration { version, change });
                }
                // Whoever was first made progress, so this ends.
                Err(RegistryError::Moved) => {}
                Err(source) => return Err(failed(source)),
            }
        }
    }

    /// Stores a manifest, then registers it.
    pub async fn store_and_register(
        &self,
        kind: BundleKind,
        name: &Name,
        manifest: &Encoded,
    ) -> Result<Registration, RegisterError> {
        self.blobs.write_manifest(manifest).await.map_err(RegisterError::Store)?;
        self.register(kind, name, manifest.hash).await
    }

    /// Tells what registering content would change, without doing it.
    pub async fn foresee(
        &self,
        kind: BundleKind,
        name: &Name,
        hash: ContentHash,
    ) -> Result<Change, RegistryError> {
        let latest = self.registry.latest(&self.key(kind, name)).await?;
        Ok(match latest {
            None => Change::New,
            Some(latest) if latest.content_hash == hash => Change::Unchanged,
            Some(_) => Change::Changed,
        })
    }

    /// Finds the version that a reference means.
    pub async fn resolve(&self, kind: BundleKind, reference: &BundleRef) -> Result<Version, ResolveError> {
        let key = self.key(kind, &reference.name);
        let found = match &reference.pin {
            Pin::Latest => self.registry.latest(&key).await.map_err(ResolveError::Registry)?,
            Pin::Hash(_) | Pin::At(_) => {
                let versions = self.registry.versions(&key).await.map_err(ResolveError::Registry)?;
                pick(kind, reference, &versions)?
            }
        };
        match found {
            Some(version) => Ok(version),
            None => Err(self.unknown_name(kind, &reference.name).await?),
        }
    }

    /// Returns every version of a name, newest first.
    pub async fn versions(&self, kind: BundleKind, name: &Name) -> Result<Vec<Version>, ResolveError> {
        let mut versions =
            self.registry.versions(&self.key(kind, name)).await.map_err(ResolveError::Registry)?;
        if versions.is_empty() {
            return Err(self.unknown_name(kind, name).await?);
        }
        versions.reverse();
        Ok(versions)
    }

    /// Returns every name of a kind with its latest version.
    pub async fn names(&self, kind: BundleKind) -> Result<Vec<(Name, Version)>, RegistryError> {
        self.registry.names(&self.namespace, kind).await
    }

    fn key(&self, kind: BundleKind, name: &Name) -> RegistryKey {
        RegistryKey { namespace: self.namespace.clone(), kind, name: name.clone() }
    }

    fn next(&self, latest: Option<Version>, content_hash: ContentHash) -> Version {
        let now = self.clock.now();
        match latest {
            None => Version { seq: 1, content_hash, registered_at: now },
            // A clock that was set back must not make `name@time` ambiguous.
            Some(latest) => {
                Version { seq: latest.seq + 1, content_hash, registered_at: now.max(latest.registered_at) }
            }
        }
    }

    async fn unknown_name(&self, kind: BundleKind, name: &Name) -> Result<ResolveError, ResolveError> {
        let names = self.names(kind).await.map_err(ResolveError::Registry)?;
        let near = near(name, names.into_iter().map(|(name, _)| name).collect());
        Ok(ResolveError::UnknownName { kind, name: name.clone(), near })
    }
}

fn pick(
    kind: BundleKind,
    reference: &BundleRef,
    versions: &[Version],
) -> Result<Option<Version>, ResolveError> {
    let Some(first) = versions.first() else { return Ok(None) };
    let name = reference.name.clone();
    match &reference.pin {
        Pin::Latest => Ok(versions.last().copied()),
        Pin::At(at) => match versions.iter().rev().find(|version| version.registered_at <= *at) {
            Some(version) => Ok(Some(*version)),
            None => Err(ResolveError::TooEarly { kind, name, at: *at, first: first.registered_at }),
        },
        Pin::Hash(prefix) => {
            let matching: Vec<&Version> =
                versions.iter().rev().filter(|version| version.content_hash.has_prefix(prefix)).collect();
            let mut hashes: Vec<ContentHash> = matching.iter().map(|version| version.content_hash).collect();
            hashes.sort();
            hashes.dedup();
            match (matching.first(), hashes.len()) {
                (None, _) => Err(ResolveError::UnknownHash { kind, name, reference: reference.clone() }),
                (Some(version), 1) => Ok(Some(**version)),
                (Some(_), _) => {
                    Err(ResolveError::Ambiguous { kind, name, reference: reference.clone(), matches: hashes })
                }
            }
        }
    }
}

/// Returns up to five names that were perhaps meant, the nearest first.
pub fn near(wanted: &Name, names: Vec<Name>) -> Vec<Name> {
    let wanted = wanted.as_str().to_lowercase();
    let mut scored: Vec<(f64, Name)> = names
        .into_iter()
        .map(|name| {
            let candidate = name.as_str().to_lowercase();
            let contained = candidate.contains(&wanted) || wanted.contains(&candidate);
            (strsim::jaro_winkler(&wanted, &candidate) + if contained { 0.2 } else { 0.0 }, name)
        })
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|(a, left), (b, right)| b.total_cmp(a).then_with(|| left.cmp(right)));
    scored.into_iter().take(5).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_that_two_contents_share_is_ambiguous_and_one_that_two_versions_share_is_not() {
        let version = |seq, digits: &str| Version {
            seq,
            content_hash: format!("sha256:{digits:0<64}").parse().unwrap(),
            registered_at: Timestamp::from_millis(0),
        };
        let versions =
            [version(1, "abcdefabcdef1"), version(2, "abcdefabcdef2"), version(3, "abcdefabcdef1")];
        let pick =
            |digits: &str| pick(BundleKind::Env, &format!("e@sha256:{digits}").parse().unwrap(), &versions);
        assert_eq!(pick("abcdefabcdef1").unwrap(), Some(versions[2]), "the newest with that content");
        assert_eq!(pick("abcdefabcdef2").unwrap(), Some(versions[1]));
        match pick("abcdefabcdef").unwrap_err() {
            ResolveError::Ambiguous { matches, .. } => assert_eq!(matches.len(), 2),
            other => panic!("{other:?}"),
        }
        assert!(matches!(pick("abcdefabcdef3"), Err(ResolveError::UnknownHash { .. })));
    }

    #[test]
    fn near_names_are_those_a_person_may_have_meant() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let names = vec![name("planner"), name("plan-reviewer"), name("code-reviewer"), name("zebra")];
        assert_eq!(near(&name("planer"), names.clone()).first(), Some(&name("planner")));
        assert_eq!(near(&name("reviewer"), names.clone()), [name("plan-reviewer"), name("code-reviewer")]);
        assert_eq!(near(&name("xyz"), names), []);
    }
}
