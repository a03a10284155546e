//! Paths of files in a bundle.

use crate::limits::{PATH_BYTES, PATH_PART_BYTES};
use crate::text::checked_text;

checked_text!(
    /// A path that stays inside the directory it is joined to, on every machine: relative, with forward slashes.
    BundlePath, PathParseError, check
);

/// Says why a text is not a path in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathParseError {
    #[error("the path is empty")]
    Empty,
    #[error("the path is absolute")]
    Absolute,
    #[error("the path has an empty part (`//`, or a `/` at its end)")]
    EmptyPart,
    #[error("the path has a `.` or `..` part")]
    Dots,
    #[error("the path has a backslash, which is a separator elsewhere")]
    Backslash,
    #[error("the path has a NUL or another control character")]
    Control,
    #[error("`.agora/` is agora's own")]
    Agora,
    #[error("`.git` is git's own: it could run hooks and filters in the worker")]
    Git,
    #[error("the path has {0} bytes, the most is {PATH_BYTES}")]
    TooLong(usize),
    #[error("a part of the path has {0} bytes, the most is {PATH_PART_BYTES}")]
    PartTooLong(usize),
}

impl BundlePath {
    /// Returns the path as a file system without letter case sees it.
    pub(crate) fn folded(&self) -> String {
        self.0.to_lowercase()
    }
}

fn check(text: &str) -> Result<(), PathParseError> {
    if text.is_empty() {
        return Err(PathParseError::Empty);
    }
    if text.chars().any(char::is_control) {
        return Err(PathParseError::Control);
    }
    if text.contains('\\') {
        return Err(PathParseError::Backslash);
    }
    if text.starts_with('/') {
        return Err(PathParseError::Absolute);
    }
    if text.len() > PATH_BYTES {
        return Err(PathParseError::TooLong(text.len()));
    }
    for (place, part) in text.split('/').enumerate() {
        match part {
            "" => return Err(PathParseError::EmptyPart),
            "." | ".." => return Err(PathParseError::Dots),
            // Also `.GIT`: on a file system without letter case it is the same directory.
            part if part.eq_ignore_ascii_case(".git") => return Err(PathParseError::Git),
            part if place == 0 && part.eq_ignore_ascii_case(".agora") => {
                return Err(PathParseError::Agora);
            }
            part if part.len() > PATH_PART_BYTES => return Err(PathParseError::PartTooLong(part.len())),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_are_paths() {
        for text in
            ["a", "a/b.txt", ".claude/skills/x/SKILL.md", ".gitignore", "sub/.agora/x", "...", "größe/ß"]
        {
            assert_eq!(text.parse::<BundlePath>().map(|path| path.to_string()), Ok(text.to_owned()));
        }
    }

    proptest::proptest! {
        #[test]
        fn what_parses_stays_inside_and_is_printed_to_the_letter(text in "[./a\\\\\u{0}-\u{2}é]{0,12}") {
            if let Ok(path) = text.parse::<BundlePath>() {
                let joined = std::path::Path::new("/workspace").join(path.as_str());
                let plain = joined.components().skip(2).all(|part| matches!(part, std::path::Component::Normal(_)));
                proptest::prop_assert!(plain && joined.starts_with("/workspace"));
                proptest::prop_assert_eq!(path.to_string(), text);
            }
        }
    }

    #[test]
    fn what_could_leave_the_workspace_is_refused() {
        let cases = [
            ("", PathParseError::Empty),
            ("../x", PathParseError::Dots),
            ("a/../b", PathParseError::Dots),
            ("./a", PathParseError::Dots),
            ("/abs", PathParseError::Absolute),
            ("a\\b", PathParseError::Backslash),
            ("a//b", PathParseError::EmptyPart),
            ("a/", PathParseError::EmptyPart),
            ("a\0b", PathParseError::Control),
            ("a\nb", PathParseError::Control),
            (".agora/needs_input.json", PathParseError::Agora),
            (".Agora/x", PathParseError::Agora),
            (".git/config", PathParseError::Git),
            ("sub/.GIT/hooks/x", PathParseError::Git),
            (".git", PathParseError::Git),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<BundlePath>(), Err(expected), "{text:?}");
        }
        assert!("x".repeat(256).parse::<BundlePath>().is_err());
        assert!(["x"; 600].join("/").parse::<BundlePath>().is_err());
    }
}
