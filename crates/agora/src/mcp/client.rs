//! Who calls, and what they can do. Both are the client's own words: what follows from them never gives it more than its token does.

use agora_core::Name;
use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, ProtocolVersion};
use rmcp::service::RequestContext;

use super::token::Claims;

/// How a question reaches a person through this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// The call ends with the question, and is made again with the answer.
    InputRequired,
    /// The client is asked while the call goes on.
    Elicitation,
    /// The client shows no forms: the model is told, and asks.
    Plain,
}

/// Whoever made a call.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// As it calls itself, in the letters of a name.
    pub(crate) name: String,
    /// What all its dispatches are labelled with, and which is its own alone as far as the transport can tell clients apart.
    pub(crate) owner: Name,
    /// How many agents stand between it and a person.
    pub(crate) depth: u32,
    pub(crate) asking: Asking,
    /// Whether it may be given a task.
    pub(crate) takes_tasks: bool,
    /// Whether its forms can have lists to choose several from.
    pub(crate) chooses_several: bool,
}

/// What is known of a connection beside what the client says.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    /// The process is one client's: a word that no other has.
    Alone(String),
    /// Requests of many come in, each with a token.
    Shared,
}

impl Client {
    pub(crate) fn of(context: &RequestContext<RoleServer>, connection: &Connection) -> Self {
        let info = context.client_info();
        let name = slug(info.as_ref().map_or("client", |info| &info.name));
        let parts = context.extensions.get::<http::request::Parts>();
        let claims = parts.and_then(|parts| parts.extensions.get::<Claims>());
        let whose = match connection {
            Connection::Alone(word) => word.clone(),
            Connection::Shared => shared(claims, parts),
        };
        let version = context.protocol_version().unwrap_or(ProtocolVersion::V_2025_03_26);
        let capabilities = context.client_capabilities().unwrap_or_default();
        let is_new = version.as_str() >= ProtocolVersion::V_2026_07_28.as_str();
        Self {
            owner: label(&format!("mcp.{name}.{whose}")),
            name,
            depth: claims.map_or(0, |claims| claims.depth),
            asking: match (shows_forms(&capabilities), is_new) {
                (false, _) => Asking::Plain,
                (true, true) => Asking::InputRequired,
                (true, false) => Asking::Elicitation,
            },
            takes_tasks: is_new && capabilities.supports_tasks(),
            chooses_several: version.as_str() >= ProtocolVersion::V_2025_11_25.as_str(),
        }
    }

    /// Returns the door that its user's answers come through.
    pub(crate) fn door(&self) -> String {
        format!("mcp:{}", self.name)
    }

    /// Returns what it is called where it speaks for somebody.
    pub(crate) fn agent(&self) -> String {
        format!("agent:{}", self.name)
    }
}

/// Tells clients of one socket apart: by the token's word, and by the session where the protocol has one.
fn shared(claims: Option<&Claims>, parts: Option<&http::request::Parts>) -> String {
    let word = claims.map_or("anybody", |claims| &claims.name);
    let session = parts.and_then(|parts| parts.headers.get("mcp-session-id")?.to_str().ok());
    match session {
        Some(session) => format!("{}.{}", slug(word), slug(session).chars().take(12).collect::<String>()),
        None => slug(word),
    }
}

/// A client that names neither form nor URL means forms: that was all there was.
fn shows_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|able| able.form.is_some() || able.url.is_none())
}

/// Takes of a text what a label can have.
fn slug(text: &str) -> String {
    let letter = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' }
    };
    let text: String = text.chars().take(40).map(letter).collect();
    let text = text.trim_matches('-');
    if text.is_empty() { "client".to_owned() } else { text.to_owned() }
}

fn label(text: &str) -> Name {
    #[expect(
        clippy::expect_used,
        reason = "it begins with a letter, is short, and has only letters, digits, `-` and `.`"
    )]
    text.parse().expect("a slug is a name")
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ElicitationCapability, FormElicitationCapability, UrlElicitationCapability};

    use super::*;

    #[test]
    fn whatever_a_client_calls_itself_is_a_label() {
        for text in ["claude-code", "", "Ünïcode ☃", "../../etc", &"x".repeat(500), "a b\nc"] {
            let name = slug(text);
            assert!(label(&format!("mcp.{name}.{name}")).as_str().starts_with("mcp."), "{text}");
        }
        assert_eq!(slug("Claude Code (beta)"), "claude-code--beta");
    }

    #[test]
    fn forms_are_shown_by_who_says_so_and_by_who_says_nothing_else() {
        let able = |able: ElicitationCapability| {
            let mut capabilities = ClientCapabilities::default();
            capabilities.elicitation = Some(able);
            shows_forms(&capabilities)
        };
        assert!(able(ElicitationCapability::new()));
        assert!(able(ElicitationCapability::new().with_form(FormElicitationCapability::new())));
        assert!(!able(ElicitationCapability::new().with_url(UrlElicitationCapability::new())));
        assert!(!shows_forms(&ClientCapabilities::default()));
    }
}
