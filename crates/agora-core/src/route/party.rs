//! Parties: somebody, or several, by a name that answers and routes share.

use std::fmt;
use std::str::FromStr;

use crate::text::serde_as_text;

/// Longer than any name of a user that a machine gives.
const LONGEST: usize = 128;

/// What kind of party it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartyKind {
    User,
    Group,
    /// A program that speaks with a model, such as an orchestrator.
    Agent,
}

impl PartyKind {
    fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Agent => "agent",
        }
    }
}

/// Somebody by name: `user:ann`, `group:leads`, `agent:claude-code`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Party {
    kind: PartyKind,
    name: String,
}

/// Says why a text names nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartyError {
    #[error("`{0}` is not somebody such as `user:ann` or `group:leads`")]
    Form(String),
    #[error("a name has 1 to {LONGEST} characters, no blanks and no control characters")]
    Name,
}

impl Party {
    pub fn kind(&self) -> PartyKind {
        self.kind
    }

    /// Returns the name without its kind.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.word(), self.name)
    }
}

impl FromStr for Party {
    type Err = PartyError;

    fn from_str(text: &str) -> Result<Self, PartyError> {
        let form = || PartyError::Form(text.chars().take(LONGEST).collect());
        let (word, name) = text.split_once(':').ok_or_else(form)?;
        let kinds = [PartyKind::User, PartyKind::Group, PartyKind::Agent];
        let kind = kinds.into_iter().find(|kind| kind.word() == word).ok_or_else(form)?;
        let fits =
            (1..=LONGEST).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c.is_whitespace());
        if fits { Ok(Self { kind, name: name.to_owned() }) } else { Err(PartyError::Name) }
    }
}

serde_as_text!(Party);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_reads_back_and_nothing_else_is_one() {
        for text in ["user:ann", "group:leads", "agent:claude-code", "user:ann@example.com"] {
            assert_eq!(text.parse::<Party>().unwrap().to_string(), text);
        }
        for wrong in ["ann", "user:", "user:a b", "command:lookup", "thread:t_1", "user:a\nb", ""] {
            assert!(wrong.parse::<Party>().is_err(), "{wrong:?}");
        }
        assert!(format!("user:{}", "x".repeat(129)).parse::<Party>().is_err());
    }
}
