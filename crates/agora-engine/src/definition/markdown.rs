//! Claude agent files: YAML between two lines of `---`, then the system prompt.

use serde_json::{Map, Value};

use super::{DefinitionError, parse_yaml};

/// Front-matter keys that are Claude Code's own. They are kept for its adapter, word for word.
const CLAUDE_KEYS: &[&str] = &[
    "background",
    "color",
    "disallowedTools",
    "effort",
    "hooks",
    "initialPrompt",
    "isolation",
    "maxTurns",
    "mcpServers",
    "memory",
    "permissionMode",
    "skills",
    "tools",
];

/// Reads a Claude agent file as a subagent's fields.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, DefinitionError> {
    let (front, body) = split(text).ok_or(DefinitionError::NoFrontMatter)?;
    let written =
        parse_yaml(front).or_else(|error| parse_yaml(&quoted(front)).map_err(|_| shifted(error)))?;
    let mut fields = Map::new();
    let mut claude = Map::new();
    for (key, value) in written {
        match (key.as_str(), &value) {
            // Whatever the caller runs on: the same as not saying it.
            ("model", Value::String(model)) if model == "inherit" => {}
            (key, _) if CLAUDE_KEYS.contains(&key) => drop(claude.insert(key.to_owned(), value)),
            _ => drop(fields.insert(key, value)),
        }
    }
    if !claude.is_empty() {
        fields.insert("claude".to_owned(), Value::Object(claude));
    }
    let body = body.trim();
    if !body.is_empty() && fields.insert("systemPrompt".to_owned(), Value::String(body.to_owned())).is_some()
    {
        return Err(DefinitionError::TwoPrompts);
    }
    Ok(fields)
}

/// Splits the front matter from what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut place = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..place], &rest[place + line.len()..]));
        }
        place += line.len();
    }
    None
}

/// Quotes plain values. Many agent files say `description: Use when: …`, which Claude Code takes and YAML does not.
fn quoted(front: &str) -> String {
    let quote = |line: &str| -> Option<String> {
        let (key, value) = line.split_once(':')?;
        let value = value.trim();
        let is_key =
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let is_plain =
            !value.is_empty() && !value.starts_with(['[', '{', '|', '>', '"', '\'', '&', '*', '!']);
        (is_key && is_plain).then(|| format!("{key}: {}", Value::String(value.to_owned())))
    };
    front.lines().map(|line| quote(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// Counts lines from the file's beginning: the front matter starts on its second.
fn shifted(error: DefinitionError) -> DefinitionError {
    match error {
        DefinitionError::Syntax { line, column, message } => {
            DefinitionError::Syntax { line: line + 1, column, message }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_file_is_taken_as_it_is() {
        let text = "---\nname: code-reviewer\ndescription: Use after: any change. Examples: <a>, \"b\"\n\
                    tools: Read, Grep\nmodel: inherit\ncolor: blue\n---\n\nYou review.\n\n---\nStill the prompt.\n";
        assert_eq!(
            Value::Object(parse(text).unwrap()),
            json!({
                "name": "code-reviewer", "description": "Use after: any change. Examples: <a>, \"b\"",
                "claude": {"tools": "Read, Grep", "color": "blue"},
                "systemPrompt": "You review.\n\n---\nStill the prompt."
            })
        );
        let windows = parse("---\r\nname: a\r\nmodel: opus\r\n---\r\nHi\r\n").unwrap();
        assert_eq!(Value::Object(windows), json!({"name": "a", "model": "opus", "systemPrompt": "Hi"}));
    }

    #[test]
    fn what_is_not_an_agent_file_is_refused() {
        assert!(matches!(parse("You review."), Err(DefinitionError::NoFrontMatter)));
        assert!(matches!(parse("---\nname: a\n"), Err(DefinitionError::NoFrontMatter)));
        assert!(matches!(parse("---\nsystemPrompt: x\n---\ny"), Err(DefinitionError::TwoPrompts)));
        let error = parse("---\nname: a\ntools: [Read\n---\nx").unwrap_err();
        assert!(matches!(error, DefinitionError::Syntax { line: 3.., .. }), "{error:?}");
    }
}
