//! What a patch does not show, and why.

use agora_core::git::patch::quoted;

use super::entry::Name;
use crate::redact::Redactor;

/// How many are listed by name. Who has more than that wants the number.
const LISTED: usize = 10_000;

/// A path that differs, or may differ, and is not in the patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// As a patch writes it, with secrets hidden.
    pub path: String,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("it holds a secret")]
    Secret,
    #[error("it has more than 64 MiB")]
    TooLarge,
    #[error("the patch would be too large")]
    PatchFull,
    #[error("it is neither a file nor a symbolic link")]
    Special,
    #[error("it could not be read")]
    Unreadable,
    #[error("git does not apply a patch to such a path")]
    Refused,
    #[error("git ignored it when the agent started")]
    IgnoredBefore,
    #[error("something that is not in the patch is in its way")]
    InTheWay,
    #[error("its path is too long")]
    TooLong,
    #[error("there are too many files")]
    TooMany,
    #[error("where it was moved to holds a secret or is not in the patch, so that it stays")]
    Moved,
    #[error("its original was too large to be kept across a pause")]
    NotCarried,
}

/// Collects, up to what is listed.
#[derive(Debug, Default)]
pub(super) struct List {
    listed: Vec<(Name, Why)>,
    more: u64,
}

impl List {
    pub(super) fn add(&mut self, path: &[u8], why: Why) {
        if self.listed.len() < LISTED {
            self.listed.push((path.into(), why));
        } else {
            self.more += 1;
        }
    }

    /// Returns the list in order, fit to be shown, and how many more there were.
    pub(super) fn shown(mut self, redactor: &Redactor) -> (Vec<LeftOut>, u64) {
        self.listed.sort_by(|one, other| one.0.cmp(&other.0));
        let show = |(path, why): (Name, Why)| LeftOut { path: shown(redactor, &path), why };
        (self.listed.into_iter().map(show).collect(), self.more)
    }
}

/// Writes a path for people: as a patch would, with secrets hidden.
pub(super) fn shown(redactor: &Redactor, path: &[u8]) -> String {
    let written = quoted("", &redactor.bytes(path));
    redactor.text(&written).into_owned()
}
