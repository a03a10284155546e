//! A call that was denied, both ways: from the denial to a question, and from the answer to a rule.

use agora_core::answer::Reply;
use agora_core::question::Question;
use agora_core::sentinel::{self, Malformed};
use serde_json::{Value, json};

use crate::needs_input::resume::Answered;

/// What a person reads of a call.
const LONGEST_INPUT: usize = 8 * 1024;

const ALLOW: &str = "Allow this call";

/// Marks a session that waits for leave, rather than for the answer to a tool call.
pub(super) const KEY: &str = "permission";

/// Makes a question of a call that was denied.
pub(super) fn question(denial: &Value) -> Result<Question, Malformed> {
    let tool = denial["tool_name"].as_str().unwrap_or("a tool");
    // Said whole or not at all: a cut could leave half of a secret, which nobody would recognise any more.
    let input = denial["tool_input"].to_string();
    let input =
        if input.len() <= LONGEST_INPUT { input } else { format!("an input of {} bytes", input.len()) };
    let question = json!({
        "question": format!("The agent is not allowed to use `{tool}` here. May it, this once?"),
        "header": "Permission",
        "options": [
            {"label": ALLOW, "description": "The agent may make exactly this call, and goes on."},
            {"label": "Go on without it", "description": "The agent looks for another way, or says what is missing."},
        ],
        "allowOther": true,
        "human": true,
        "context": format!("It called `{tool}` with {input}"),
    });
    sentinel::parse(question.to_string().as_bytes())
}

/// Returns the rule for the call, if the answer allows it.
pub(super) fn rule(denial: &Value, answered: &Answered) -> Option<String> {
    let allowed = answered.replies.values().any(|reply| *reply == Reply::One(ALLOW.to_owned()));
    let tool = denial["tool_name"].as_str().filter(|_| allowed)?;
    Some(match denial["tool_input"]["command"].as_str() {
        Some(command) => format!("{tool}({command})"),
        None => tool.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use agora_core::answer::Answerer;
    use agora_core::time::Timestamp;

    use super::*;

    #[test]
    fn only_the_answer_that_allows_it_makes_a_rule_for_that_call() {
        let denial = json!({"tool_name": "Bash", "tool_input": {"command": "git push"}});
        let question = question(&denial).unwrap();
        assert!(question.items()[0].is_for_humans());
        assert!(question.context().unwrap().contains("git push"));
        let rule = |reply: &str, denial: &Value| {
            let answered = Answered {
                question_id: "q_1".parse().unwrap(),
                question: question.clone(),
                replies: serde_json::from_value(json!({"q1": reply})).unwrap(),
                by: Answerer::new("user:ann", "cli"),
                at: Timestamp::from_millis(0),
            };
            super::rule(denial, &answered)
        };
        assert_eq!(rule(ALLOW, &denial).as_deref(), Some("Bash(git push)"));
        assert_eq!(rule(ALLOW, &json!({"tool_name": "WebFetch"})).as_deref(), Some("WebFetch"));
        assert_eq!(rule("Go on without it", &denial), None);
        assert_eq!(rule("allow", &denial), None);
    }
}
