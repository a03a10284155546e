//! A file of inputs, a JSON object a line, read one by one: it may be larger than what one would hold.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use agora_core::limits::INPUT_BYTES;
use agora_core::strict::{self, StrictError};
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
                return Ok(Some((self.number, input(&bytes, self.number))));
            }
        }
    }

    fn skip_line(&mut self) -> Result<(), Failure> {
        self.reader.skip_until(b'\n').map(drop).map_err(|error| unreadable(&self.path, &error))
    }
}

fn input(line: &[u8], number: usize) -> Result<Map<String, Value>, String> {
    let text = str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?.trim_end();
    // Some editors begin a file with one.
    let text = text.strip_prefix('\u{feff}').filter(|_| number == 1).unwrap_or(text);
    match strict::parse(text) {
        Ok(Value::Object(input)) => Ok(input),
        Ok(_) => Err("it is not a JSON object".to_owned()),
        // Lines are counted here.
        Err(StrictError::Syntax { column, .. }) => Err(format!("it is not JSON: column {column}")),
        Err(StrictError::KeyTwice { column, .. }) => {
            Err(format!("an object has a key twice: column {column}"))
        }
        Err(error @ StrictError::TooDeep(_)) => Err(error.to_string()),
    }
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
        assert_eq!(said[1].1, Err("it is not a JSON object".to_owned()));
        assert_eq!((said[2].0, said[2].1.is_err()), (4, true));
        assert_eq!(all(), said, "and again");
        assert!(Lines::open(dir.path()).is_err());
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said_in_words() {
        for (line, why) in [
            ("not json", "it is not JSON: column 2"),
            ("{\"task\":\"a\"\n", "it is not JSON: column 11"),
            ("{\"task\":\"x\",\"task\":\"y\"}", "an object has a key twice: column 18"),
            ("\"s\"", "it is not a JSON object"),
        ] {
            assert_eq!(input(line.as_bytes(), 1), Err(why.to_owned()), "{line}");
        }
        assert!(input(b"{\"task\":\"\xff\"}", 1).is_err());
        let marked = "\u{feff}{\"task\":\"a\"}";
        assert!(input(marked.as_bytes(), 1).is_ok(), "a byte order mark is no fault");
        assert!(input(marked.as_bytes(), 2).is_err(), "but where a file begins");
    }
}
