//! The wall between an agent and everything else: what is asked for, and what was built.
//!
//! ```text
//!  agora.toml ──▶ Wish ──▶ the dispatch's manifest ──▶ worker ──▶ Built ──▶ report ──▶ the result's `isolation`
//! ```

mod never;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::serde_as_text;

pub use never::{NEVER, Never, is_never_visible};

/// Who the agent is, user and group, when root runs the worker. Above what distributions give out, and below the ids of nobody and
/// of containers.
pub const AGENT_ID: u32 = 61_000;

/// Tells whether there is such a user where a map of user ids holds (`/proc/self/uid_map`): root of a user namespace knows few.
pub fn has_agent(uid_map: &str) -> bool {
    uid_map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        first
            .zip(count)
            .is_some_and(|(first, count)| (first..first.saturating_add(count)).contains(&AGENT_ID.into()))
    })
}

/// How many processes and threads the agent may have at once where nobody says: ten times what a large build has, and far below
/// what a machine bears.
pub const PROCESSES: u32 = 4096;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Wish {
    pub isolation: Isolation,
    pub network: Network,
    pub tools: Tools,
    pub grants: Vec<Grant>,
}

/// How strong the wall must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// The strongest that this machine can build, and never nothing.
    #[default]
    Auto,
    /// Namespaces, Landlock and seccomp, or the agent does not start.
    Strict,
    /// No wall: somebody chose that.
    None,
}

/// Where the agent may connect to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Network {
    #[default]
    Open,
    /// A network of its own, with nothing in it but itself.
    None,
}

/// Which programs of the user's home are visible.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tools {
    /// What the path names, with what that links to, and the roots of known tools.
    #[default]
    Auto,
    /// Just these.
    Paths(Vec<String>),
    /// Nothing that is not the system's.
    None,
}

/// What may be done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    #[serde(rename = "ro")]
    Read,
    #[serde(rename = "rw")]
    Write,
}

/// One more path that is visible: `~/.m2:ro`, `/data:rw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Absolute, or from the home on with `~/`.
    path: String,
    pub access: Access,
}

/// Says why a text is not a grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    #[error("`{0}` is not a path with its access, such as `~/.m2:ro` or `/data:rw`")]
    Shape(String),
    #[error("`{0}` holds keys or a login, and is never visible to an agent")]
    Never(String),
}

impl Grant {
    /// Returns the path in a home.
    pub fn path(&self, home: &Path) -> std::path::PathBuf {
        in_home(&self.path, home)
    }
}

/// Reads a path as people write it, where `~` is the home.
pub fn in_home(path: &str, home: &Path) -> std::path::PathBuf {
    match path.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => path.into(),
    }
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let shape = || GrantError::Shape(text.to_owned());
        let (path, access) = match text.rsplit_once(':') {
            Some((path, "ro")) => (path, Access::Read),
            Some((path, "rw")) => (path, Access::Write),
            _ => return Err(shape()),
        };
        let rest = path.strip_prefix("~/").or(if path == "~" { Some("") } else { None });
        let plain = rest.is_some() || path.starts_with('/');
        let climbs = path.split('/').any(|part| part == "..");
        if !plain || climbs || path.contains('\0') {
            return Err(shape());
        }
        if rest.is_some_and(|rest| is_never_visible(Path::new(rest))) {
            return Err(GrantError::Never(path.to_owned()));
        }
        Ok(Self { path: path.to_owned(), access })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.access)
    }
}

serde_as_text!(Grant);

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "ro",
            Self::Write => "rw",
        })
    }
}

/// Which wall was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Namespaces, Landlock and seccomp.
    Namespaces,
    /// Landlock, seccomp and a guard that gathers orphans.
    Landlock,
    None,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::None => "none",
        })
    }
}

/// What was built, as it stands on the dispatch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Built {
    pub level: Level,
    /// Which Landlock the kernel speaks, when it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landlock: Option<u32>,
    pub seccomp: bool,
    pub network: Network,
    /// Who the agent was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// What was visible inside, beside what the kernel makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visible: Vec<Visible>,
    /// What of that was covered: keys, logins, and what is agora's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub covered: Vec<String>,
    /// Grants that name nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What this wall does not stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaves_open: Vec<String>,
    /// Why it is not the strongest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// All of it stood in a container, which is the outer wall.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub container: bool,
}

impl Built {
    /// No wall, or nothing that ever ran.
    pub fn none() -> Self {
        Self {
            level: Level::None,
            landlock: None,
            seccomp: false,
            network: Network::Open,
            uid: None,
            visible: Vec::new(),
            covered: Vec::new(),
            missing: Vec::new(),
            leaves_open: vec!["everything that whoever runs the worker may do".to_owned()],
            because: None,
            container: false,
        }
    }
}

/// A path as it is inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Visible {
    pub path: String,
    pub access: Access,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_a_path_with_its_access() {
        let home = Path::new("/home/ann");
        for (text, path) in [("~/.m2:ro", "/home/ann/.m2"), ("/data:rw", "/data"), ("~:ro", "/home/ann")] {
            let grant: Grant = text.parse().unwrap();
            assert_eq!((grant.path(home).as_path(), grant.to_string()), (Path::new(path), text.to_owned()));
        }
        for wrong in ["", "~/.m2", "~/.m2:x", ".m2:ro", "~ann/x:ro", "/a/../b:ro", ":ro"] {
            assert!(matches!(wrong.parse::<Grant>(), Err(GrantError::Shape(_))), "{wrong}");
        }
        for never in ["~/.ssh:ro", "~/.ssh/id_ed25519:ro", "~/.cargo/credentials.toml:ro", "~/.config/gh:rw"]
        {
            assert!(matches!(never.parse::<Grant>(), Err(GrantError::Never(_))), "{never}");
        }
    }

    #[test]
    fn a_manifest_that_says_nothing_wants_the_strongest() {
        let wish: Wish = serde_json::from_str("{}").unwrap();
        assert_eq!(
            (wish.isolation, wish.network, &wish.tools),
            (Isolation::Auto, Network::Open, &Tools::Auto)
        );
        let wish = Wish { grants: vec!["~/.m2:ro".parse().unwrap()], ..wish };
        let text = serde_json::to_string(&wish).unwrap();
        assert!(text.contains(r#""grants":["~/.m2:ro"]"#), "{text}");
    }

    #[test]
    fn root_of_a_namespace_knows_only_whom_it_maps() {
        assert!(has_agent("         0          0 4294967295\n"));
        assert!(has_agent("0 1000 1\n1 100000 65536\n"));
        assert!(!has_agent("0 1000 1\n") && !has_agent(""));
    }
}
