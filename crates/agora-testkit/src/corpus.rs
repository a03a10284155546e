//! A corpus of good and broken inputs, and what can happen to them on their way.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

/// Reads the files of a directory, with their names, in the order of these.
pub fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    files
}

/// Makes inputs of a corpus: each a file of it, as it is or with a few changes.
pub fn inputs(dir: &Path) -> impl Strategy<Value = Vec<u8>> + use<> {
    let files = files(dir);
    (any::<Index>(), proptest::collection::vec(change(), 0..6))
        .prop_map(move |(which, changes)| changed(files[which.index(files.len())].1.clone(), &changes))
}

/// One thing that can happen to bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Cut(Index),
    Remove(Index, usize),
    /// Repeats a piece where it stands.
    Repeat(Index, usize),
    Insert(Index, Vec<u8>),
    /// Says a line twice: where it stands, or once more at the end.
    Double(Index, bool),
    /// Puts a line after all others.
    Last(Index),
    DropLine(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let interesting = prop_oneof![
        Just(b"\"".to_vec()),
        Just(b"{".to_vec()),
        Just(b"}".to_vec()),
        Just(b"[".to_vec()),
        Just(b"\\".to_vec()),
        Just(b"\\u0000".to_vec()),
        Just(b"\\ud83d".to_vec()),
        Just(b"null".to_vec()),
        Just(b"false".to_vec()),
        Just(b"-1e999".to_vec()),
        Just(b"18446744073709551616".to_vec()),
        Just(b",".to_vec()),
        Just(b"\xff".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"{{".to_vec()),
        Just(b"../".to_vec()),
        Just(b"AWAITING_USER_INPUT\n".to_vec()),
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        any::<Index>().prop_map(Change::Cut),
        (any::<Index>(), 1_usize..20).prop_map(|(at, size)| Change::Remove(at, size)),
        (any::<Index>(), 1_usize..40).prop_map(|(at, size)| Change::Repeat(at, size)),
        (any::<Index>(), interesting).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<Index>(), any::<bool>()).prop_map(|(at, at_the_end)| Change::Double(at, at_the_end)),
        any::<Index>().prop_map(Change::Last),
        any::<Index>().prop_map(Change::DropLine),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match change {
            Change::Set(at, byte) => bytes[at.index(length)] = *byte,
            Change::Cut(at) => bytes.truncate(at.index(length)),
            Change::Remove(at, size) => {
                drop(bytes.drain(at.index(length)..(at.index(length) + size).min(length)));
            }
            Change::Repeat(at, size) => {
                let piece = bytes[at.index(length)..(at.index(length) + size).min(length)].to_vec();
                bytes.splice(at.index(length)..at.index(length), piece);
            }
            Change::Insert(at, piece) => {
                drop(bytes.splice(at.index(length)..at.index(length), piece.clone()));
            }
            Change::Double(at, at_the_end) => {
                let mut lines = lines(&bytes);
                let which = at.index(lines.len());
                let again = lines[which].clone();
                lines.insert(if *at_the_end { lines.len() } else { which }, again);
                bytes = lines.concat();
            }
            Change::Last(at) => {
                let mut lines = lines(&bytes);
                let line = lines.remove(at.index(lines.len()));
                lines.push(line);
                bytes = lines.concat();
            }
            Change::DropLine(at) => {
                let mut lines = lines(&bytes);
                lines.remove(at.index(lines.len()));
                bytes = lines.concat();
            }
        }
    }
    bytes
}

/// Splits into lines that each have their end.
fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let end = |line: &[u8]| [line.strip_suffix(b"\n").unwrap_or(line), b"\n"].concat();
    bytes.split_inclusive(|byte| *byte == b'\n').map(end).collect()
}
