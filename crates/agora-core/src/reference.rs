//! References to bundles, as people write them.

use std::fmt;
use std::str::FromStr;

use crate::hash::{HashPrefix, PrefixParseError};
use crate::name::{Name, NameParseError};
use crate::text::serde_as_text;
use crate::time::Timestamp;

/// A name, and which of its versions: `planner`, `planner@sha256:3f2a…`, `planner@2026-11-15T19:00:00Z`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleRef {
    pub name: Name,
    pub pin: Pin,
}

/// Which version of a name is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pin {
    /// Whatever is the latest when the reference is resolved.
    Latest,
    /// The version with this content.
    Hash(HashPrefix),
    /// The version that was the latest at this time.
    At(Timestamp),
}

/// Says why a text is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefParseError {
    #[error("`{text}` does not begin with a name")]
    Name {
        text: String,
        #[source]
        source: NameParseError,
    },
    #[error("`{text}` has no usable hash")]
    Hash {
        text: String,
        #[source]
        source: PrefixParseError,
    },
    #[error("`{text}` has neither `sha256:…` nor a time like 2026-11-15T19:00:00Z after the `@`")]
    Pin { text: String },
}

impl From<Name> for BundleRef {
    fn from(name: Name) -> Self {
        Self { name, pin: Pin::Latest }
    }
}

impl fmt::Display for BundleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pin {
            Pin::Latest => write!(f, "{}", self.name),
            Pin::Hash(prefix) => write!(f, "{}@{prefix}", self.name),
            Pin::At(time) => write!(f, "{}@{time}", self.name),
        }
    }
}

impl FromStr for BundleRef {
    type Err = RefParseError;

    fn from_str(text: &str) -> Result<Self, RefParseError> {
        let shown = || text.chars().take(200).collect::<String>();
        let (name, pin) = match text.split_once('@') {
            None => (text, None),
            Some((name, pin)) => (name, Some(pin)),
        };
        let name = name.parse().map_err(|source| RefParseError::Name { text: shown(), source })?;
        let pin = match pin {
            None => Pin::Latest,
            Some(pin) => match pin.strip_prefix("sha256:") {
                Some(digits) => HashPrefix::from_digits(digits)
                    .map(Pin::Hash)
                    .map_err(|source| RefParseError::Hash { text: shown(), source })?,
                None => Pin::At(pin.parse().map_err(|_| RefParseError::Pin { text: shown() })?),
            },
        };
        Ok(Self { name, pin })
    }
}

serde_as_text!(BundleRef);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_a_reference_is_refused() {
        for text in
            ["", "@", "a b", "a@", "a@latest", "a@sha256:", "a@sha256:abc", "a@sha256:ABCDEFABCDEF", "a@2026"]
        {
            assert!(text.parse::<BundleRef>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parse_and_display_are_inverse(
            name in "[A-Za-z0-9][A-Za-z0-9._-]{0,40}",
            pin in prop_oneof![
                Just(String::new()),
                "@sha256:[0-9a-f]{12,64}",
                (0_i64..4_000_000_000_000).prop_map(|millis| format!("@{}", Timestamp::from_millis(millis))),
            ],
        ) {
            let text = format!("{name}{pin}");
            prop_assert_eq!(text.parse::<BundleRef>().unwrap().to_string(), text);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<BundleRef>();
        }
    }
}
