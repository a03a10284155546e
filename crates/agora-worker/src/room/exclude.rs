//! What agora lays over a repository is not the repository's: its git is told to ignore it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::archive::give_away;

/// What stands between these two lines are paths that agora laid over the workspace.
const BEGIN: &str = "# Laid over the workspace by agora.";
const END: &str = "# Not laid by agora.";

/// Returns exclusions without those of what was laid: whoever changes such a file means it.
pub(crate) fn not_laid(exclude: &[u8]) -> Vec<u8> {
    let mut laid = false;
    let not_laid = exclude.split_inclusive(|&byte| byte == b'\n').filter(|line| {
        let line = line.trim_ascii_end();
        laid = line == BEGIN.as_bytes() || (laid && line != END.as_bytes());
        !laid
    });
    not_laid.flatten().copied().collect()
}

/// Adds paths to the exclusions of the made repository, if the workspace is one. What is tracked stays so.
pub(crate) fn exclude<'a>(work: &Path, paths: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let info = work.join(".git/info");
    if !fs::symlink_metadata(&info).is_ok_and(|data| data.is_dir()) {
        return Ok(());
    }
    let mut file = File::options().append(true).create(true).open(info.join("exclude"))?;
    let mut text = format!("\n{BEGIN}\n/.agora/\n");
    for path in paths {
        text.push('/');
        for character in path.chars() {
            if matches!(character, '*' | '?' | '[' | '\\' | '!' | '#' | ' ') {
                text.push('\\');
            }
            text.push(character);
        }
        text.push('\n');
    }
    text.extend([END, "\n"]);
    file.write_all(text.as_bytes())?;
    give_away(&info.join("exclude"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_laid_is_told_apart_from_what_somebody_excluded() {
        let dir = tempfile::tempdir().unwrap();
        let info = dir.path().join(".git/info");
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("exclude"), "*.log").unwrap();
        exclude(dir.path(), ["notes.md", "a [b]/c"].into_iter()).unwrap();
        let text = fs::read_to_string(info.join("exclude")).unwrap();
        assert!(text.contains("\n/notes.md\n/a\\ \\[b]/c\n"), "{text}");
        let text = format!("{text}*.tmp\n");
        let left = String::from_utf8(not_laid(text.as_bytes())).unwrap();
        assert_eq!(
            left.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
            ["*.log", "*.tmp"]
        );
        // Of an older agora, which wrote no end.
        assert_eq!(not_laid(b"x\n# Laid over the workspace by agora.\n/a\n"), b"x\n");
    }
}
