//! Keeps files small enough to read in one sitting.

use std::path::{Path, PathBuf};

use crate::{console, failure::Failure, workspace};

/// From here on a file is listed, to make one think.
const LISTED: usize = 500;

/// From here on the check fails.
const FAILED: usize = 700;

/// Fails if a Rust file is too long, tests included.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let mut long = Vec::new();
    for file in workspace::files(root)?.into_iter().filter(|file| workspace::name_ends_with(file, ".rs")) {
        let lines = count_lines(&workspace::read(root, &file)?);
        if lines > LISTED {
            long.push((lines, file));
        }
    }
    long.sort_by(|left, right| right.cmp(left));
    for (lines, file) in &long {
        console::progress(&format!("{lines} lines: {}", file.display()));
    }
    judge(&long)
}

fn judge(long: &[(usize, PathBuf)]) -> Result<(), Failure> {
    match long.iter().filter(|(lines, _)| *lines > FAILED).count() {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} files are longer than {FAILED} lines"))
            .hint("find what wants to leave, and move it to a module of its own")),
    }
}

fn count_lines(text: &[u8]) -> usize {
    text.split_inclusive(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::{FAILED, count_lines, judge};

    #[test]
    fn a_last_line_without_an_end_counts() {
        assert_eq!(count_lines(b""), 0);
        assert_eq!(count_lines(b"a\nb"), 2);
        assert_eq!(count_lines(b"a\nb\n"), 2);
    }

    #[test]
    fn a_file_fails_only_above_the_limit() {
        assert!(judge(&[(FAILED, "a.rs".into())]).is_ok());
        assert!(judge(&[(FAILED + 1, "a.rs".into())]).is_err());
    }
}
