//! The outcome: the terminal event, stored by whoever comes first.
//!
//! Worker and engine may both want to end a dispatch. The file is made whole and linked to its name, which succeeds for
//! one of them; everybody can read who that was.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::unnamed::Unnamed;

/// The file in the dispatch's `out` directory.
pub(crate) const FILE: &str = "outcome.json";
/// An outcome holds a question of at most 1 MiB, as JSON.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Who ended the dispatch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Ours,
    /// Somebody else did before, with this line.
    Theirs(String),
}

/// Stores a terminal line, unless there is one.
pub(crate) fn store(out: &Path, line: &str) -> io::Result<Stored> {
    let path = out.join(FILE);
    let mut staged = Unnamed::new(out)?;
    staged.file.write_all(format!("{line}\n").as_bytes())?;
    match staged.link(&path) {
        // With a new file its name goes to the disk: on Linux it is part of what the file's own sync waits for.
        Ok(file) => file.sync_all().map(|()| Stored::Ours),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut theirs = String::new();
            File::open(&path)?.take(LONGEST).read_to_string(&mut theirs)?;
            Ok(Stored::Theirs(theirs.trim_end().to_owned()))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn of_many_one_wins_and_all_see_who() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("unrelated"), "").unwrap();
        assert_eq!(store(dir.path(), "first").unwrap(), Stored::Ours);
        for _ in 0..3 {
            assert_eq!(store(dir.path(), "second").unwrap(), Stored::Theirs("first".to_owned()));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn a_race_has_one_winner() {
        let dir = tempfile::tempdir().unwrap();
        let barrier = Barrier::new(8);
        let (dir, barrier) = (dir.path(), &barrier);
        let store_one = |number: usize| {
            barrier.wait();
            store(dir, &number.to_string()).unwrap() == Stored::Ours
        };
        let wins = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || store_one(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(wins, 1);
    }
}
