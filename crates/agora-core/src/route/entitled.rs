//! Who may answer. One function, in front of every door.

use serde::{Deserialize, Serialize};

use super::{Party, PartyKind, Terms};
use crate::answer::Answerer;
use crate::id::ThreadId;
use crate::question::{Item, Question};
use crate::state::Thread;

/// What agents may do about questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentsMay {
    /// Nothing: a person answers by a door of their own.
    Refuse,
    /// Pass on what a person said.
    #[default]
    Relay,
    /// Answer themselves as well.
    Allow,
}

/// Says why somebody's answer does not count, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEntitled {
    #[error("an agent never answers its own question")]
    Asker,
    #[error("only a person may answer it, by a door of their own")]
    HumansOnly,
    #[error("answers by agents are refused here, also those that they pass on (`answers.agents`)")]
    AgentsRefused,
    #[error("an agent may pass on what a person said, and not answer itself (`answers.agents`)")]
    RelayOnly,
    #[error("they are not among those who may")]
    NotNamed,
    #[error("who answers is neither `user:NAME` nor `agent:NAME`")]
    Nobody,
}

/// Tells whether somebody may answer, or decline, a question of a thread.
pub fn entitled(
    (id, thread): (&ThreadId, &Thread),
    (question, terms): (&Question, &Terms),
    by: &Answerer,
    agents: AgentsMay,
) -> Result<(), NotEntitled> {
    let mut speakers = [Some(&by.principal), by.relayed_by.as_ref()].into_iter().flatten();
    if speakers.any(|name| is_asker(id, thread, name)) {
        return Err(NotEntitled::Asker);
    }
    let who: Party = by.principal.parse().map_err(|_| NotEntitled::Nobody)?;
    let own_words = match who.kind() {
        PartyKind::User => false,
        PartyKind::Agent => true,
        PartyKind::Group => return Err(NotEntitled::Nobody),
    };
    if own_words || by.relayed_by.is_some() {
        if question.items().iter().any(Item::is_for_humans) {
            return Err(NotEntitled::HumansOnly);
        }
        match agents {
            AgentsMay::Refuse => return Err(NotEntitled::AgentsRefused),
            AgentsMay::Relay if own_words => return Err(NotEntitled::RelayOnly),
            AgentsMay::Relay | AgentsMay::Allow => {}
        }
    }
    // An agent that may answer itself does so for whoever dispatched, where that person may, or where it is named.
    let for_owner = own_words && terms.owner.as_ref().is_some_and(|owner| terms.names(owner));
    let anybody = terms.may_answer.is_empty();
    if anybody || for_owner || terms.names(&who) { Ok(()) } else { Err(NotEntitled::NotNamed) }
}

/// Tells whether a name is that of the thread, or of an agent that runs in it.
fn is_asker(id: &ThreadId, thread: &Thread, name: &str) -> bool {
    let agent = name.strip_prefix("agent:").unwrap_or(name);
    let thread_of = name.strip_prefix("thread:").unwrap_or(agent);
    thread_of == id.as_str() || thread.dispatches().iter().any(|(dispatch, _)| dispatch.as_str() == agent)
}

#[cfg(test)]
#[path = "entitled_tests.rs"]
mod tests;
