//! How somebody wants to be told.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A way to tell somebody: `desktop`, or `command:` and a program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// What the desktop offers: `notify-send`.
    Desktop,
    /// A program and its arguments. Never empty.
    Command(Vec<String>),
}

/// Says why a text is no way to tell somebody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WayError {
    #[error("`{0}` is neither `desktop` nor `command:PROGRAM …`")]
    Unknown(String),
    #[error("`command:` names no program")]
    Empty,
    /// A carrier runs in no directory of anybody's.
    #[error("`{0}` is neither the name of a program on the path nor an absolute path")]
    Relative(String),
    #[error("a quote in `{0}` is not closed")]
    Unclosed(String),
}

impl Way {
    /// Names it without its arguments, which may hold anything.
    pub fn name(&self) -> String {
        match self {
            Self::Desktop => "desktop".to_owned(),
            Self::Command(words) => {
                format!("command:{}", words.first().map(String::as_str).unwrap_or_default())
            }
        }
    }
}

impl FromStr for Way {
    type Err = WayError;

    fn from_str(text: &str) -> Result<Self, WayError> {
        match (text, text.strip_prefix("command:")) {
            ("desktop", _) => Ok(Self::Desktop),
            (_, Some(line)) => {
                let words = words(line).ok_or_else(|| WayError::Unclosed(line.to_owned()))?;
                match words.first().map(String::as_str) {
                    None | Some("") => Err(WayError::Empty),
                    Some(program) if program.contains('/') && !program.starts_with('/') => {
                        Err(WayError::Relative(program.to_owned()))
                    }
                    Some(_) => Ok(Self::Command(words)),
                }
            }
            _ => Err(WayError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Splits a line into words as a shell does, and does nothing else that a shell would: quotes and backslashes keep a word together,
/// and no variable, pattern or pipe means anything. `None`: a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) => {
                let next = letters.next()?;
                let text = word.get_or_insert_default();
                // Within double quotes a backslash is one, but before what would mean something there.
                if quote.is_some() && !matches!(next, '"' | '\\') {
                    text.push('\\');
                }
                text.push(next);
            }
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Result<Way, WayError> {
        Ok(Way::Command(words.iter().map(|&word| word.to_owned()).collect()))
    }

    #[test]
    fn a_way_is_the_desktop_or_a_command_whose_words_are_split_without_a_shell() {
        let way = |text: &str| text.parse::<Way>();
        assert_eq!(way("desktop"), Ok(Way::Desktop));
        assert_eq!(way("command:curl -d @- https://x"), command(&["curl", "-d", "@-", "https://x"]));
        assert_eq!(
            way(r#"command:say "it's here" a\ b '' '$HOME'"#),
            command(&["say", "it's here", "a b", "", "$HOME"])
        );
        assert_eq!(way(r#"command:a "\d\"\\" ; b|c *"#), command(&["a", r#"\d"\"#, ";", "b|c", "*"]));
        assert_eq!(way("mail"), Err(WayError::Unknown("mail".into())));
        assert_eq!(way("command: "), Err(WayError::Empty));
        assert_eq!(way("command:''"), Err(WayError::Empty));
        assert_eq!(way("command:./post x"), Err(WayError::Relative("./post".into())));
        assert_eq!(way("command:a 'b"), Err(WayError::Unclosed("a 'b".into())));
        assert_eq!(way("command:a b\\"), Err(WayError::Unclosed("a b\\".into())));
    }

    #[test]
    fn its_name_is_without_its_arguments() {
        assert_eq!("command:post --token abc".parse::<Way>().unwrap().to_string(), "command:post");
    }
}
