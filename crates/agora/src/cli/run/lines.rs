//! A file of inputs, a JSON object a line, read one by one: it may be larger than what one would hold.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use agora_core::limits::INPUT_BYTES;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// An input with white space between its parts may be longer than what it says.
const LONGEST_LINE: u64 = 2 * INPUT_BYTES as u64;

/// The lines of a file that are not blank.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    number: usize,
}

/// A line by its number, and its input or why it is none.
pub(super) type Line = (usize, Result<Map<String, Value>, String>);

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a regular file, and it is read twice")),
        });
        let file = file.map_err(|error| unreadable(path, &error))?;
        Ok(Self { path: path.to_owned(), reader: BufReader::new(file), number: 0 })
    }

    /// Begins again.
    pub(super) fn rewind(&mut self) -> Result<(), Failure> {
        self.number = 0;
        self.reader.rewind().map_err(|error| unreadable(&self.path, &error))
    }

    pub(super) fn next(&mut self) -> Result<Option<Line>, Failure> {
        loop {
            let mut bytes = Vec::new();
            let read = (&mut self.reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut bytes);
            if read.map_err(|error| unreadable(&self.path, &error))? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if bytes.len() as u64 > LONGEST_LINE && !bytes.ends_with(b"\n") {
                self.skip_line()?;
                return Ok(Some((self.number, Err(format!("it has more than {LONGEST_LINE} bytes")))));
            }
            if !bytes.trim_ascii().is_empty() {
                let input = serde_json::from_slice(&bytes).map_err(|error| why(&error));
                return Ok(Some((self.number, input)));
            }
        }
    }

    fn skip_line(&mut self) -> Result<(), Failure> {
        self.reader.skip_until(b'\n').map(drop).map_err(|error| unreadable(&self.path, &error))
    }
}

/// Says where in the line it is wrong: serde counts lines too, and there is only one.
fn why(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let bare = text.split(" at line ").next().unwrap_or_default();
    format!("{bare} (column {})", error.column())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::wrong("file-unreadable", format!("`{}` cannot be read", path.display())).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_passed_over_and_wrong_ones_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.jsonl");
        let long = "x".repeat(usize::try_from(LONGEST_LINE).unwrap() + 10);
        std::fs::write(&path, format!("{{\"task\":\"a\"}}\n\n[1]\n{long}\n  \n{{\"task\":\"b\"}}")).unwrap();
        let mut lines = Lines::open(&path).unwrap();
        let mut all = || {
            let mut said = Vec::new();
            while let Some((number, line)) = lines.next().unwrap() {
                said.push((number, line.map(|input| input["task"].clone())));
            }
            lines.rewind().unwrap();
            said
        };
        let said = all();
        assert_eq!((&said[0], &said[3]), (&(1, Ok("a".into())), &(6, Ok("b".into()))));
        assert!(said[1].1.as_ref().unwrap_err().starts_with("invalid type: sequence, expected a map"));
        assert_eq!((said[2].0, said[2].1.is_err()), (4, true));
        assert_eq!(all(), said, "and again");
        assert!(Lines::open(dir.path()).is_err());
    }
}
