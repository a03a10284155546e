//! The forms in which programs write a secret.

use std::collections::BTreeSet;

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;

/// Fewer characters than this could be anything; a form that short is not looked for. No secret's own text is: shorter
/// ones are refused, or were forced.
const SHORTEST: usize = 6;

/// How often a text is put into JSON: what a tool printed as JSON is a text in an agent's log, and that log in another.
const JSON_IN_JSON: usize = 3;

/// Returns every form of a secret: as it is, in JSON, also within JSON, in quotes, in a URL, and in Base64 wherever in a longer text it
/// begins.
pub(super) fn of(secret: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.to_owned()];
    let quoted = quoted(secret);
    let mut written = BTreeSet::from([
        json(secret).replace('/', "\\/"),
        json_html(secret),
        quoted.replace('\'', "\\'"),
        quoted,
        secret.to_owned(),
    ]);
    for _ in 0..JSON_IN_JSON {
        forms.extend(written.iter().cloned());
        written = written.iter().flat_map(|text| [json(text), json_ascii(text)]).collect();
    }
    forms.extend(written);
    for keep in [unreserved as fn(u8) -> bool, component, path, address] {
        forms.extend([percent(secret, keep, false), percent(secret, keep, true)]);
    }
    forms.push(percent(secret, unreserved, false).replace("%20", "+"));
    let mut bytes: Vec<Vec<u8>> = forms.into_iter().map(String::into_bytes).collect();
    for alphabet in [&STANDARD, &URL_SAFE] {
        bytes.extend(
            (0..3).map(|offset| base64_at(secret, alphabet, offset)).filter(|form| form.len() >= SHORTEST),
        );
    }
    bytes.retain(|form| !form.is_empty());
    bytes
}

/// Writes it as most JSON writers do, without the quotes around it.
fn json(secret: &str) -> String {
    let quoted = serde_json::Value::from(secret).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Writes it as JSON writers do that keep to ASCII, such as Python's.
fn json_ascii(secret: &str) -> String {
    let escape = |character: char| -> String {
        if character.is_ascii() {
            return character.to_string();
        }
        character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    json(secret).chars().map(escape).collect()
}

/// Writes it as JSON writers do that keep it out of HTML, such as Go's.
fn json_html(secret: &str) -> String {
    let escape =
        |text: String, character: char| text.replace(character, &format!("\\u{:04x}", u32::from(character)));
    ['<', '>', '&'].into_iter().fold(json(secret), escape)
}

/// Writes it as it stands between single quotes: where Python and JavaScript show a value, such as all of an environment.
fn quoted(secret: &str) -> String {
    json(secret).replace("\\\"", "\"")
}

/// What RFC 3986 never encodes.
fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// What JavaScript's `encodeURIComponent` does not encode.
fn component(byte: u8) -> bool {
    unreserved(byte) || b"!'()*".contains(&byte)
}

/// What Python's `quote` does not encode.
fn path(byte: u8) -> bool {
    unreserved(byte) || byte == b'/'
}

/// What JavaScript's `encodeURI` does not encode.
fn address(byte: u8) -> bool {
    component(byte) || b";,/?:@&=+$#".contains(&byte)
}

fn percent(secret: &str, keep: fn(u8) -> bool, lower: bool) -> String {
    let write = |byte: u8| match (keep(byte), lower) {
        (true, _) => char::from(byte).to_string(),
        (false, false) => format!("%{byte:02X}"),
        (false, true) => format!("%{byte:02x}"),
    };
    secret.bytes().map(write).collect()
}

/// Writes the characters of Base64 that the secret alone decides, when it begins after `offset` bytes of a group of
/// three. The characters at both ends also hold bits of what stands around it.
fn base64_at(secret: &str, alphabet: &Alphabet, offset: usize) -> Vec<u8> {
    let padded = [&[0; 3][..offset], secret.as_bytes()].concat();
    let text = GeneralPurpose::new(alphabet, NO_PAD).encode(&padded);
    let first = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    text.as_bytes().get(first..end).unwrap_or_default().to_vec()
}
