//! How a path is written in a patch in git's form, which files one is about, and whether it stays where it belongs.

use std::ops::Range;

/// A path below the root, as bytes.
pub type PathBytes = Vec<u8>;

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: PathBytes,
    /// What it was called before, if it has another name now.
    pub from: Option<PathBytes>,
    /// It becomes a symbolic link, or is one.
    pub link: bool,
    pub deleted: bool,
    /// Which bytes of the patch say it.
    pub text: Range<usize>,
}

/// Says that bytes are no patch that agora writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patch is not in the form that agora writes")]
pub struct Malformed;

/// Reads which files a patch is about. Lines of content begin with a sign of their own, so that none passes for a header.
pub fn changes(patch: &[u8]) -> Result<Vec<Change>, Malformed> {
    let mut changes: Vec<Change> = Vec::new();
    let (mut in_header, mut at) = (false, 0);
    for line in patch.split(|&byte| byte == b'\n') {
        let begin = at;
        at = (at + line.len() + 1).min(patch.len());
        if let Some(names) = line.strip_prefix(b"diff --git ") {
            let path = same_name(names).unwrap_or_default();
            changes.push(Change { path, from: None, link: false, deleted: false, text: begin..at });
            in_header = true;
            continue;
        }
        let Some(change) = changes.last_mut() else { continue };
        change.text.end = at;
        if !in_header {
            continue;
        }
        if let Some(name) = line.strip_prefix(b"rename from ") {
            change.from = Some(unquoted(name).ok_or(Malformed)?);
        } else if let Some(name) = line.strip_prefix(b"rename to ") {
            change.path = unquoted(name).ok_or(Malformed)?;
        } else if line.starts_with(b"deleted file mode ") {
            change.deleted = true;
            change.link |= line.ends_with(b"120000");
        } else if line.starts_with(b"new file mode ")
            || line.starts_with(b"index ")
            || line.starts_with(b"new mode ")
        {
            change.link |= line.ends_with(b"120000");
        } else if line.starts_with(b"@@ ") || line == b"GIT binary patch" {
            in_header = false;
        }
    }
    if changes.iter().any(|change| change.path.is_empty()) { Err(Malformed) } else { Ok(changes) }
}

/// Reads `a/X b/X`. `None` when the names differ: a rename says them again.
fn same_name(names: &[u8]) -> Option<PathBytes> {
    if names.starts_with(b"\"") {
        let end = end_of_quoted(names)?;
        let name = unquoted(&names[..end])?;
        return name.strip_prefix(b"a/").map(<[u8]>::to_vec);
    }
    let len = names.len().checked_sub(5)? / 2;
    let (old, new) = (names.get(..len + 2)?, names.get(len + 3..)?);
    let (old, new) = (old.strip_prefix(b"a/")?, new.strip_prefix(b"b/")?);
    (old == new).then(|| old.to_vec())
}

fn end_of_quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Writes a path as git does: as it is, or in quotes and escaped where a program could misread it.
pub fn quoted(prefix: &str, path: &[u8]) -> String {
    let text = str::from_utf8(path);
    if let Ok(text) = text
        && !text.chars().any(|character| character.is_control() || matches!(character, '"' | '\\'))
    {
        return format!("{prefix}{text}");
    }
    let mut out = format!("\"{prefix}");
    for &byte in path {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x20..0x7f => out.push(char::from(byte)),
            _ => out.extend(['\\'].into_iter().chain(octal(byte))),
        }
    }
    out.push('"');
    out
}

fn octal(byte: u8) -> [char; 3] {
    [byte >> 6, (byte >> 3) & 7, byte & 7].map(|digit| char::from(b'0' + digit))
}

/// Reads a name as git writes it.
fn unquoted(name: &[u8]) -> Option<PathBytes> {
    let Some(inside) = name.strip_prefix(b"\"") else { return Some(name.to_vec()) };
    let inside = inside.strip_suffix(b"\"")?;
    let (mut out, mut at) = (Vec::new(), 0);
    while at < inside.len() {
        if inside[at] != b'\\' {
            out.push(inside[at]);
            at += 1;
            continue;
        }
        let escaped = *inside.get(at + 1)?;
        at += 2;
        out.push(match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'v' => 11,
            b'f' => 12,
            b'"' | b'\\' => escaped,
            b'0'..=b'3' => {
                let digits = inside.get(at - 1..at + 2)?;
                at += 2;
                let digits = str::from_utf8(digits).ok()?;
                u8::from_str_radix(digits, 8).ok()?
            }
            _ => return None,
        });
    }
    Some(out)
}

/// Tells whether a path leaves the root, or enters what is git's own.
pub fn is_refused(path: &[u8]) -> bool {
    let odd = |part: &[u8]| {
        let lower = part.to_ascii_lowercase();
        part.is_empty() || matches!(part, b"." | b"..") || lower == b".git" || lower == b"git~1"
    };
    path.contains(&0) || path.split(|&byte| byte == b'/').any(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_found_whatever_it_is_called() {
        let patch = b"diff --git a/a b/c b/a b/c\nindex 1..2 100644\n--- a/a b/c\n+++ b/a b/c\n@@ -1 +1 @@\n-diff --git a/x b/x\n+rename to y\n\
            diff --git \"a/q\\\"\\303\\244\\n\" \"b/q\\\"\\303\\244\\n\"\nnew file mode 120000\nindex 0..1\n\
            diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n\
            diff --git a/gone b/gone\ndeleted file mode 100644\n";
        let found = changes(patch).unwrap();
        let paths: Vec<_> = found.iter().map(|change| String::from_utf8_lossy(&change.path)).collect();
        assert_eq!(paths, ["a b/c", "q\"ä\n", "new", "gone"]);
        assert_eq!(found[2].from.as_deref(), Some(&b"old"[..]));
        assert!(found[1].link && found[3].deleted && !found[0].link);
        let texts: Vec<&[u8]> = found.iter().map(|change| &patch[change.text.clone()]).collect();
        assert!(texts.iter().all(|text| text.starts_with(b"diff --git ")) && texts.concat() == patch);
        assert_eq!(changes(b"").unwrap(), []);
        assert!(changes(b"diff --git x\n").is_err());
    }

    #[test]
    fn only_odd_names_are_quoted() {
        for (path, written) in [
            (&b"a b/c"[..], "b/a b/c"),
            ("ä/日本".as_bytes(), "b/ä/日本"),
            (b"a\"b\\c", r#""b/a\"b\\c""#),
            (b"a\tb\nc\x01\x7f", r#""b/a\tb\nc\001\177""#),
            (b"\xff\xe4", r#""b/\377\344""#),
            ("\u{85}".as_bytes(), r#""b/\302\205""#),
        ] {
            assert_eq!(quoted("b/", path), written);
            assert_eq!(unquoted(quoted("", path).as_bytes()).as_deref(), Some(path));
        }
    }

    #[test]
    fn what_leaves_the_root_is_known() {
        for path in ["../x", "/x", "a//b", "a/.git/hooks/x", ".GIT/config", "a/./b", "git~1/x"] {
            assert!(is_refused(path.as_bytes()), "{path}");
        }
        assert!(!is_refused(b"a/.github/x") && !is_refused(b".gitignore"));
    }
}
