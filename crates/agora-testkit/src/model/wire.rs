//! From a turn to bytes, on the wire that the agent speaks.

use serde_json::Value;

use super::request::Request;
use super::script::{Cut, Refusal, Reply};
use super::{anthropic, openai};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Anthropic,
    OpenAi,
}

/// A reply, as the client wants it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// Each with its empty line at the end.
    Events(Vec<String>),
    Document(String),
}

impl Wire {
    /// Returns the wire of a call of the model, and `None` for anything else.
    pub(super) fn of(method: &str, path: &str) -> Option<Self> {
        match (method, path) {
            ("POST", "/v1/messages") => Some(Self::Anthropic),
            ("POST", "/v1/responses") => Some(Self::OpenAi),
            _ => None,
        }
    }

    /// Returns the reply. The number makes its ids differ from those of other replies.
    pub(super) fn payload(self, reply: &Reply, request: &Request, number: u64) -> Payload {
        // Claude's last try, after streams that broke, is one without.
        if request.body["stream"] != true {
            let document = match self {
                Self::Anthropic => anthropic::message(reply, request, number),
                Self::OpenAi => openai::response(reply, request, number),
            };
            return Payload::Document(document.to_string());
        }
        let events = match self {
            Self::Anthropic => anthropic::events(reply, request, number),
            Self::OpenAi => openai::events(reply, request, number),
        };
        Payload::Events(events.iter().map(event_text).collect())
    }

    pub(super) fn error(self, refusal: &Refusal, number: u64) -> Value {
        match self {
            Self::Anthropic => anthropic::error(refusal, number),
            Self::OpenAi => openai::error(refusal),
        }
    }
}

fn event_text(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

impl Payload {
    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Events(_) => "text/event-stream",
            Self::Document(_) => "application/json",
        }
    }

    pub(super) fn pieces(&self) -> Vec<&[u8]> {
        match self {
            Self::Events(events) => events.iter().map(String::as_bytes).collect(),
            Self::Document(document) => vec![document.as_bytes()],
        }
    }

    /// Returns what comes through before the cut.
    pub(super) fn pieces_until(&self, cut: Cut) -> Vec<&[u8]> {
        let mut pieces = self.pieces();
        match cut {
            Cut::Events(count) => pieces.truncate(count.min(pieces.len().saturating_sub(1))),
            Cut::Bytes(count) => {
                let all: usize = pieces.iter().map(|piece| piece.len()).sum();
                let mut left = count.min(all.saturating_sub(1));
                for piece in &mut pieces {
                    *piece = &piece[..left.min(piece.len())];
                    left -= piece.len();
                }
            }
        }
        pieces
    }
}
