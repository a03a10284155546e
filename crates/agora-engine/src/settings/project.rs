//! A project's own `agora.toml`: found upward, and believed as far as its reader said.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agora_core::ContentHash;
use agora_core::limits::DEFINITION_BYTES;
use agora_providers::trust::TrustStore;

use super::{Settings, SettingsError, file, sift};
use crate::error::Error;

/// What the file is called, wherever it is.
const NAME: &str = "agora.toml";

/// A project's file, as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) file: PathBuf,
    pub(crate) hash: ContentHash,
    text: String,
}

/// What a project's file says and does not count, because nobody trusts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    pub file: PathBuf,
    pub keys: Vec<String>,
    /// Whether it was trusted, and has been changed since.
    pub was_changed: bool,
}

/// A project's file of which nothing counts: nobody trusts it, and it cannot be read or belongs to somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    pub file: PathBuf,
    pub why: String,
    /// Whether it is another user's: what they wrote is nothing to this one.
    pub is_foreign: bool,
}

impl Unused {
    pub(crate) fn new(file: PathBuf, source: &SettingsError) -> Self {
        Self { file, why: source.to_string(), is_foreign: matches!(source, SettingsError::Foreign(_)) }
    }
}

impl Project {
    /// Looks for a file from a directory upward. The user's own is not a project's, and another user's is nobody's.
    pub(crate) fn find(from: &Path, users: Option<&Path>) -> Result<Option<Self>, Error> {
        let file = from.ancestors().map(|dir| dir.join(NAME)).find(|file| file.is_file());
        match file {
            Some(file) if !users.is_some_and(|users| same(users, &file)) => match owner(&file) {
                Some(owner) => Err(Error::Settings { file, source: SettingsError::Foreign(owner) }),
                None => Self::read(file).map(Some),
            },
            Some(_) | None => Ok(None),
        }
    }

    fn read(file: PathBuf) -> Result<Self, Error> {
        let mut text = String::new();
        let read =
            File::open(&file).and_then(|opened| opened.take(DEFINITION_BYTES + 1).read_to_string(&mut text));
        let too_long = || io::Error::other(format!("it has more than {DEFINITION_BYTES} bytes"));
        match read {
            Ok(count) if count as u64 <= DEFINITION_BYTES => {
                Ok(Self { hash: ContentHash::of(text.as_bytes()), file, text })
            }
            Ok(_) => Err(Error::Settings { file, source: SettingsError::Unreadable(too_long()) }),
            Err(error) => Err(Error::Settings { file, source: SettingsError::Unreadable(error) }),
        }
    }

    /// Lays what counts over the settings, with a note of what does not. One that nobody trusts stands in nobody's way.
    pub(super) fn lay(self, trust: &TrustStore, settings: &mut Settings) -> Result<(), Error> {
        let trusted = trust.get(&self.file).map_err(Error::Home)?;
        let dir = file::folder(&self.file);
        if trusted == Some(self.hash) {
            let laid = file::lay_text(&self.text, dir, settings);
            return laid.map_err(|source| Error::Settings { file: self.file.clone(), source });
        }
        let mut with = settings.clone();
        let sifted = self.sift(settings);
        match sifted.and_then(|(kept, keys)| file::lay_table(kept, dir, &mut with).map(|()| keys)) {
            Ok(keys) => {
                let was_changed = trusted.is_some();
                with.ignored = (!keys.is_empty()).then_some(Ignored { file: self.file, keys, was_changed });
                *settings = with;
            }
            Err(source) => settings.unused = Some(Unused::new(self.file, &source)),
        }
        Ok(())
    }

    /// Names the keys that count only with trust.
    pub(crate) fn keys_that_want_trust(&self, settings: &Settings) -> Result<Vec<String>, Error> {
        let sifted = self.sift(settings).map(|(_, keys)| keys);
        sifted.map_err(|source| Error::Settings { file: self.file.clone(), source })
    }

    /// Checks the whole of it, as it counts with trust.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), Error> {
        let laid = file::lay_text(&self.text, file::folder(&self.file), &mut settings.clone());
        laid.map_err(|source| Error::Settings { file: self.file.clone(), source })
    }

    fn sift(&self, settings: &Settings) -> Result<(toml::Table, Vec<String>), SettingsError> {
        let table = self.text.parse::<toml::Table>();
        let table = table.map_err(|error| SettingsError::Wrong(file::in_a_line(&self.text, &error)))?;
        Ok(sift::sift(table, settings))
    }
}

/// Returns whose a file is, when it is neither this user's nor root's.
fn owner(file: &Path) -> Option<u32> {
    let owner = std::fs::metadata(file).ok()?.uid();
    (owner != 0 && owner != rustix::process::geteuid().as_raw()).then_some(owner)
}

fn same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
