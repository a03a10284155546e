//! Who calls, and what they can do. What they may do follows from how they came in: by a process of their own, or with a token. What they
//! say of themselves never gives them more.

use agora_core::Name;
use agora_core::answer::Answerer;
use agora_core::limits::NAME_LENGTH;
use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, ProtocolVersion};
use rmcp::service::RequestContext;

use super::token::Claims;

/// What agora's own labels begin with. Nobody else may use them: by them threads are told apart and counted.
const OWN_LABELS: [&str; 2] = ["mcp.", "depth-"];

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
    /// What all its dispatches are labelled with. Whatever it calls itself, this is the process or the token that it came with.
    pub(crate) owner: Name,
    /// What its dispatches are counted by: an agent's are counted with those of whoever it got its token from.
    pub(crate) counted_as: Name,
    /// How many agents stand between it and a person.
    pub(crate) depth: u32,
    pub(crate) asking: Asking,
    /// Whether it may be given a task.
    pub(crate) takes_tasks: bool,
    /// Whether its forms can have lists to choose several from.
    pub(crate) chooses_several: bool,
    claims: Option<Claims>,
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
        let parts = context.extensions.get::<http::request::Parts>();
        let claims = parts.and_then(|parts| parts.extensions.get::<Claims>()).cloned();
        let (owner, counted_as, depth) = standing(connection, claims.as_ref());
        let version = context.protocol_version().unwrap_or(ProtocolVersion::V_2025_03_26);
        let capabilities = context.client_capabilities().unwrap_or_default();
        let is_new = version.as_str() >= ProtocolVersion::V_2026_07_28.as_str();
        Self {
            name: slug(info.as_ref().map_or("client", |info| &info.name)),
            owner,
            counted_as,
            depth,
            // An agent has nobody who could fill in a form: whatever it says that it can show, it would fill it in itself.
            asking: match (depth == 0 && shows_forms(&capabilities), is_new) {
                (false, _) => Asking::Plain,
                (true, true) => Asking::InputRequired,
                (true, false) => Asking::Elicitation,
            },
            takes_tasks: is_new && capabilities.supports_tasks(),
            chooses_several: version.as_str() >= ProtocolVersion::V_2025_11_25.as_str(),
            claims,
        }
    }

    /// Tells whether it is an agent that was dispatched, and not a program of a person.
    pub(crate) fn is_agent(&self) -> bool {
        self.depth > 0
    }

    /// Returns what its token says, where it came with one.
    pub(crate) fn claims(&self) -> Option<&Claims> {
        self.claims.as_ref()
    }

    /// Returns the labels that a dispatch of this client has.
    pub(crate) fn labels(&self) -> Vec<String> {
        let mut labels = vec![self.owner.to_string()];
        if self.counted_as != self.owner {
            labels.push(self.counted_as.to_string());
        }
        if self.is_agent() {
            labels.push(format!("depth-{}", self.depth));
        }
        labels
    }

    /// Returns who has answered when a form of this client comes back: the person before it. Where there is none, it is the agent.
    pub(crate) fn answers(&self, person: String) -> Answerer {
        match self.dispatched() {
            Some(agent) => Answerer::new(agent, self.door()),
            None => Answerer::new(person, self.door()),
        }
    }

    /// Returns who has answered when the model says something: the person whose words it passes on. An agent that was dispatched has
    /// nobody's words but its own.
    pub(crate) fn relays(&self, person: String) -> Answerer {
        match self.dispatched() {
            Some(agent) => Answerer::new(agent, self.door()),
            None => Answerer::new(person, self.door()).relayed_by(format!("agent:{}", self.name)),
        }
    }

    /// Returns the door that its user's answers come through.
    fn door(&self) -> String {
        format!("mcp:{}", self.name)
    }

    /// Returns what a dispatched agent is called, by its token: the dispatch that it runs in, else whom the token was made for.
    fn dispatched(&self) -> Option<String> {
        self.is_agent().then(|| match &self.claims {
            Some(Claims { holder: Some(dispatch), .. }) => format!("agent:{dispatch}"),
            Some(Claims { name, .. }) => format!("agent:{name}"),
            None => "agent:unknown".to_owned(),
        })
    }
}

