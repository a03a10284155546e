//! The ground of a thread: what its workspace was made from, as it was taken when the first dispatch was accepted.

use serde::{Deserialize, Serialize};

use crate::hash::ContentHash;

/// What somebody wants an agent to work on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GroundRequest {
    /// Nothing: an empty directory.
    #[default]
    Empty,
    /// A directory. Inside a git repository, that repository as it is now, or as a commit of it was.
    Directory { path: std::path::PathBuf, base: Option<String> },
    /// A repository somewhere else, at a commit, a tag or a branch of it.
    Url { url: String, rev: Option<String> },
}

/// What was taken. Nothing in it is located below `$AGORA_HOME`, so that a home can be moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ground {
    pub source: Source,
    /// The cached files that it begins with, by their name among the bases. `None`: all files are its own.
    #[serde(default)]
    pub base: Option<String>,
    /// The commit that the repository was at. `None` outside a repository, or before its first commit.
    #[serde(default)]
    pub head: Option<String>,
    /// Over everything that was taken: another state of the source has another.
    pub state: ContentHash,
    pub files: u64,
    /// Whose repository it is.
    #[serde(default)]
    pub author: Option<Author>,
    /// What was not taken, because it could be a secret.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// How many more than are listed.
    #[serde(default)]
    pub left_out_more: u64,
}

/// Where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Source {
    /// A plain directory.
    Directory { path: String },
    /// The working tree of a repository, or one of its commits.
    Repository { path: String, base: Option<String> },
    /// A repository that was fetched. Without who fetched it.
    Url { url: String, rev: String },
}

impl Source {
    /// Returns the repository that the work can come home to: by its working tree, or a bare one by its path. What has a URL is elsewhere.
    pub fn repository(&self) -> Option<&str> {
        match self {
            Self::Repository { path, .. } => Some(path),
            Self::Url { url, .. } => Some(&**url).filter(|url| url.starts_with('/')),
            Self::Directory { .. } => None,
        }
    }

    /// Returns the directory of the user's that it was taken from.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Repository { path, .. } | Self::Directory { path } => Some(path),
            Self::Url { .. } => None,
        }
    }

    pub fn is_git(&self) -> bool {
        !matches!(self, Self::Directory { .. })
    }
}

/// Somebody, as git names people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Author {
    pub name: String,
    pub email: String,
}

impl Author {
    /// Whoever has told git nothing: commits are made all the same.
    pub fn nobody() -> Self {
        Self { name: "agora".to_owned(), email: "agora@localhost".to_owned() }
    }

    /// The name that a subagent's commits are made under.
    pub fn committer(subagent: &crate::Name) -> Self {
        Self { name: format!("agora/{subagent}"), email: "agora@localhost".to_owned() }
    }
}

/// Tells whether the user that runs behind the wall, when root runs the worker, is known where a map of user ids holds (`/proc/self/uid_map`): root of a user namespace knows few.
pub fn has_agent(uid_map: &str) -> bool {
    uid_map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        first.zip(count).is_some_and(|(first, count)| {
            (first..first.saturating_add(count)).contains(&crate::wall::AGENT_ID.into())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn work_comes_home_to_a_path_and_to_no_url() {
        let fetched = |url: &str| {
            let source = Source::Url { url: url.to_owned(), rev: "r".to_owned() };
            source.repository().map(str::to_owned)
        };
        assert_eq!(fetched("/srv/x.git").as_deref(), Some("/srv/x.git"));
        for elsewhere in ["https://example.org/x.git", "host:/srv/x.git", "file:///srv/x.git"] {
            assert_eq!(fetched(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn root_of_a_namespace_knows_only_whom_it_maps() {
        assert!(super::has_agent("         0          0 4294967295\n"));
        assert!(super::has_agent("0 1000 1\n1 100000 65536\n"));
        assert!(!super::has_agent("0 1000 1\n") && !super::has_agent(""));
    }
}
