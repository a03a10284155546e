//! One entry more in a person's JSON file, and every other byte of it as they wrote it.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::comments::{blanked, string_end};
use super::entered::Entered;

/// What the program whose file it is reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Plain,
    /// Also comments, and a comma after the last entry.
    Commented,
}

impl Dialect {
    /// Returns a text as plain JSON, each byte where it was.
    fn plain(self, text: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::Plain => Some(Cow::Borrowed(text)),
            Self::Commented => blanked(text).map(Cow::Owned),
        }
    }
}

/// Enters a value below two keys. What comes of it is read again before anybody writes it.
pub(super) fn enter(text: &str, dialect: Dialect, keys: [&str; 2], entry: &Value) -> Entered {
    let [outer, inner] = keys;
    if text.trim().is_empty() {
        return Entered::Text(format!("{:#}\n", json!({outer: {inner: entry}})));
    }
    let Some(plain) = dialect.plain(text) else { return Entered::Unfit };
    let Ok(before) = serde_json::from_str::<Map<String, Value>>(&plain) else { return Entered::Unfit };
    match before.get(outer) {
        Some(Value::Object(entries)) => match entries.get(inner) {
            Some(there) if holds(there, entry) => return Entered::Already,
            Some(_) => return Entered::Another,
            None => {}
        },
        Some(_) => return Entered::Unfit,
        None => {}
    }
    let Some(grown) = grown((text, &plain), &before, keys, entry) else { return Entered::Unfit };
    let mut wanted = Value::Object(before);
    wanted[outer][inner] = entry.clone();
    // A key that stands twice is read as its last, and may have been added to as its first.
    let after = dialect.plain(&grown).and_then(|plain| serde_json::from_str::<Value>(&plain).ok());
    let fits = after.is_some_and(|after| after == wanted);
    if fits { Entered::Text(grown) } else { Entered::Unfit }
}

/// Tells whether all of an entry is there. What a person added to it is theirs.
fn holds(there: &Value, entry: &Value) -> bool {
    let mut fields = entry.as_object().into_iter().flatten();
    fields.all(|(key, value)| there.get(key) == Some(value))
}

/// Adds the entry to a text, at a place that is looked for in what of it is plain JSON.
fn grown(
    (text, plain): (&str, &str),
    whole: &Map<String, Value>,
    [outer, inner]: [&str; 2],
    entry: &Value,
) -> Option<String> {
    match whole.get(outer).and_then(Value::as_object) {
        Some(entries) => {
            let at = opening_of(plain, outer)?;
            let comma = if entries.is_empty() { "" } else { "," };
            let added = format!("\n    \"{inner}\": {entry}{comma}");
            Some(insert(text, at, &added, entries.is_empty(), "  "))
        }
        None => {
            let at = plain.find('{')? + 1;
            let comma = if whole.is_empty() { "" } else { "," };
            let added = format!("\n  \"{outer}\": {{\n    \"{inner}\": {entry}\n  }}{comma}");
            Some(insert(text, at, &added, whole.is_empty(), ""))
        }
    }
}

/// Puts words at a place. Before a brace that closed an empty object there is a line of its own.
fn insert(text: &str, at: usize, added: &str, was_empty: bool, indent: &str) -> String {
    let after = if was_empty { format!("\n{indent}") } else { String::new() };
    let rest = if was_empty { text[at..].trim_start() } else { &text[at..] };
    format!("{}{added}{after}{rest}", &text[..at])
}

