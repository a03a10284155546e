//! What to do next, for a model: it has tools and no terminal. What only a person can do is said to be theirs.

use agora_core::catalogue::ResolveError;
use agora_engine::{BundleKind, Error, Refusal};

/// Returns what a model can do about a failure, by its tools. `None`: nothing that it could do by itself.
pub(super) fn by_tools(error: &Error) -> Option<Vec<String>> {
    let hint = match error {
        Error::UnknownId { near, .. } if near.is_empty() => {
            "agora_dispatch returned the ids of what you started; agora_questions_list has those of open questions"
        }
        Error::NothingAsked(_) | Error::Answer(Refusal::Unknown(_)) => {
            "agora_questions_list shows what is open"
        }
        Error::Answer(Refusal::AnsweredBefore { .. } | Refusal::Closed { .. }) => {
            "agora_wait or agora_dispatch_describe tells how it went on"
        }
        Error::Request { field: "input", .. } => "agora_subagents_list shows what its input must have",
        Error::Resolve(ResolveError::UnknownName { kind, near, .. }) if near.is_empty() => match kind {
            BundleKind::Subagent => "agora_subagents_list shows what there is",
            BundleKind::Capability => "agora_capabilities_list shows what there is",
            BundleKind::Env => "agora_envs_list shows what there is",
        },
        Error::NoLogin { vendor } => {
            return Some(vec![format!(
                "your user stores a login in a terminal (`agora auth {}`); then dispatch again",
                vendor.name
            )]);
        }
        _ => return None,
    };
    Some(vec![hint.to_owned()])
}

/// Says whose a hint is: one that names a command is the user's to run.
pub(super) fn for_user(hint: String) -> String {
    if hint.contains("`agora ") || hint.contains("`--") { format!("for your user: {hint}") } else { hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_sent_to_its_tools() {
        let unknown = Error::UnknownId { text: "t_9".to_owned(), near: Vec::new() };
        assert!(by_tools(&unknown).unwrap()[0].contains("agora_questions_list"));
        let nothing = Error::NothingAsked("t_9".parse().unwrap());
        assert_eq!(by_tools(&nothing).unwrap(), ["agora_questions_list shows what is open"]);
        assert_eq!(by_tools(&Error::NoHome), None);
    }

    #[test]
    fn what_a_terminal_is_needed_for_is_the_users() {
        assert_eq!(for_user("`agora doctor` shows it".to_owned()), "for your user: `agora doctor` shows it");
        assert_eq!(for_user("give more of it: `t_12`".to_owned()), "give more of it: `t_12`");
    }
}
