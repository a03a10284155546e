//! What an agent is told about asking: a skill to look up, and a few lines that it always sees.

use agora_core::bundle::Ask;
use agora_core::overlay::HELPER;
use agora_core::sentinel;

use crate::sandbox::wall::Inside;

/// Returns the lines for the system prompt. `never` gets none: there is nobody to ask.
pub(crate) fn lines(ask: Ask, inside: &Inside) -> Option<String> {
    let when = match ask {
        Ask::Never => return None,
        Ask::WhenBlocked => {
            "Ask only when you are blocked: the task can be read in ways that lead to different work, a choice is not yours to make, \
             or going on wrongly would be costly to undo. Do not ask what the repository, the task or a quick check can tell you."
        }
        Ask::Eager => {
            "Ask early: whenever the task leaves a choice open that its owner might see differently, ask before you build on a guess. \
             Do not ask what the repository, the task or a quick check can tell you."
        }
    };
    let path = inside.sentinel();
    Some(format!(
        r#"# Asking a question (agora)
You run without anybody at the keyboard, but you can ask. {when}
To ask, write one JSON file and end your turn at once, without guessing an answer:
`{path}`
{{"question": "Rewrite A or B?", "options": [{{"label": "A", "description": "what choosing A implies"}}, {{"label": "B", "description": "…"}}],
 "context": "why you ask", "partial_state": {{"considered": [], "ruled_out": [], "tentative": "", "remaining": []}}}}
Give 2 to 4 options, each with what it implies; leave `options` out for free text. Several questions: {{"questions": [{{"id": "…", "question": "…", "options": […]}}, …]}}.
Put all you have worked out into `partial_state`: what you considered, ruled out, tentatively concluded, and what remains.
You will be started again with the answer (`.agora/resume.json`), in this same workspace. Do not redo what is done.
"#,
        path = path.display()
    ))
}

/// Returns the skill: the same, with all its fields, for when the agent looks it up.
pub(crate) fn skill() -> String {
    format!(
        r#"---
name: {HELPER}
description: Ask the person or system that dispatched you a question and stop, instead of guessing. Use when the task is ambiguous, a decision is not yours, or you were denied something that you need.
---

# Ask, and stop

Nobody watches this session, so a question in your reply is not seen until you have ended. Write it to
`{path}` in the workspace, then end your turn. Nothing runs while somebody thinks. You are started again with the answer, in the
same workspace.

## When

- The task can be read in two ways that lead to different work.
- A decision belongs to somebody else: a public interface, data that would be lost, money, security.
- You were denied a tool or a file that the task needs.

Not for what you can find out, for style, or for leave to go on with what you were told to do.

## The file

```json
{{
  "question": "Should I rewrite function A or function B?",
  "header": "Rewrite",
  "options": [
    {{"label": "A", "description": "Keeps the callers in billing as they are."}},
    {{"label": "B", "description": "Simpler, but three callers change."}}
  ],
  "context": "Both have the same signature but different call sites.",
  "partial_state": {{"considered": ["A", "B", "C"], "ruled_out": ["C: unused"], "tentative": "A", "remaining": ["tests"]}}
}}
```

- `question` is required. `options` are texts, or objects with `label` and `description`: 2 to 4, each with what it implies. Without options
  the answer is free text.
- `multiSelect` (several may be chosen), `allowOther` (something else may be said), `default` (a valid answer, used only where the
  dispatcher allows it), `human` (only a person may answer), `header` (a word or two).
- Several at once: `"questions": [{{"id": "db", "question": "…", "options": […]}}, …]` instead of `question`.
- `partial_state` is any JSON and comes back to you: what you considered and ruled out, what you tentatively concluded, what remains. The whole
  file has at most 1 MiB.

## Afterwards

`.agora/resume.json` holds `answer` (one question) or `answers` (by id), and your `partial_state`. Go on from there; do not redo what is done.
Files for whoever dispatched you, beside your changes to the workspace, go to `.agora/outputs/`.
"#,
        path = sentinel::PATH
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_few_and_name_the_true_path() {
        let some = std::path::PathBuf::new();
        let workspace =
            &Inside { work: "/some/space".into(), home: some.clone(), tmp: some.clone(), aids: some };
        let lines = lines(Ask::WhenBlocked, workspace).unwrap();
        assert!(lines.contains("`/some/space/.agora/needs_input.json`"));
        assert!((8..=12).contains(&lines.lines().count()), "{}", lines.lines().count());
        assert_eq!(super::lines(Ask::Never, workspace), None);
        assert_ne!(super::lines(Ask::Eager, workspace), Some(lines));
    }

    #[test]
    fn what_is_taught_is_what_is_read() {
        let skill = skill();
        let (_, rest) = skill.split_once("```json\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let question = sentinel::parse(example.as_bytes()).unwrap();
        assert_eq!(question.items()[0].options().len(), 2);
        assert!(skill.starts_with(&format!("---\nname: {HELPER}\ndescription: ")));
    }
}
