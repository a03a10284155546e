//! Subagents that come with agora: `claude` and `codex`, as they are.
//!
//! They are content-addressed like any other, and a dispatch records which it was by its hash. They are in no registry: a name
//! that somebody registers is theirs, and goes before a built-in one.

use std::collections::BTreeSet;

use agora_core::bundle::{Bundle, BundleKind, Encoded, RawSubagent, Subagent};
use agora_core::catalogue::ResolveError;
use agora_core::login::{CLAUDE, CODEX, Vendor};
use agora_core::provider::registry::Version;
use agora_core::reference::{BundleRef, Pin};
use agora_core::time::Timestamp;
use agora_core::{ContentHash, Name};

use crate::agora::{Agora, Found};
use crate::error::Error;
use crate::prepare;

/// When these definitions were written. Not when a program was built or asked: the same words are the same bundle everywhere.
const WRITTEN_AT: i64 = 1_794_787_200_000;
/// Versions of a registry count from 1.
const SHIPPED: u64 = 0;

/// What both are told. The vendors' programs have their own long words; these are what is different here.
const WORDS: &str = "You work alone on a copy of the workspace, and nobody watches. Do the whole task. Check your work as the project \
    does: build it and run its tests where there are some. What you leave changed is the result: leave nothing behind that the \
    task does not want. End with a few lines that say what you changed, how you checked it, and what is left to do.";

/// A subagent that comes with agora.
#[derive(Debug)]
pub(crate) struct Builtin {
    pub(crate) name: Name,
    pub(crate) body: Subagent,
    pub(crate) manifest: Encoded,
}

impl Builtin {
    fn of(vendor: &Vendor) -> Result<Self, Error> {
        let name: Name = vendor.name.parse().map_err(|error: agora_core::name::NameParseError| {
            Error::Request { field: "subagent", why: error.to_string() }
        })?;
        let raw = RawSubagent {
            description: Some(format!(
                "{} on a task, with no words of its own but how to work alone",
                program(vendor)
            )),
            system_prompt: Some(WORDS.to_owned()),
            runtime: Some(vendor.runtime.to_owned()),
            ..RawSubagent::default()
        };
        let body = prepare::subagent(&name, raw, &[])?;
        let manifest = prepare::encode(Bundle::Subagent(Box::new(body.clone())))?;
        Ok(Self { name, body, manifest })
    }

    fn version(&self) -> Version {
        let registered_at = Timestamp::from_millis(WRITTEN_AT);
        Version { seq: SHIPPED, content_hash: self.manifest.hash, registered_at }
    }
}

fn program(vendor: &Vendor) -> &'static str {
    if *vendor == CODEX { "Codex" } else { "Claude Code" }
}

/// Finds what a reference means that no registry knows.
pub(crate) fn find(reference: &BundleRef) -> Result<Option<Found<Subagent>>, Error> {
    let Some(vendor) = [&CLAUDE, &CODEX].into_iter().find(|vendor| vendor.name == reference.name.as_str())
    else {
        return Ok(None);
    };
    let builtin = Builtin::of(vendor)?;
    let is_meant = match &reference.pin {
        Pin::Latest => true,
        Pin::Hash(prefix) => builtin.manifest.hash.has_prefix(prefix),
        Pin::At(_) => false,
    };
    let version = builtin.version();
    Ok(is_meant.then_some(Found { name: builtin.name, version, body: builtin.body }))
}

impl Found<Subagent> {
    /// Tells whether it comes with agora, and nobody registered it.
    pub fn is_built_in(&self) -> bool {
        self.version.seq == SHIPPED
    }
}

impl Agora {
    /// Finds a subagent: one that was registered, else one that comes with agora.
    pub async fn subagent(&self, reference: &BundleRef) -> Result<Found<Subagent>, Error> {
        let found = self.get::<Subagent>(reference).await;
        match found {
            Err(Error::Resolve(ResolveError::UnknownName { .. } | ResolveError::UnknownHash { .. })) => {
                find(reference)?.map_or(found, Ok)
            }
            found => found,
        }
    }

    /// Returns every subagent that can be dispatched, ordered by name: those that were registered, and those that come with agora
    /// where nobody took their name. One whose bundle cannot be read is left out: it cannot be dispatched either.
    pub async fn subagents(&self) -> Result<Vec<Found<Subagent>>, Error> {
        let registered = self.list(BundleKind::Subagent).await?;
        let names = registered.into_iter().map(|(name, _)| name);
        let shipped = Vendor::ALL.into_iter().filter_map(|vendor| vendor.name.parse().ok());
        let all: BTreeSet<Name> = names.chain(shipped).collect();
        let mut found = Vec::new();
        for name in all {
            found.extend(self.subagent(&name.into()).await.ok());
        }
        Ok(found)
    }

    /// Stores a built-in subagent as everything that runs is stored, so that its hash leads to it.
    pub(crate) async fn keep_builtin(&self, hash: ContentHash) -> Result<(), Error> {
        for vendor in Vendor::ALL {
            let builtin = Builtin::of(vendor)?;
            if builtin.manifest.hash == hash {
                return self.store_manifest(&builtin.manifest).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendor_has_one_under_its_name_and_by_its_hash() {
        for vendor in Vendor::ALL {
            let found = find(&vendor.name.parse().unwrap()).unwrap().unwrap();
            assert_eq!(found.body.runtime.as_str(), vendor.runtime);
            assert!(found.is_built_in());
            let hash = found.version.content_hash;
            let pinned = format!("{}@{hash}", vendor.name).parse().unwrap();
            assert_eq!(find(&pinned).unwrap().unwrap().version, found.version);
            let other = format!("{}@sha256:{}", vendor.name, "0".repeat(64)).parse().unwrap();
            assert!(find(&other).unwrap().is_none());
        }
        assert!(find(&"planner".parse().unwrap()).unwrap().is_none());
        assert!(find(&"claude@2026-11-15T19:00:00Z".parse().unwrap()).unwrap().is_none());
    }

    /// A hash that a ledger holds means something for ever: other words are another bundle, and that is seen here.
    #[test]
    fn the_words_are_what_they_were() {
        let hashes = Vendor::ALL.map(|vendor| Builtin::of(vendor).unwrap().manifest.hash.to_string());
        let expected = [
            "sha256:15f7fddc345ac923d5fdb9634d593e62a97c1bba7922921544ad295f8149c262",
            "sha256:cf7aea1232e5c8494360a562474031120320a6bc518fb0f8882308492a545566",
        ];
        assert_eq!(hashes, expected);
    }
}
