//! The ids of dispatches, threads and questions: distinct types, told apart by their first letters.

use crate::text::checked_text;

/// Bytes of randomness in a made id: 80 bits, so that two never meet, in 16 characters that a person can still copy.
pub const ENTROPY: usize = 10;

/// No `i`, `l`, `o`, `u`: ids are read aloud and typed.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// An id is part of a directory's name; 64 characters leave room for what is added to it.
const LONGEST: usize = 64;

/// Says why a text is not an id of that type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdParseError {
    #[error("a {what} id begins with `{prefix}`")]
    Prefix { what: &'static str, prefix: &'static str },
    #[error("a {what} id has 1 to 64 characters after `{prefix}`, this one has {length}")]
    Length { what: &'static str, prefix: &'static str, length: usize },
    #[error("a {what} id has only a-z, 0-9, `-` and `_`, not {character:?}")]
    Character { what: &'static str, character: char },
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        checked_text!($(#[$doc])* $name, IdParseError, |text| check(text, $what, $prefix));

        impl $name {
            /// Makes an id from random bytes, which the caller draws.
            pub fn from_entropy(entropy: [u8; ENTROPY]) -> Self {
                Self(format!("{}{}", $prefix, encode(entropy)))
            }
        }
    };
}

id!(
    /// One run of one subagent in one worker.
    DispatchId, "d_", "dispatch"
);
id!(
    /// One piece of work: a first dispatch and every later one that continued it.
    ThreadId, "t_", "thread"
);
id!(
    /// What one pause asked.
    QuestionId, "q_", "question"
);

fn check(text: &str, what: &'static str, prefix: &'static str) -> Result<(), IdParseError> {
    let rest = text.strip_prefix(prefix).ok_or(IdParseError::Prefix { what, prefix })?;
    let allowed = |character: &char| matches!(character, 'a'..='z' | '0'..='9' | '-' | '_');
    if let Some(character) = rest.chars().find(|character| !allowed(character)) {
        return Err(IdParseError::Character { what, character });
    }
    if rest.is_empty() || rest.len() > LONGEST {
        return Err(IdParseError::Length { what, prefix, length: rest.len() });
    }
    Ok(())
}

/// Writes 80 bits as 16 characters of five bits each.
fn encode(entropy: [u8; ENTROPY]) -> String {
    let bits = entropy.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    (0..16).rev().map(|place| char::from(ALPHABET[(bits >> (place * 5) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_id_parses_back_and_keeps_every_bit() {
        let id = DispatchId::from_entropy([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(id.as_str(), "d_zw00000000000001");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    proptest::proptest! {
        #[test]
        fn parse_and_display_are_inverse_and_no_two_meet(one: [u8; ENTROPY], other: [u8; ENTROPY]) {
            let id = ThreadId::from_entropy(one);
            proptest::prop_assert_eq!(id.to_string().parse(), Ok(id.clone()));
            proptest::prop_assert_eq!(one == other, id == ThreadId::from_entropy(other));
        }
    }

    #[test]
    fn an_id_of_another_type_is_refused() {
        assert_eq!("t_1".parse::<DispatchId>(), Err(IdParseError::Prefix { what: "dispatch", prefix: "d_" }));
        assert!("q_".parse::<QuestionId>().is_err());
        assert!("t_../x".parse::<ThreadId>().is_err());
        assert!("t_A".parse::<ThreadId>().is_err(), "a file system may not tell `A` from `a`");
        assert!(format!("t_{}", "x".repeat(65)).parse::<ThreadId>().is_err());
    }
}
