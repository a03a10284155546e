//! What of a source an agent gets to see: all of it but what could be a secret.
//!
//! What git tracks is seen whatever it is called: whoever has the repository has it. Directories that tools fill from elsewhere
//! are not looked into for secrets, because what they hold is public, and breaks when a file is missing: but what can only be
//! somebody's own stays out there, too. What is never visible to an agent does not come here at all: `walk` passes it over.

use std::collections::BTreeSet;

use agora_core::credential;
use agora_core::git::pattern::{Pattern, Steps};
use agora_core::git::{rules, says};

use super::index::{Entry, Kind};

/// A larger file is no key: it is not read for one.
pub(super) const SMALL: u64 = 64 * 1024;
/// What matching all paths with `.worktreeinclude` may cost.
const STEPS: u64 = 4_000_000_000;
/// Directories that a package manager, a compiler or an interpreter fills.
const FILLED: [&[u8]; 14] = [
    b"node_modules",
    b"target",
    b".venv",
    b"venv",
    b"vendor",
    b"__pycache__",
    b".tox",
    b".mypy_cache",
    b".gradle",
    b"dist",
    b"build",
    b".next",
    b".cargo",
    b".yarn",
];
/// Keys of people, which no package has.
const KEYS: [&[u8]; 4] = [b"id_rsa", b"id_dsa", b"id_ecdsa", b"id_ed25519"];
const NAMES: [&[u8]; 8] = [
    b".netrc",
    b".npmrc",
    b".pypirc",
    b".git-credentials",
    b".htpasswd",
    b"credentials.json",
    b"service-account.json",
    b".dockercfg",
];
const ENDS: [&[u8]; 9] =
    [b".pem", b".key", b".p12", b".pfx", b".jks", b".keystore", b".kdbx", b".ppk", b".ovpn"];

/// Decides what is taken.
#[derive(Debug)]
pub(super) struct Picker {
    tracked: BTreeSet<Box<[u8]>>,
    /// What the person says to take all the same.
    included: Vec<Pattern>,
    steps: Steps,
}

impl Picker {
    /// Knows what git tracks, and what `.worktreeinclude` says.
    pub(super) fn new(tracked: impl IntoIterator<Item = Box<[u8]>>, included: &[u8]) -> Self {
        Self { tracked: tracked.into_iter().collect(), included: rules(included), steps: Steps::new(STEPS) }
    }

    /// Tells whether a path is taken whatever is in it.
    fn is_meant(&self, path: &[u8]) -> bool {
        let says_so = || {
            let above = (0..path.len()).filter(|&at| path[at] == b'/').map(|at| (&path[..at], true));
            let all = above.chain([(path, false)]);
            all.filter_map(|(part, is_dir)| says(&self.included, part, is_dir, &self.steps)).last()
        };
        self.tracked.contains(path) || (!self.included.is_empty() && says_so() == Some(true))
    }

    /// Tells whether something is taken, as far as its name tells.
    pub(super) fn takes(&self, entry: &Entry) -> bool {
        let is_secret =
            is_somebodys_own(&entry.path) || (!is_filled(&entry.path) && is_secret_name(&entry.path));
        entry.kind == Kind::Directory || !is_secret || self.is_meant(&entry.path)
    }

    /// Tells whether a file must be looked into before it is taken.
    pub(super) fn doubts(&self, entry: &Entry) -> bool {
        entry.kind == Kind::File
            && entry.size <= SMALL
            && !is_filled(&entry.path)
            && !self.is_meant(&entry.path)
    }

    /// Tells whether the content of a file may be seen.
    pub(super) fn clears(content: &[u8]) -> bool {
        credential::find(content, &[]).is_none()
    }
}

fn is_filled(path: &[u8]) -> bool {
    let mut parts = path.split(|&byte| byte == b'/').rev();
    parts.next();
    parts.any(|part| FILLED.contains(&part))
}

/// Tells whether a name means a secret wherever it is.
fn is_somebodys_own(path: &[u8]) -> bool {
    let name = name(path);
    let in_cargos = path.strip_suffix(&*name).is_some_and(|above| above.ends_with(b".cargo/"));
    name.starts_with(b".env") || KEYS.contains(&&*name) || (in_cargos && name.starts_with(b"credentials"))
}

/// Tells whether a name means a secret where nothing was installed.
fn is_secret_name(path: &[u8]) -> bool {
    let name = name(path);
    NAMES.contains(&&*name) || ENDS.iter().any(|end| name.ends_with(end))
}

fn name(path: &[u8]) -> Vec<u8> {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(picker: &Picker, path: &str) -> bool {
        let path = path.as_bytes().into();
        let kind = Kind::File;
        picker.takes(&Entry { path, kind, mode: 0, size: 0, mtime_ns: 0, ctime_ns: 0, inode: 0, kept: true })
    }

    #[test]
    fn what_could_be_a_secret_stays_unless_somebody_means_it() {
        let picker =
            Picker::new([Box::from(&b"tests/cert.pem"[..])], b"/.env.local\nconfig/\n!config/id_rsa\n");
        for path in [
            ".env",
            "a/.env.production",
            ".envrc",
            "id_rsa",
            "deep/x.PEM",
            ".npmrc",
            "config/id_rsa",
            // Also where tools put what they install.
            "build/.env",
            ".next/standalone/.env",
            "vendor/id_rsa",
            ".cargo/credentials.toml",
        ] {
            assert!(!takes(&picker, path), "{path}");
        }
        for path in [
            "tests/cert.pem",
            ".env.local",
            "config/.env",
            "id_rsa.pub",
            ".venv/lib/certifi/cacert.pem",
            "environment",
            ".cargo/config.toml",
            "node_modules/x/.npmrc",
            "src/credentials.rs",
        ] {
            assert!(takes(&picker, path), "{path}");
        }
    }
}
