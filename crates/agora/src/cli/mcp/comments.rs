//! JSON as some programs read it: with comments, and a comma after the last entry.

/// Blanks out what JSON does not have. Every other byte stays where it is, so that a place in the one text is a place in the other. `None`:
/// a comment or a string does not end.
pub(super) fn blanked(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    // A comma that nothing has followed yet.
    let (mut place, mut comma) = (0, None);
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'"' => {
                place = string_end(&bytes, place)?;
                comma = None;
                continue;
            }
            b'/' => {
                let end = place + comment_length(&bytes[place..])?;
                bytes[place..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                place = end;
                continue;
            }
            b',' => comma = Some(place),
            b'}' | b']' => {
                if let Some(last) = comma.take() {
                    bytes[last] = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        place += 1;
    }
    String::from_utf8(bytes).ok()
}

/// Returns how long the comment is that begins here. `None`: none does, or it does not end.
fn comment_length(rest: &[u8]) -> Option<usize> {
    let find = |wanted: &[u8]| rest.windows(wanted.len()).skip(2).position(|found| found == wanted);
    match rest.get(1)? {
        b'/' => Some(find(b"\n").map_or(rest.len(), |place| place + 2)),
        b'*' => find(b"*/").map(|place| place + 4),
        _ => None,
    }
}

/// Returns the place after the string that begins here.
pub(super) fn string_end(bytes: &[u8], from: usize) -> Option<usize> {
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
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Option<Value> {
        let blanked = blanked(text)?;
        assert_eq!(blanked.len(), text.len(), "{text}");
        serde_json::from_str(&blanked).ok()
    }

    #[test]
    fn comments_and_last_commas_are_nothing() {
        for (text, value) in [
            ("// über\n{} // end", json!({})),
            ("{/**/\"a\"/* \" */: 1, // one\n}", json!({"a": 1})),
            ("[1, /* 2, */ 3 , /* x */ ]\n/*/ still */", json!([1, 3])),
            ("{\"a\": [\"//\", \"/*\", \",]\\\"\", ], }", json!({"a": ["//", "/*", ",]\""]})),
        ] {
            assert_eq!(read(text), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for text in ["{/* open}", "{\"open}", "[,]x", "{\"a\": 1,,}", "[/]", "{\"a\" 1}"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
