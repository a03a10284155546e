//! Tokens for the door over HTTP: who has one is let in, as whom and how deep it says. Nothing is stored: a key of the engine's tells
//! those that this home made, and each of them ends by itself.

use std::time::Duration;

use agora_core::time::Timestamp;
use rmcp::model::{RequestStateCodec, RequestStateError};
use serde::{Deserialize, Serialize};

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// For whom it was made, in the maker's words.
    pub(crate) name: String,
    /// How many agents stand between its holder and a person. What its holder dispatches stands one deeper.
    pub(crate) depth: u32,
    expires: i64,
}

/// Makes tokens, and knows them again.
#[derive(Debug)]
pub(crate) struct Tokens(RequestStateCodec);

impl Tokens {
    pub(crate) fn new(key: [u8; 32]) -> Result<Self, RequestStateError> {
        RequestStateCodec::try_new(key).map(Self)
    }

    pub(crate) fn issue(&self, name: &str, depth: u32, life: Duration, now: Timestamp) -> String {
        let claims = Claims { name: name.to_owned(), depth, expires: now.plus(life).as_millis() };
        self.0.seal(&serde_json::to_vec(&claims).unwrap_or_default())
    }

    /// Returns what a token says that this home made and that has not ended. Compared in constant time.
    pub(crate) fn check(&self, token: &str, now: Timestamp) -> Option<Claims> {
        let claims: Claims = self.0.open_json(token).ok()?;
        (claims.expires > now.as_millis()).then_some(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_home_and_its_time() {
        let tokens = Tokens::new([1; 32]).unwrap();
        let now = Timestamp::from_millis(1_794_787_200_000);
        let token = tokens.issue("ci", 1, Duration::from_secs(60), now);
        let claims = tokens.check(&token, now).unwrap();
        assert_eq!((claims.name.as_str(), claims.depth), ("ci", 1));
        assert_eq!(tokens.check(&token, now.plus(Duration::from_secs(60))), None);
        assert_eq!(Tokens::new([2; 32]).unwrap().check(&token, now), None);
        for wrong in ["", "Bearer", &token[..token.len() - 4], &format!("{token}x")] {
            assert_eq!(tokens.check(wrong, now), None, "{wrong}");
        }
    }
}
