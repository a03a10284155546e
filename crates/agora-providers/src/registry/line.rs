//! The lines that the registry's files are made of: text, so that a person can read them with any tool.

use std::fmt;

use agora_core::provider::registry::Version;

/// The version of a line's form, in front of each.
const FORM: &str = "v1";

/// `sha256:` and 64 digits.
const HASH_WIDTH: usize = 71;

/// A time to the millisecond; see `agora_core::time`.
const TIME_WIDTH: usize = 24;

/// A line of a name's list: `v1 <seq> <hash> <time>`.
pub(super) struct VersionLine(pub(super) Version);

impl fmt::Display for VersionLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { seq, content_hash, registered_at } = self.0;
        write!(f, "{FORM} {seq} {content_hash} {registered_at}")
    }
}

/// Reads a version from the beginning of a line, and returns what follows it. Lists have thousands of lines, so the
/// words of one width are taken by their width.
pub(super) fn version(line: &str) -> Option<(Version, &str)> {
    let rest = line.strip_prefix(FORM)?.strip_prefix(' ')?;
    let (seq, rest) = word(rest);
    let (hash, rest) = rest.split_at_checked(HASH_WIDTH)?;
    let (time, rest) = rest.strip_prefix(' ')?.split_at_checked(TIME_WIDTH)?;
    let version = Version {
        seq: seq.parse().ok()?,
        content_hash: hash.parse().ok()?,
        registered_at: time.parse().ok()?,
    };
    Some((version, rest))
}

/// Takes the first word of a line, and the blank after it.
pub(super) fn word(line: &str) -> (&str, &str) {
    match line.bytes().position(|byte| byte == b' ') {
        Some(place) => (&line[..place], &line[place + 1..]),
        None => (line, ""),
    }
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
        let (latest, rest) = version(text.strip_suffix('\n')?)?;
        Some(Self { latest, length: rest.strip_prefix(' ')?.parse().ok()? })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", VersionLine(self.latest), self.length)
    }
}

#[cfg(test)]
mod tests {
    use agora_core::{ContentHash, Timestamp};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parse_and_display_are_inverse(seq: u64, content: [u8; 4], millis in 0_i64..9_000_000_000_000, length: u64) {
            let registered_at = Timestamp::from_millis(millis);
            let latest = Version { seq, content_hash: ContentHash::of(&content), registered_at };
            let text = Head { latest, length }.to_string();
            let head = Head::parse(&text).unwrap();
            prop_assert_eq!((head.latest, head.length), (latest, length));
            let line = VersionLine(latest).to_string();
            prop_assert_eq!(version(&line), Some((latest, "")));
            // A line that was cut anywhere is no head.
            for cut in 0..text.len() {
                prop_assert!(Head::parse(&text[..cut]).is_none(), "{}", &text[..cut]);
            }
        }

        #[test]
        fn no_text_panics(text in ".*", tail in "(v1 [0-9]{1,3} (sha256:)?[0-9a-f é]{0,90})") {
            let _ = (Head::parse(&text), version(&text), version(&tail), word(&text));
        }
    }
}
