//! Where a worker works: what its environment says, read once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use agora_core::DispatchId;
use rustix::fs::{Mode, Uid};

use crate::sandbox::wall::Inside;

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
    /// The home of whoever runs the worker, where tools are. The agent has another one.
    pub(crate) users_home: Option<PathBuf>,
    /// The shell for a person who works in the place: their own where it is one of the system's, which is all that a wall shows.
    pub(crate) shell: PathBuf,
    dir: PathBuf,
    /// How the place looks to programs, once that is decided.
    inside: Option<Inside>,
    /// Who owns what programs may write, when they are not who the worker is.
    agent: Option<u32>,
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
            users_home: find("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
            shell: find("SHELL")
                .map(PathBuf::from)
                .filter(|shell| is_the_systems(shell))
                .unwrap_or("/bin/sh".into()),
            inside: None,
            agent: None,
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

    pub(crate) fn in_agora(&self, name: &str) -> PathBuf {
        self.work().join(crate::needs_input::DIR).join(name)
    }

    pub(crate) fn base(&self) -> &BTreeMap<OsString, OsString> {
        &self.base
    }

    /// Returns the directories that every dispatch needs.
    pub(crate) fn directories(&self) -> [PathBuf; 4] {
        [self.work(), self.out(), self.home(), self.tmp()]
    }

    /// Returns the place as the worker sees it, in a program's terms.
    pub(crate) fn own(&self) -> Inside {
        Inside { work: self.work(), home: self.home(), tmp: self.tmp(), aids: self.aids() }
    }

    /// Returns the place in the terms of programs. What they are told is said in these.
    pub(crate) fn inside(&self) -> Inside {
        self.inside.clone().unwrap_or_else(|| self.own())
    }

    /// Returns what nothing of may be visible to an agent: agora's home, as far as the dispatch's place tells where it is.
    pub(crate) fn closed(&self) -> &Path {
        let dispatches =
            self.dir.parent().filter(|parent| parent.file_name() == Some(OsStr::new("dispatches")));
        dispatches.and_then(Path::parent).unwrap_or(&self.dir)
    }

    /// Settles how programs see the place, and who they are.
    pub(crate) fn settle(&mut self, inside: Inside, agent: Option<u32>) {
        (self.inside, self.agent) = (Some(inside), agent);
    }

    /// Gives the agent a path below a directory, and the directories on the way to it.
    pub(crate) fn give_along(&self, root: &Path, below: &Path) -> io::Result<()> {
        let Some(agent) = self.agent else { return Ok(()) };
        let mut path = root.to_owned();
        for part in below.components() {
            path.push(part);
            if std::fs::symlink_metadata(&path)?.uid() != agent {
                lchown(&path, Some(agent), Some(agent))?;
            }
        }
        Ok(())
    }

    /// Gives the agent the terminal that it is to have, as a login does: no other user writes to it, and it may be opened again.
    pub(crate) fn give_terminal(&self, terminal: impl AsFd) -> io::Result<()> {
        let Some(agent) = self.agent else { return Ok(()) };
        rustix::fs::fchown(&terminal, Some(Uid::from_raw(agent)), None)?;
        Ok(rustix::fs::fchmod(&terminal, Mode::RUSR | Mode::WUSR)?)
    }

    /// Gives what the worker made to whoever is to write it: a file, a link, or a directory with all that is in it.
    pub(crate) fn give(&self, path: &Path) -> io::Result<()> {
        let Some(agent) = self.agent else { return Ok(()) };
        let mut left = vec![path.to_owned()];
        while let Some(path) = left.pop() {
            let about = std::fs::symlink_metadata(&path)?;
            if about.uid() != agent {
                lchown(&path, Some(agent), Some(agent))?;
            }
            if about.is_dir() {
                for entry in std::fs::read_dir(&path)? {
                    left.push(entry?.path());
                }
            }
        }
        Ok(())
    }
}

fn is_the_systems(shell: &Path) -> bool {
    ["/bin", "/usr/bin", "/usr/local/bin"].iter().any(|dir| shell.parent() == Some(Path::new(dir)))
        && shell.is_file()
}

/// Tells whether a variable says how to work rather than who one is. No credential has such a name.
fn is_harmless(name: &OsStr) -> bool {
    const NAMES: [&str; 6] = ["PATH", "USER", "LANG", "TERM", "TZ", "TMPDIR"];
    name.to_str().is_some_and(|name| NAMES.contains(&name) || name.starts_with("LC_"))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(place.own().sentinel(), Path::new("/d/work/.agora/needs_input.json"));
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
