//! The names of bundles and namespaces.

use crate::limits::NAME_LENGTH;
use crate::text::checked_text;

/// Says why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameParseError {
    #[error("a name is not empty")]
    Empty,
    #[error("a name has at most {NAME_LENGTH} characters, this one has {0}")]
    TooLong(usize),
    #[error("a name has only letters and digits of ASCII, `-`, `_` and `.`, not {0:?}")]
    Character(char),
    #[error("a name begins with a letter or a digit, not {0:?}")]
    First(char),
}

fn check(text: &str) -> Result<(), NameParseError> {
    let first = text.chars().next().ok_or(NameParseError::Empty)?;
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    if let Some(character) = text.chars().find(|character| !allowed(*character)) {
        return Err(NameParseError::Character(character));
    }
    // A name is also a file's name: `.` and `..` are directories, and a leading `-` reads as an option.
    if !first.is_ascii_alphanumeric() {
        return Err(NameParseError::First(first));
    }
    if text.len() > NAME_LENGTH {
        return Err(NameParseError::TooLong(text.len()));
    }
    Ok(())
}

checked_text!(
    /// The name of a bundle within its namespace and kind.
    Name, NameParseError, check
);
checked_text!(
    /// Whose names these are: part of every key, event and receipt.
    Namespace, NameParseError, check
);

impl Default for Namespace {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_people_use_are_names() {
        for text in ["planner", "code-reviewer", "v1.2", "A_b", "9", &"x".repeat(128)] {
            assert_eq!(text.parse::<Name>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(Namespace::default().as_str().parse::<Namespace>(), Ok(Namespace::default()));
    }

    #[test]
    fn what_would_break_a_path_or_a_reference_is_refused() {
        let cases = [
            ("", NameParseError::Empty),
            ("a/b", NameParseError::Character('/')),
            ("a@b", NameParseError::Character('@')),
            ("a b", NameParseError::Character(' ')),
            ("a\nb", NameParseError::Character('\n')),
            ("pläne", NameParseError::Character('ä')),
            ("..", NameParseError::First('.')),
            ("-rf", NameParseError::First('-')),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Name>(), Err(expected), "{text:?}");
        }
        assert_eq!("x".repeat(129).parse::<Name>(), Err(NameParseError::TooLong(129)));
    }
}
