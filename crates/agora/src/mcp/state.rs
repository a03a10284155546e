//! The state of a call that ended with a question, which the client carries to the call that brings the answer.
//!
//! It is what anybody could send, so it says nothing that is believed: it is sealed with a key that only this process can make, counts
//! once, for a while, and only for the question and the client that it was made for. A process that starts anew makes another key: the
//! question is in the ledger, and is asked again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agora_core::{ContentHash, QuestionId, Timestamp};
use rmcp::model::{RequestStateCodec, RequestStateError, SealOptions};
use serde::{Deserialize, Serialize};

/// A person may think for a day.
pub(crate) const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// What a state says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) question: QuestionId,
    /// Of the question as it was shown.
    pub(crate) hash: ContentHash,
    nonce: String,
    expires: i64,
}

/// Why a state is not taken. None of it says more than a stranger may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadState {
    /// It was altered, or made for another client or by another process.
    Foreign,
    Expired,
    Used,
}

impl BadState {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Foreign => "the requestState is not one that this server made for you",
            Self::Expired => "the requestState has expired",
            Self::Used => "the requestState was used before",
        }
    }
}

/// Makes states and takes them back.
#[derive(Debug)]
pub(crate) struct States {
    codec: RequestStateCodec,
    /// Those that were taken, until they would have expired.
    used: Mutex<HashMap<String, Timestamp>>,
}

impl States {
    pub(crate) fn new(key: [u8; 32]) -> Result<Self, RequestStateError> {
        Ok(Self { codec: RequestStateCodec::try_new(key)?, used: Mutex::default() })
    }

    /// Seals a question for a client.
    pub(crate) fn seal(
        &self,
        question: &QuestionId,
        hash: ContentHash,
        client: &str,
        nonce: [u8; 16],
        now: Timestamp,
    ) -> String {
        let nonce = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        let expires = now.plus(LIFE).as_millis();
        let asked = Asked { question: question.clone(), hash, nonce, expires };
        let payload = serde_json::to_vec(&asked).unwrap_or_default();
        self.codec.seal_with(&payload, &SealOptions::new().associated_data(client.as_bytes()))
    }

    /// Opens a state, once.
    pub(crate) fn take(&self, sealed: &str, client: &str, now: Timestamp) -> Result<Asked, BadState> {
        let opened: Asked =
            self.codec.open_json_with(sealed, client.as_bytes()).map_err(|_| BadState::Foreign)?;
        if opened.expires <= now.as_millis() {
            return Err(BadState::Expired);
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, expires| expires.as_millis() > now.as_millis());
        match used.insert(opened.nonce.clone(), Timestamp::from_millis(opened.expires)) {
            Some(_) => Err(BadState::Used),
            None => Ok(opened),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_794_787_200_000;

    fn sealed(states: &States) -> String {
        let question = "q_7f3".parse().unwrap();
        states.seal(
            &question,
            ContentHash::of(b"which?"),
            "mcp.claude.1",
            [7; 16],
            Timestamp::from_millis(NOON),
        )
    }

    fn taken(states: &States, sealed: &str, client: &str, later: Duration) -> Result<String, BadState> {
        let now = Timestamp::from_millis(NOON).plus(later);
        states.take(sealed, client, now).map(|asked| asked.question.to_string())
    }

    #[test]
    fn a_state_counts_once() {
        let states = States::new([1; 32]).unwrap();
        let state = sealed(&states);
        assert_eq!(taken(&states, &state, "mcp.claude.1", Duration::ZERO), Ok("q_7f3".to_owned()));
        assert_eq!(taken(&states, &state, "mcp.claude.1", Duration::ZERO), Err(BadState::Used));
    }

    #[test]
    fn a_state_counts_for_a_while() {
        let states = States::new([1; 32]).unwrap();
        let state = sealed(&states);
        assert_eq!(taken(&states, &state, "mcp.claude.1", LIFE), Err(BadState::Expired));
        let almost = LIFE - Duration::from_millis(1);
        assert_eq!(taken(&states, &state, "mcp.claude.1", almost), Ok("q_7f3".to_owned()));
    }

    #[test]
    fn a_state_that_was_altered_or_is_somebody_elses_is_foreign() {
        let states = States::new([1; 32]).unwrap();
        let state = sealed(&states);
        assert_eq!(taken(&states, &state, "mcp.codex.2", Duration::ZERO), Err(BadState::Foreign));
        let other = States::new([2; 32]).unwrap();
        assert_eq!(taken(&other, &state, "mcp.claude.1", Duration::ZERO), Err(BadState::Foreign));
        for at in 0..state.len() {
            let mut altered = state.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            // The last letter of base64 may have bits that mean nothing.
            let same = at + 1 == state.len();
            let took = taken(&states, &altered, "mcp.claude.1", Duration::ZERO);
            assert!(took == Err(BadState::Foreign) || same, "letter {at}: {took:?}");
        }
        for nonsense in ["", "rs1", "rs1..", "rs1.a.b", &"x".repeat(100_000)] {
            assert_eq!(taken(&states, nonsense, "mcp.claude.1", Duration::ZERO), Err(BadState::Foreign));
        }
    }
}
