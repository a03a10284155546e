//! The lines that the registry's files are made of: text, so that a person can read them with any tool.

use std::fmt;

use agora_core::provider::registry::Version;

/// The version of a line's form, in front of each.
const FORM: &str = "v1";

/// A line of a name's list: `v1 <seq> <hash> <time>`.
pub(super) struct VersionLine(pub(super) Version);

impl fmt::Display for VersionLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { seq, content_hash, registered_at } = self.0;
        write!(f, "{FORM} {seq} {content_hash} {registered_at}")
    }
}

/// Reads a version from the words of a line, and leaves the rest of them.
pub(super) fn version<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Version> {
    let form = words.next()?;
    let version = Version {
        seq: words.next()?.parse().ok()?,
        content_hash: words.next()?.parse().ok()?,
        registered_at: words.next()?.parse().ok()?,
    };
    (form == FORM).then_some(version)
}

/// The latest version, and how much of the list belongs to it: `v1 <seq> <hash> <time> <bytes>`.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) latest: Version,
    /// The list's length with this version in it. What follows in the file was never committed; a file that is
    /// shorter was cut.
    pub(super) length: u64,
}

impl Head {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        let head = Self { latest: version(&mut words)?, length: words.next()?.parse().ok()? };
        words.next().is_none().then_some(head)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", VersionLine(self.latest), self.length)
    }
}
