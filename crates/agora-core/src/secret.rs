//! Secrets: values that cannot be printed, and references that can.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::limits::{SECRET_BYTES, SHORTEST_SECRET};
use crate::text::{checked_text, serde_as_text};

/// A secret's value. No `Display`, no `Serialize`, and a blind `Debug`: it cannot leak by accident.
#[derive(Clone)]
pub struct SecretValue(Zeroizing<String>);

/// Says why a value is not taken as a secret. Never holds the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretValueError {
    #[error("the secret is empty")]
    Empty,
    #[error(
        "the secret has {0} characters; under {SHORTEST_SECRET} it would be found, and hidden, in text that has nothing to do with it"
    )]
    TooShort(usize),
    #[error("the secret has {0} bytes, the most is {SECRET_BYTES}")]
    TooLong(usize),
    #[error("the secret holds a NUL byte, which no environment variable can carry")]
    Nul,
}

/// Whether a secret that is too short to be redacted well is taken all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortSecrets {
    Refuse,
    Allow,
}

impl SecretValue {
    /// Takes a value as a secret.
    pub fn new(value: String, short: ShortSecrets) -> Result<Self, SecretValueError> {
        let value = Zeroizing::new(value);
        let characters = value.chars().count();
        if value.is_empty() {
            Err(SecretValueError::Empty)
        } else if value.len() > SECRET_BYTES {
            Err(SecretValueError::TooLong(value.len()))
        } else if value.contains('\0') {
            Err(SecretValueError::Nul)
        } else if characters < SHORTEST_SECRET && short == ShortSecrets::Refuse {
            Err(SecretValueError::TooShort(characters))
        } else {
            Ok(Self(value))
        }
    }

    /// Hands out the value. Each caller is a place where a secret leaves its wrapper: keep them few.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// Where a secret is to be found. A bundle holds only this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretRef {
    /// In agora's own store on this machine.
    Local(SecretName),
    /// What a command prints.
    Command(String),
    /// A secret of AWS Secrets Manager, by its ARN or name.
    AwsSecretsManager(String),
}

/// Says why a text is not a reference to a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefError {
    #[error("a secret's reference begins with `local:`, `cmd:` or `aws-sm:`")]
    UnknownScheme,
    #[error("nothing follows `{0}:`")]
    Empty(&'static str),
    #[error("a line break or another control character is in the reference")]
    Control,
    #[error(transparent)]
    Name(SecretNameError),
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(name) => write!(f, "local:{name}"),
            Self::Command(command) => write!(f, "cmd:{command}"),
            Self::AwsSecretsManager(id) => write!(f, "aws-sm:{id}"),
        }
    }
}

impl FromStr for SecretRef {
    type Err = SecretRefError;

    fn from_str(text: &str) -> Result<Self, SecretRefError> {
        if text.chars().any(char::is_control) {
            return Err(SecretRefError::Control);
        }
        let (scheme, rest) = text.split_once(':').ok_or(SecretRefError::UnknownScheme)?;
        let filled = |scheme| {
            if rest.trim().is_empty() { Err(SecretRefError::Empty(scheme)) } else { Ok(rest.to_owned()) }
        };
        match scheme {
            "local" => rest.parse().map(Self::Local).map_err(SecretRefError::Name),
            "cmd" => filled("cmd").map(Self::Command),
            "aws-sm" => filled("aws-sm").map(Self::AwsSecretsManager),
            _ => Err(SecretRefError::UnknownScheme),
        }
    }
}

serde_as_text!(SecretRef);

checked_text!(
    /// The name of a secret in the local store: parts with slashes between them, like `auth/claude`.
    SecretName, SecretNameError, check_secret_name
);

/// Says why a text is not the name of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a local secret's name has one to eight parts with `/` between them; each begins with a letter or digit and has only letters, digits, `-`, `_` and `.`"
)]
pub struct SecretNameError;

fn check_secret_name(text: &str) -> Result<(), SecretNameError> {
    // A variable's name may begin with `_`; everything else is as for a bundle's name.
    let well_formed = |part: &str| {
        let first = part.chars().next();
        first.is_some_and(|first| first.is_ascii_alphanumeric() || first == '_')
            && part.len() <= 200
            && part.chars().all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
    };
    let parts = text.split('/').count();
    if parts <= 8 && text.split('/').all(well_formed) { Ok(()) } else { Err(SecretNameError) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_printed() {
        let value = SecretValue::new("hunter2hunter2".to_owned(), ShortSecrets::Refuse).unwrap();
        assert_eq!(format!("{value:?} {:?}", Some(&value)), "SecretValue(…) Some(SecretValue(…))");
    }

    #[test]
    fn a_short_value_wants_to_be_forced() {
        let new = |value: &str, short| SecretValue::new(value.to_owned(), short).map(|_| ());
        assert_eq!(new("12345", ShortSecrets::Refuse), Err(SecretValueError::TooShort(5)));
        assert_eq!(new("12345", ShortSecrets::Allow), Ok(()));
        assert_eq!(new("", ShortSecrets::Allow), Err(SecretValueError::Empty));
        assert_eq!(new("abcdef\0", ShortSecrets::Allow), Err(SecretValueError::Nul));
    }

    proptest::proptest! {
        #[test]
        fn parse_and_display_are_inverse(text in "(local:[a-z0-9_]{1,8}(/[A-Za-z0-9][A-Z_.-]{0,8}){0,3}|cmd:[!-~]{1,20}|aws-sm:[!-~]{1,20})") {
            proptest::prop_assert_eq!(text.parse::<SecretRef>().unwrap().to_string(), text);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<SecretRef>();
        }
    }

    #[test]
    fn references_parse_and_print_back() {
        for text in [
            "local:auth/claude",
            "local:env/default/_KEY",
            "cmd:op read op://vault/key",
            "aws-sm:arn:aws:x:1",
        ] {
            assert_eq!(text.parse::<SecretRef>().unwrap().to_string(), text);
        }
        for text in ["", "x", "local:", "local:../x", "local:a//b", "cmd:", "cmd: ", "vault:x", "cmd:a\nb"] {
            assert!(text.parse::<SecretRef>().is_err(), "{text:?}");
        }
    }
}
