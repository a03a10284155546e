//! Tokens for the door over HTTP: who has one is let in, as whom and how deep it says. Nothing is stored: a key of the engine's tells
//! those that this home made, and each of them ends by itself.

use std::time::Duration;

use agora_core::time::Timestamp;
use agora_core::{DispatchId, Name};
use rmcp::model::{RequestStateCodec, RequestStateError};
use serde::{Deserialize, Serialize};

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// For whom it was made, in the maker's words.
    pub(crate) name: Name,
    /// How many agents stand between its holder and a person. What its holder dispatches stands one deeper.
    pub(crate) depth: u32,
    /// The dispatch that it was made for, where agora made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<DispatchId>,
    expires: i64,
}

impl Claims {
    pub(crate) fn new(name: Name, depth: u32, expires: Timestamp) -> Self {
        Self { name, depth, holder: None, expires: expires.as_millis() }
    }

    /// Returns what a dispatch of its holder may say. It ends when this one does.
    #[must_use]
    pub(crate) fn one_deeper(&self, holder: DispatchId) -> Self {
        Self { depth: self.depth.saturating_add(1), holder: Some(holder), ..self.clone() }
    }
}

/// Makes tokens, and knows them again.
#[derive(Debug)]
pub(crate) struct Tokens(RequestStateCodec);

impl Tokens {
    pub(crate) fn new(key: [u8; 32]) -> Result<Self, RequestStateError> {
        RequestStateCodec::try_new(key).map(Self)
    }

    pub(crate) fn issue(&self, name: Name, depth: u32, life: Duration, now: Timestamp) -> String {
        self.seal(&Claims::new(name, depth, now.plus(life)))
    }

    pub(crate) fn seal(&self, claims: &Claims) -> String {
        self.0.seal(&serde_json::to_vec(claims).unwrap_or_default())
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
        let token = tokens.issue("ci".parse().unwrap(), 1, Duration::from_secs(60), now);
        let claims = tokens.check(&token, now).unwrap();
        assert_eq!((claims.name.as_str(), claims.depth), ("ci", 1));
        assert_eq!(tokens.check(&token, now.plus(Duration::from_secs(60))), None);
        assert_eq!(Tokens::new([2; 32]).unwrap().check(&token, now), None);
        for wrong in ["", "Bearer", &token[..token.len() - 4], &format!("{token}x")] {
            assert_eq!(tokens.check(wrong, now), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_handed_on_is_one_deeper_and_ends_no_later() {
        let tokens = Tokens::new([1; 32]).unwrap();
        let now = Timestamp::from_millis(1_794_787_200_000);
        let end = now.plus(Duration::from_secs(60));
        let claims = Claims::new("planner".parse().unwrap(), 1, end);
        let dispatch: DispatchId = "d_7f3".parse().unwrap();
        let handed_on = tokens.seal(&claims.one_deeper(dispatch.clone()));
        let expected = Claims { depth: 2, holder: Some(dispatch), ..claims };
        assert_eq!(tokens.check(&handed_on, now), Some(expected));
        assert_eq!(tokens.check(&handed_on, end), None);
    }
}
