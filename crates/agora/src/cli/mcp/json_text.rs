//! One entry more in a person's JSON file, and every other byte of it as they wrote it.

use serde_json::{Map, Value, json};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// The same entry is there.
    Already,
    Text(String),
}

/// Enters a value below two keys. `None`: the text is not a JSON object that can be added to, or another entry has that name.
pub(super) fn enter(text: &str, [outer, inner]: [&str; 2], entry: &Value) -> Option<Entered> {
    if text.trim().is_empty() {
        let whole = json!({outer: {inner: entry}});
        return Some(Entered::Text(format!("{whole:#}\n")));
    }
    let whole: Map<String, Value> = serde_json::from_str(text).ok()?;
    match whole.get(outer) {
        Some(Value::Object(entries)) => match entries.get(inner) {
            Some(there) if there == entry => Some(Entered::Already),
            Some(_) => None,
            None => {
                let at = opening_of(text, outer)?;
                let comma = if entries.is_empty() { "" } else { "," };
                Some(Entered::Text(insert(
                    text,
                    at,
                    &format!("\n    \"{inner}\": {entry}{comma}"),
                    entries.is_empty(),
                    "  ",
                )))
            }
        },
        Some(_) => None,
        None => {
            let at = text.find('{')? + 1;
            let comma = if whole.is_empty() { "" } else { "," };
            let added = format!("\n  \"{outer}\": {{\n    \"{inner}\": {entry}\n  }}{comma}");
            Some(Entered::Text(insert(text, at, &added, whole.is_empty(), "")))
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

fn string_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut place = from + 1;
    loop {
        match bytes.get(place)? {
            b'\\' => place += 2,
            b'"' => return Some(place + 1),
            _ => place += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(text: &str) -> Option<Entered> {
        enter(text, ["mcpServers", "agora"], &json!({"command": "agora"}))
    }

    #[track_caller]
    fn grown(text: &str) -> String {
        let Some(Entered::Text(grown)) = entered(text) else { panic!("{text} was not added to") };
        let (before, after): (Value, Value) =
            (serde_json::from_str(text).unwrap_or(json!({})), serde_json::from_str(&grown).unwrap());
        assert_eq!(after["mcpServers"]["agora"], json!({"command": "agora"}));
        for (key, value) in before.as_object().unwrap().iter().filter(|(key, _)| *key != "mcpServers") {
            assert_eq!(after[key], *value);
        }
        assert_eq!(entered(&grown), Some(Entered::Already), "{grown}");
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
    fn what_cannot_be_added_to_is_left_alone() {
        for text in [
            "[]",
            "// a comment\n{}",
            "{\"mcpServers\": []}",
            "{\"mcpServers\": {\"agora\": {\"command\": \"other\"}}}",
            "{",
        ] {
            assert_eq!(entered(text), None, "{text}");
        }
    }
}
