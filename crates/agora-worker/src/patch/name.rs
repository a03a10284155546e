//! Which paths git refuses to apply.

/// Tells whether git refuses the path, on this machine or on one whose file system is less exact: one such path, and it
/// refuses the whole patch.
pub(super) fn refused(path: &[u8], is_link: bool) -> bool {
    path.split(|&byte| matches!(byte, b'/' | b'\\')).any(|part| is_git(part) || (is_link && is_modules(part)))
}

/// `.git`, as Windows and macOS would also read it.
fn is_git(part: &[u8]) -> bool {
    let part = seen(part);
    [&b".git"[..], b"git~1"].into_iter().any(|name| is_name(&part, name))
}

/// `.gitmodules`, which git does not take as a link, under any of its names.
fn is_modules(part: &[u8]) -> bool {
    let part = seen(part);
    is_name(&part, b".gitmodules") || part.starts_with(b"gitmod~") || part.starts_with(b"gi7eba~")
}

/// Windows drops dots and spaces at the end of a name, and what follows a colon is no part of it.
fn is_name(part: &[u8], name: &[u8]) -> bool {
    let Some(rest) = part.strip_prefix(name) else { return false };
    let rest = rest.iter().find(|byte| !matches!(byte, b' ' | b'.'));
    matches!(rest, None | Some(b':'))
}

/// In lower case, and without the characters that macOS does not see in a name.
fn seen(part: &[u8]) -> Vec<u8> {
    let lower = part.to_ascii_lowercase();
    match str::from_utf8(&lower) {
        Ok(text) => text.replace(is_unseen, "").into_bytes(),
        Err(_) => lower,
    }
}

fn is_unseen(character: char) -> bool {
    matches!(u32::from(character), 0x200c..=0x200f | 0x202a..=0x202e | 0x206a..=0x206f | 0xfeff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_system_reads_as_git_is_refused() {
        for path in ["a/.GIT/b", ".git ./x", "git~1", ".git::$INDEX/x", "a\\.git", "x/.g\u{200c}it"] {
            assert!(refused(path.as_bytes(), false), "{path}");
        }
        for path in [".gitignore", ".github/x", "a.git", ".gitmodules", "git~2", "gitmod~1"] {
            assert!(!refused(path.as_bytes(), false), "{path}");
        }
        assert!(refused(b"sub/.GitModules", true) && refused(b"gitmod~1", true));
    }
}
