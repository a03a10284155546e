//! Where a worker works: what its environment says, read once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use agora_core::{DispatchId, sentinel};

/// The variables that a worker is started with. Everything else that begins with `AGORA_` is somebody's mistake.
const KNOWN: [&str; 4] = ["AGORA_DISPATCH_ID", "AGORA_DISPATCH_DIR", "AGORA_ADAPTER", "AGORA_ADAPTERS_DIR"];

/// A dispatch's place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dispatch_id: DispatchId,
    /// The word for the runtime.
    pub(crate) adapter: String,
    /// Where a person may have put adapters of their own.
    pub(crate) adapters_dir: Option<PathBuf>,
    dir: PathBuf,
    /// Variables of the worker's own that an agent may see.
    base: BTreeMap<OsString, OsString>,
}

/// Says what is wrong with the worker's environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("`{0}` is not set")]
    Missing(&'static str),
    #[error("`{0}` is not a text")]
    NotText(&'static str),
    #[error("`{0}` is not a variable that this worker knows")]
    Unknown(String),
    #[error("`AGORA_DISPATCH_ID` is not an id: {0}")]
    Id(agora_core::id::IdParseError),
    #[error("`AGORA_DISPATCH_DIR` is not an absolute path")]
    Relative,
}

impl Place {
    pub(crate) fn new(environment: &[(OsString, OsString)]) -> Result<Self, PlaceError> {
        let find = |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let text = |name: &'static str| match find(name) {
            Some(value) => value.to_str().ok_or(PlaceError::NotText(name)).map(Some),
            None => Ok(None),
        };
        let ours = |name: &OsStr| name.to_str().filter(|name| name.starts_with("AGORA_")).map(str::to_owned);
        let strange = environment
            .iter()
            .filter_map(|(name, _)| ours(name))
            .find(|name| !KNOWN.contains(&name.as_str()));
        if let Some(name) = strange {
            return Err(PlaceError::Unknown(name));
        }
        let id = text("AGORA_DISPATCH_ID")?.ok_or(PlaceError::Missing("AGORA_DISPATCH_ID"))?;
        let dir =
            find("AGORA_DISPATCH_DIR").map(PathBuf::from).ok_or(PlaceError::Missing("AGORA_DISPATCH_DIR"))?;
        if !dir.is_absolute() {
            return Err(PlaceError::Relative);
        }
        Ok(Self {
            dispatch_id: id.parse().map_err(PlaceError::Id)?,
            adapter: text("AGORA_ADAPTER")?.unwrap_or("claude-code").to_owned(),
            adapters_dir: find("AGORA_ADAPTERS_DIR").map(PathBuf::from),
            dir,
            base: environment.iter().filter(|(name, _)| is_harmless(name)).cloned().collect(),
        })
    }

    /// The agent's workspace.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// The layers of a workspace that has some, and its frozen states. Closed to the agent.
    pub(crate) fn layers(&self) -> PathBuf {
        self.dir.join(crate::room::LAYERS)
    }

    /// What the worker leaves for the engine. Closed to the agent.
    pub(crate) fn out(&self) -> PathBuf {
        self.dir.join("out")
    }

    /// The agent's own home: private, and new with each dispatch.
    pub(crate) fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// For what programs leave in `/tmp`.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// What the worker puts down for programs behind the wall to read: settings, prompts, an adapter.
    pub(crate) fn aids(&self) -> PathBuf {
        self.dir.join("aids")
    }

    pub(crate) fn sentinel(&self) -> PathBuf {
        self.work().join(sentinel::PATH)
    }

    pub(crate) fn in_agora(&self, name: &str) -> PathBuf {
        self.work().join(crate::needs_input::DIR).join(name)
    }

    pub(crate) fn base(&self) -> &BTreeMap<OsString, OsString> {
        &self.base
    }

    /// Returns the directories that every dispatch needs. One for aids is made when there is one.
    pub(crate) fn directories(&self) -> [PathBuf; 4] {
        [self.work(), self.out(), self.home(), self.tmp()]
    }
}

/// Tells whether a variable says how to work rather than who one is. No credential has such a name.
fn is_harmless(name: &OsStr) -> bool {
    const NAMES: [&str; 6] = ["PATH", "USER", "LANG", "TERM", "TZ", "TMPDIR"];
    name.to_str().is_some_and(|name| NAMES.contains(&name) || name.starts_with("LC_"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn place(pairs: &[(&str, &str)]) -> Result<Place, PlaceError> {
        Place::new(&pairs.iter().map(|(name, value)| (name.into(), value.into())).collect::<Vec<_>>())
    }

    #[test]
    fn the_environment_is_read_once_and_little_of_it_goes_on() {
        let place = place(&[
            ("AGORA_DISPATCH_ID", "d_1"),
            ("AGORA_DISPATCH_DIR", "/d"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("HOME", "/root"),
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("SSH_AUTH_SOCK", "/s"),
        ])
        .unwrap();
        assert_eq!(place.adapter, "claude-code");
        assert_eq!(place.base().keys().collect::<Vec<_>>(), ["LC_ALL", "PATH"]);
        assert_eq!(place.sentinel(), Path::new("/d/work/.agora/needs_input.json"));
    }

    #[test]
    fn what_is_missing_or_strange_is_named() {
        let id = ("AGORA_DISPATCH_ID", "d_1");
        assert_eq!(place(&[]).unwrap_err(), PlaceError::Missing("AGORA_DISPATCH_ID"));
        assert_eq!(place(&[id]).unwrap_err(), PlaceError::Missing("AGORA_DISPATCH_DIR"));
        assert_eq!(place(&[id, ("AGORA_DISPATCH_DIR", "d")]).unwrap_err(), PlaceError::Relative);
        assert!(matches!(
            place(&[("AGORA_DISPATCH_ID", "x")]),
            Err(PlaceError::Missing(_) | PlaceError::Id(_))
        ));
        let strange = place(&[id, ("AGORA_DISPATCH_DIR", "/d"), ("AGORA_HOME", "/h")]);
        assert_eq!(strange.unwrap_err(), PlaceError::Unknown("AGORA_HOME".into()));
    }
}
