//! One entry more in a person's JSON file, and every other byte of it as they wrote it.

use serde_json::{Map, Value, json};

use super::entered::Entered;

/// Enters a value below two keys. What comes of it is read again before anybody writes it.
pub(super) fn enter(text: &str, keys: [&str; 2], entry: &Value) -> Entered {
    let [outer, inner] = keys;
    if text.trim().is_empty() {
        return Entered::Text(format!("{:#}\n", json!({outer: {inner: entry}})));
    }
    let Ok(before) = serde_json::from_str::<Map<String, Value>>(text) else { return Entered::Unfit };
    match before.get(outer) {
        Some(Value::Object(entries)) => match entries.get(inner) {
            Some(there) if holds(there, entry) => return Entered::Already,
            Some(_) => return Entered::Another,
            None => {}
        },
        Some(_) => return Entered::Unfit,
        None => {}
    }
    let Some(grown) = grown(text, &before, keys, entry) else { return Entered::Unfit };
    let mut wanted = Value::Object(before);
    wanted[outer][inner] = entry.clone();
    // A key that stands twice is read as its last, and may have been added to as its first.
    let fits = serde_json::from_str::<Value>(&grown).is_ok_and(|after| after == wanted);
    if fits { Entered::Text(grown) } else { Entered::Unfit }
}

/// Tells whether all of an entry is there. What a person added to it is theirs.
fn holds(there: &Value, entry: &Value) -> bool {
    let mut fields = entry.as_object().into_iter().flatten();
    fields.all(|(key, value)| there.get(key) == Some(value))
}

fn grown(text: &str, whole: &Map<String, Value>, [outer, inner]: [&str; 2], entry: &Value) -> Option<String> {
    match whole.get(outer).and_then(Value::as_object) {
        Some(entries) => {
            let at = opening_of(text, outer)?;
            let comma = if entries.is_empty() { "" } else { "," };
            let added = format!("\n    \"{inner}\": {entry}{comma}");
            Some(insert(text, at, &added, entries.is_empty(), "  "))
        }
        None => {
            let at = text.find('{')? + 1;
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

    fn entered(text: &str) -> Entered {
        enter(text, ["mcpServers", "agora"], &json!({"command": "agora"}))
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