/// Tells whether a label is one of those that agora gives.
pub(crate) fn is_own_label(label: &str) -> bool {
    let label = label.to_ascii_lowercase();
    OWN_LABELS.iter().any(|own| label.starts_with(own))
}

/// Returns what whoever has a token is known by. An agent is not known by the name of a person's token, also when the two are the same.
pub(crate) fn owner(claims: &Claims) -> Name {
    claims.holder.as_ref().map_or_else(|| family(claims), |dispatch| label(&format!("mcp.agent.{dispatch}")))
}

/// Returns what is counted together: a token with those that agora made from it.
fn family(Claims { name, depth, .. }: &Claims) -> Name {
    label(&if *depth > 0 { format!("mcp.agent.{name}") } else { format!("mcp.token.{name}") })
}

/// Returns by what a client's dispatches are known and counted, and how deep it stands.
fn standing(connection: &Connection, claims: Option<&Claims>) -> (Name, Name, u32) {
    let alone = |owner: Name, depth| (owner.clone(), owner, depth);
    match (connection, claims) {
        (Connection::Alone(word), _) => alone(label(&format!("mcp.process.{word}")), 0),
        (Connection::Shared, Some(claims)) => (owner(claims), family(claims), claims.depth),
        // Nobody comes this way: the door asks for a token. If one did, they would be nobody's.
        (Connection::Shared, None) => alone(label("mcp.nobody"), u32::MAX),
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
    let text: String = text.chars().take(NAME_LENGTH).collect();
    #[expect(
        clippy::expect_used,
        reason = "it begins with a letter, is short, and is made of names and words of ours"
    )]
    text.parse().expect("it is a name")
}

#[cfg(test)]
mod tests {
    use agora_core::time::Timestamp;
    use rmcp::model::{ElicitationCapability, FormElicitationCapability, UrlElicitationCapability};

    use super::*;

    #[test]
    fn whatever_a_client_calls_itself_is_a_label() {
        for text in ["claude-code", "", "Ünïcode ☃", "../../etc", &"x".repeat(500), "a b\nc"] {
            assert!(slug(text).parse::<Name>().is_ok(), "{text}");
        }
        assert_eq!(slug("Claude Code (beta)"), "claude-code--beta");
    }

    #[test]
    fn what_a_client_is_follows_from_how_it_came_in() {
        let stands = |connection: &Connection, claims: Option<&Claims>| {
            let (owner, counted_as, depth) = standing(connection, claims);
            (owner.to_string(), counted_as.to_string(), depth)
        };
        let own = |label: &str, depth| (label.to_owned(), label.to_owned(), depth);
        assert_eq!(stands(&Connection::Alone("7-12".to_owned()), None), own("mcp.process.7-12", 0));
        let planner = Claims::new("planner".parse().unwrap(), 1, Timestamp::from_millis(0));
        assert_eq!(stands(&Connection::Shared, Some(&planner)), own("mcp.agent.planner", 1));
        let person = Claims::new("planner".parse().unwrap(), 0, Timestamp::from_millis(0));
        assert_eq!(stands(&Connection::Shared, Some(&person)), own("mcp.token.planner", 0));
        let below = planner.one_deeper("d_7f3".parse().unwrap());
        let labels = ("mcp.agent.d_7f3".to_owned(), "mcp.agent.planner".to_owned(), 2);
        assert_eq!(stands(&Connection::Shared, Some(&below)), labels);
        assert_eq!(stands(&Connection::Shared, None).2, u32::MAX, "nobody is trusted with nothing");
        let longest = Claims::new("x".repeat(NAME_LENGTH).parse().unwrap(), 1, Timestamp::from_millis(0));
        assert_eq!(stands(&Connection::Shared, Some(&longest)).0.len(), NAME_LENGTH);
    }

    #[test]
    fn labels_of_agoras_own_are_not_to_be_had() {
        for own in ["mcp.token.planner", "MCP.process.1-2", "depth-0", "Depth-7"] {
            assert!(is_own_label(own), "{own}");
        }
        for free in ["nightly", "mcp", "mcp-nightly", "depth", "in-depth-1"] {
            assert!(!is_own_label(free), "{free}");
        }
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
