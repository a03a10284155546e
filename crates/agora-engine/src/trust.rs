//! Trust in a project's `agora.toml`: given by a person, to a file as it is, and gone when it changes.

use std::path::{Path, PathBuf};

use agora_core::ContentHash;
use agora_providers::Home;
use agora_providers::trust::{TrustStore, Trusted};

use crate::error::Error;
use crate::settings::{Project, Settings, Unused};
use crate::surroundings::Surroundings;

/// A project's file that is trusted now.
#[derive(Clone, Debug)]
pub struct TrustedProject {
    pub file: PathBuf,
    pub hash: ContentHash,
    /// What counts from now on, and would not without trust.
    pub keys: Vec<String>,
}

/// How a file stands that was trusted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As it was: it counts.
    AsItWas,
    /// It holds something else now, which does not count.
    Changed,
    Gone,
}

impl Surroundings {
    /// Trusts the `agora.toml` that is found from a directory upward, as it is now.
    pub fn trust(&self, from: &Path) -> Result<TrustedProject, Error> {
        let project = self.project(from)?;
        // The user's own settings alone: what another project says is nothing to this one.
        let settings = self.own_settings(Path::new("agora"))?;
        project.check(&settings)?;
        let keys = project.keys_that_want_trust(&settings)?;
        let trusted = Trusted { file: project.file, hash: project.hash };
        self.trust_store().put(&trusted).map_err(Error::Home)?;
        Ok(TrustedProject { file: trusted.file, hash: trusted.hash, keys })
    }

    /// Trusts that file no more, whatever it holds. Returns which it is, and whether it was trusted.
    pub fn distrust(&self, from: &Path) -> Result<(PathBuf, bool), Error> {
        let file = self.project(from)?.file;
        let was = self.trust_store().remove(&file).map_err(Error::Home)?;
        Ok((file, was))
    }

    /// Returns every file that was trusted, and how it stands.
    pub fn trusted(&self) -> Result<Vec<(PathBuf, Standing)>, Error> {
        let all = self.trust_store().list().map_err(Error::Home)?;
        let standing = |trusted: &Trusted| match std::fs::read(&trusted.file) {
            Ok(bytes) if ContentHash::of(&bytes) == trusted.hash => Standing::AsItWas,
            Ok(_) => Standing::Changed,
            Err(_) => Standing::Gone,
        };
        Ok(all.into_iter().map(|trusted| (trusted.file.clone(), standing(&trusted))).collect())
    }

    fn project(&self, from: &Path) -> Result<Project, Error> {
        let from = std::path::absolute(from).unwrap_or_else(|_| from.to_owned());
        let found = Project::find(&from, self.settings.as_deref())?;
        found.ok_or(Error::NoProject { from })
    }

    pub(crate) fn trust_store(&self) -> TrustStore {
        TrustStore::new(Home::new(&self.home))
    }

    /// Returns the settings with what the project says around the current directory, as far as it counts.
    pub(crate) fn with_project(&self, settings: Settings) -> Result<Settings, Error> {
        let Some(from) = &self.project_dir else { return Ok(settings) };
        match Project::find(from, self.settings.as_deref()) {
            Ok(Some(project)) => settings.with_project(project, &self.trust_store()),
            Ok(None) => Ok(settings),
            Err(Error::Settings { file, source }) => {
                Ok(Settings { unused: Some(Unused::new(file, &source)), ..settings })
            }
            Err(error) => Err(error),
        }
    }
}