/// Finds the place right after the brace that opens the object under a key of the outermost object. The text is known to be JSON.
fn opening_of(text: &str, key: &str) -> Option<usize> {
    let (mut depth, mut last, mut place) = (0_u32, None, 0);
    let bytes = text.as_bytes();
    while place < bytes.len() {
        match bytes[place] {
            b'"' => {
                let end = string_end(bytes, place)?;
                if depth == 1 {
                    last = serde_json::from_str::<String>(&text[place..end]).ok();
                }
                place = end;
                continue;
            }
            b'{' if depth == 1 && last.as_deref() == Some(key) => return Some(place + 1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            // What follows is the next key's.
            b',' if depth == 1 => last = None,
            _ => {}
        }
        place += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(text: &str) -> Entered {
        enter(text, Dialect::Plain, ["mcpServers", "agora"], &json!({"command": "agora"}))
    }

    #[track_caller]
    fn grown(text: &str) -> String {
        let Entered::Text(grown) = entered(text) else { panic!("{text} was not added to") };
        let (before, after): (Value, Value) =
            (serde_json::from_str(text).unwrap_or(json!({})), serde_json::from_str(&grown).unwrap());
        assert_eq!(after["mcpServers"]["agora"], json!({"command": "agora"}));
        for (key, value) in before.as_object().unwrap().iter().filter(|(key, _)| *key != "mcpServers") {
            assert_eq!(after[key], *value);
        }
        assert_eq!(entered(&grown), Entered::Already, "{grown}");
        grown
    }

    #[test]
    fn what_a_person_wrote_stays_as_it_is() {
        let text = "{\n\t\"z\": 1,   \"mcpServers\" : { \"other\": {\"command\":\"x\"} },\n  \"a\": [\"mcpServers\", {}]\n}\n";
        let grown = grown(text);
        assert!(grown.starts_with("{\n\t\"z\": 1,   \"mcpServers\" : {"), "{grown}");
        assert!(
            grown.ends_with(" \"other\": {\"command\":\"x\"} },\n  \"a\": [\"mcpServers\", {}]\n}\n"),
            "{grown}"
        );
    }

    #[test]
    fn a_file_that_has_no_servers_yet_gets_some() {
        assert_eq!(
            grown(""),
            "{\n  \"mcpServers\": {\n    \"agora\": {\n      \"command\": \"agora\"\n    }\n  }\n}\n"
        );
        grown("{}");
        grown("{ }\n");
        grown("{\"theme\": \"dark\"}");
        grown("{\"mcpServers\": {}}");
        grown("{\"mcpServers\": {\n  }, \"deep\": {\"mcpServers\": {\"x\": 1}}}");
        grown(
            "{\"deep\": {\"mcpServers\": {\"x\": 1}}, \"say\": \"\\\"mcpServers\\\": {\", \"mcpServers\": {\"y\": 2}}",
        );
    }

    #[test]
    fn comments_stay_where_the_program_reads_them() {
        let enter = |text: &str| {
            enter(text, Dialect::Commented, ["mcpServers", "agora"], &json!({"command": "agora"}))
        };
        let agora = "\"agora\": {\"command\":\"agora\"}";
        for (text, expected) in [
            (
                "// mine {\n{\n  \"mcpServers\": { // \"x\": {\n  },\n}\n",
                format!("// mine {{\n{{\n  \"mcpServers\": {{\n    {agora}\n  // \"x\": {{\n  }},\n}}\n"),
            ),
            (
                "{/* \"mcpServers\": {} */ \"mcpServers\": {\n    \"other\": {}, // one\n  }}",
                format!(
                    "{{/* \"mcpServers\": {{}} */ \"mcpServers\": {{\n    {agora},\n    \"other\": {{}}, // one\n  }}}}"
                ),
            ),
            (
                "{ // nothing yet\n}",
                format!("{{\n  \"mcpServers\": {{\n    {agora}\n  }}\n// nothing yet\n}}"),
            ),
        ] {
            assert_eq!(enter(text), Entered::Text(expected.clone()), "{text}");
            assert_eq!(enter(&expected), Entered::Already, "{expected}");
            assert_eq!(entered(text), Entered::Unfit, "not for who reads plain JSON: {text}");
        }
        assert_eq!(enter("{/* open"), Entered::Unfit);
    }

    #[test]
    fn what_cannot_be_added_to_is_left_alone() {
        for text in [
            "[]",
            "// a comment\n{}",
            "{\"mcpServers\": []}",
            "{\"mcpServers\": {\"x\": 1}, \"mcpServers\": {}}",
            "{",
        ] {
            assert_eq!(entered(text), Entered::Unfit, "{text}");
        }
        assert_eq!(entered("{\"mcpServers\": {\"agora\": {\"command\": \"other\"}}}"), Entered::Another);
        let with_more = "{\"mcpServers\": {\"agora\": {\"command\": \"agora\", \"env\": {}}}}";
        assert_eq!(entered(with_more), Entered::Already, "what a person added is theirs");
    }
}
