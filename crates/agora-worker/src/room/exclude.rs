//! What agora lays over a repository is not the repository's: its git is told to ignore it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::archive::give_away;

/// Adds paths to the exclusions of the made repository, if the workspace is one. What is tracked stays so.
pub(crate) fn exclude<'a>(work: &Path, paths: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let info = work.join(".git/info");
    if !fs::symlink_metadata(&info).is_ok_and(|data| data.is_dir()) {
        return Ok(());
    }
    let mut file = File::options().append(true).create(true).open(info.join("exclude"))?;
    let mut text = "\n# Laid over the workspace by agora.\n/.agora/\n".to_owned();
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
    file.write_all(text.as_bytes())?;
    give_away(&info.join("exclude"))
}
