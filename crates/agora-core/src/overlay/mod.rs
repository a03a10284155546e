//! How capabilities are laid over each other: which file comes from whom, what is merged, and what disappears.
//!
//! ```text
//!  layers in order ─▶ plan   ─▶ every file with its source, and who lost to whom
//!  contents        ─▶ merge  ─▶ the few files that are made of several
//! ```
//!
//! The layers are the helper, then the capabilities as declared. The later one wins, file by file, except:
//!
//! | path | rule | runtime |
//! |---|---|---|
//! | `.claude/settings.json` | merged | `claude-code` |
//! | `agora-plugins.json` | merged | `claude-code` |
//! | `agora-notifications.json` | merged | every one |
//! | `.claude/skills/<name>/` | the later one wins the whole skill | `claude-code` |
//! | `.agents/skills/<name>/` | the later one wins the whole skill | `codex` |
//!
//! `agora-channel.json` and `agora-setup.sh` are no exceptions: there is one of each, the last.

mod conflict;
mod merge;
mod plan;

use std::fmt;

use serde::Serialize;

pub use conflict::{Conflict, JsonType, MergeFault, Place};
pub use merge::{MERGED_BYTES, MergeKind, merge};
pub use plan::plan;

use crate::bundle::{Capability, FileEntry, FileMode, Runtime, TreeError};
use crate::hash::ContentHash;
use crate::name::Name;
use crate::path::BundlePath;

/// The name of agora's own skill, and of the layer that brings it.
pub const HELPER: &str = "agora-needs-input";

/// Where the helper's skill stands: the first directory reaches every runtime but Claude Code.
const HELPER_PATHS: [&str; 2] =
    [".agents/skills/agora-needs-input/SKILL.md", ".claude/skills/agora-needs-input/SKILL.md"];

/// Who brought a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The adapter, which teaches the agent how to ask.
    Helper,
    Capability(Name),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Helper => HELPER,
            Self::Capability(name) => name.as_str(),
        })
    }
}

impl Serialize for Owner {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The files of one owner. They are a capability's, so that none of them are in each other's way.
#[derive(Clone, Debug)]
pub struct Layer<'a> {
    pub owner: Owner,
    pub tree: &'a Capability,
}

/// The helper's files, with their contents one after another as in every pack.
#[derive(Clone, Debug)]
pub struct Helper {
    pub tree: Capability,
    pub pack: Vec<u8>,
}

impl Helper {
    /// Makes the files from the text of the skill, where the runtime looks for skills.
    pub fn new(skill: &str, runtime: &Runtime) -> Result<Self, TreeError> {
        let (size, sha256) = (skill.len() as u64, ContentHash::of(skill.as_bytes()));
        let entry = |path| FileEntry { path, mode: FileMode::Plain, size, sha256 };
        let paths = match runtime {
            Runtime::ClaudeCode => &HELPER_PATHS[..],
            // What is not Claude Code's own is read by everybody else, and each directory costs.
            Runtime::Codex | Runtime::Command(_) | Runtime::External(_) => &HELPER_PATHS[..1],
        };
        let paths = paths.iter().filter_map(|path| path.parse().ok());
        let tree = Capability::new(paths.map(entry).collect())?;
        let pack = skill.repeat(tree.files().len()).into_bytes();
        Ok(Self { tree, pack })
    }
}

/// What is laid over the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Who brought each layer, in their order.
    pub owners: Vec<Owner>,
    /// Every file once, ordered by path. None is a directory of another.
    pub files: Vec<Placed>,
    /// What disappears, ordered by path, then by layer.
    pub dropped: Vec<Dropped>,
}

/// A file of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub path: BundlePath,
    pub mode: FileMode,
    pub source: Source,
}

/// What a file is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One layer's file, as it is.
    Layer(Part),
    /// Two or more, in the order of their layers. Each has at most [`MERGED_BYTES`].
    Merged { kind: MergeKind, parts: Vec<Part> },
}

/// One file of one layer, and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The layer's place among the layers.
    pub layer: usize,
    /// The file's place among the layer's files.
    pub file: usize,
    /// Where the file begins in the layer's pack: after all files before it.
    pub offset: u64,
    pub size: u64,
    pub sha256: ContentHash,
}

/// A file that is not laid because another owner's is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    pub path: BundlePath,
    pub winner: Owner,
    pub loser: Owner,
}

impl Plan {
    /// Returns who brought a part.
    pub fn owner(&self, part: &Part) -> &Owner {
        // Every part of a plan has one; another plan's may not, and then nobody else is to blame.
        self.owners.get(part.layer).unwrap_or(&Owner::Helper)
    }

    /// Returns the files that are made of several, with their parts: the contents that laying them needs.
    pub fn merged(&self) -> impl Iterator<Item = (MergeKind, &[Part])> {
        self.files.iter().filter_map(|placed| match &placed.source {
            Source::Layer(_) => None,
            Source::Merged { kind, parts } => Some((*kind, parts.as_slice())),
        })
    }
}

impl Source {
    /// Returns what the file is made of, in the order of the layers.
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::Layer(part) => std::slice::from_ref(part),
            Self::Merged { parts, .. } => parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_has_its_skill_in_both_places() {
        let helper = Helper::new("ask", &Runtime::ClaudeCode).unwrap();
        let paths: Vec<&str> = helper.tree.files().iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, HELPER_PATHS);
        assert!(crate::blobs::Pack::check(&helper.tree, helper.pack).is_some());
    }
}
