//! Where a secret's value comes from, as people write it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agora_core::limits::SECRET_BYTES;
use agora_core::secret::{SecretRef, SecretRefError, SecretValue, ShortSecrets};

use crate::error::Error;

/// What the library may ask of its surroundings. It reads no environment by itself.
pub trait Outside {
    /// Returns a variable of whoever calls.
    fn variable(&self, name: &str) -> Option<String>;
    /// Reads standard input to its end.
    fn standard_input(&self) -> io::Result<String>;
    /// Asks a person for a value, without showing it.
    fn ask(&self, variable: &str) -> io::Result<String>;
}

/// A source of a secret: a value that is stored now, or a reference that is resolved at each dispatch.
pub enum SecretSource {
    Env(String),
    File(PathBuf),
    StandardInput,
    Prompt,
    Inline(SecretText),
    Reference(SecretRef),
}

/// A value on its way into the store. Cannot be printed.
pub struct SecretText(String);

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::StandardInput => f.write_str("stdin"),
            Self::Prompt => f.write_str("prompt"),
            Self::Inline(_) => f.write_str("inline:…"),
            Self::Reference(reference) => write!(f, "{reference}"),
        }
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

/// Why a source gives no secret. Never holds what was written: it may be the secret itself.
#[derive(Debug, thiserror::Error)]
pub enum SecretSourceError {
    #[error(
        "a secret is given as `env:NAME`, `file:PATH`, `stdin`, `prompt`, `cmd:…`, `aws-sm:…` or `local:…`"
    )]
    UnknownForm,
    #[error("nothing follows `{0}:`")]
    Empty(&'static str),
    #[error(transparent)]
    Reference(SecretRefError),
    #[error("the variable `{0}` is not set")]
    NoVariable(String),
    #[error("`{file}` cannot be read")]
    Unreadable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("standard input cannot be read")]
    StandardInput(#[source] io::Error),
    #[error("nobody can be asked for it here")]
    Prompt(#[source] io::Error),
}

/// A secret that is ready: to be stored, or to be referred to.
#[derive(Debug)]
pub enum SecretInput {
    Value(SecretValue),
    Reference(SecretRef),
}

impl SecretSource {
    /// Reads what stands after `KEY=`. Nothing after it, or no `=`, means a prompt.
    pub fn parse(text: &str) -> Result<Self, SecretSourceError> {
        let filled = |scheme, rest: &str| {
            if rest.is_empty() { Err(SecretSourceError::Empty(scheme)) } else { Ok(rest.to_owned()) }
        };
        match text.split_once(':') {
            _ if text == "stdin" => Ok(Self::StandardInput),
            _ if text == "prompt" => Ok(Self::Prompt),
            Some(("env", name)) => filled("env", name).map(Self::Env),
            Some(("file", path)) => filled("file", path).map(|path| Self::File(PathBuf::from(path))),
            Some(("inline", value)) => filled("inline", value).map(|value| Self::Inline(SecretText(value))),
            Some(("cmd" | "aws-sm" | "local", _)) => {
                text.parse().map(Self::Reference).map_err(SecretSourceError::Reference)
            }
            _ => Err(SecretSourceError::UnknownForm),
        }
    }

    /// Tells whether the value was typed into the command, where the shell's history keeps it.
    pub fn is_inline(&self) -> bool {
        matches!(self, Self::Inline(_))
    }

    /// Gets a value that is used now, and not stored under a name of its own.
    pub fn value(
        self,
        variable: &str,
        outside: &dyn Outside,
        short: ShortSecrets,
    ) -> Result<SecretValue, Error> {
        match self.resolve(variable, Path::new(""), outside, short)? {
            SecretInput::Value(value) => Ok(value),
            SecretInput::Reference(_) => Err(Error::SecretSource {
                variable: variable.to_owned(),
                source: SecretSourceError::UnknownForm,
            }),
        }
    }

    /// Gets the value. One line break at its end is not part of it: editors and `echo` add one.
    pub(crate) fn resolve(
        self,
        variable: &str,
        base: &Path,
        outside: &dyn Outside,
        short: ShortSecrets,
    ) -> Result<SecretInput, Error> {
        let taken = match self {
            Self::Reference(reference) => return Ok(SecretInput::Reference(reference)),
            Self::Env(name) => outside.variable(&name).ok_or(SecretSourceError::NoVariable(name)),
            Self::File(path) => {
                let file = base.join(path);
                read_file(&file)
                    .map_err(|source| SecretSourceError::Unreadable { file, source })
                    .map(without_line_break)
            }
            Self::StandardInput => {
                outside.standard_input().map_err(SecretSourceError::StandardInput).map(without_line_break)
            }
            Self::Prompt => outside.ask(variable).map_err(SecretSourceError::Prompt),
            Self::Inline(SecretText(value)) => Ok(value),
        };
        let value = taken.map_err(|source| Error::SecretSource { variable: variable.to_owned(), source })?;
        SecretValue::new(value, short)
            .map(SecretInput::Value)
            .map_err(|source| Error::SecretValue { variable: variable.to_owned(), source })
    }
}

fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte and a line break more than may be: the value's own check then says how much is too much.
    File::open(path)?.take(SECRET_BYTES as u64 + 3).read_to_string(&mut text)?;
    Ok(text)
}

fn without_line_break(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_never_in_an_error_or_a_debug_text() {
        let error = SecretSource::parse("hunter2-hunter2").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        let error = SecretSource::parse("vault:hunter2").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        let inline = SecretSource::parse("inline:hunter2").unwrap();
        assert!(inline.is_inline() && !format!("{inline:?}").contains("hunter2"));
    }

    #[test]
    fn one_line_break_at_the_end_is_not_part_of_a_value() {
        assert_eq!(without_line_break("a\n".to_owned()), "a");
        assert_eq!(without_line_break("a\r\n".to_owned()), "a");
        assert_eq!(without_line_break("a\n\n".to_owned()), "a\n");
        assert_eq!(without_line_break("a".to_owned()), "a");
    }
}
