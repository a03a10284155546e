//! Version numbers as programs print them.

use std::fmt;

/// A version `major.minor.patch`; what follows it is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl Version {
    /// Returns the first version in the output of a `--version` command.
    pub(crate) fn find_in(text: &str) -> Option<Self> {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.')).find_map(Self::parse)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        Some(Self(next()?, next()?, next()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn finds_the_version_in_what_programs_print() {
        let cases = [
            ("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)", Some(Version(0, 9, 143))),
            ("v1.1.1", Some(Version(1, 1, 1))),
            ("Docker version 20.10.24+dfsg1, build 297e128", Some(Version(20, 10, 24))),
            ("2.1.325 (Claude Code)", Some(Version(2, 1, 325))),
            ("no digits", None),
            ("1.2", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Version::find_in(text), expected, "{text}");
        }
    }

    #[test]
    fn versions_compare_by_number_not_by_text() {
        assert!(Version(0, 9, 143) > Version(0, 9, 99));
    }
}
