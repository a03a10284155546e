//! The outcome: the terminal event, stored by whoever comes first.
//!
//! Worker and engine may both want to end a dispatch. The file is made whole and linked to its name, which succeeds for
//! one of them; everybody can read who that was.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

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
    let (staged, path) = (out.join(format!("{FILE}.{}", std::process::id())), out.join(FILE));
    let written = write(&staged, line).and_then(|()| fs::hard_link(&staged, &path));
    let _ = fs::remove_file(&staged);
    match written {
        Ok(()) => {
            File::open(out)?.sync_all()?;
            Ok(Stored::Ours)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut theirs = String::new();
            File::open(&path)?.take(LONGEST).read_to_string(&mut theirs)?;
            Ok(Stored::Theirs(theirs.trim_end().to_owned()))
        }
        Err(error) => Err(error),
    }
}

fn write(path: &Path, line: &str) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(line.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
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
        let (barrier, path) = (Barrier::new(8), dir.path().join(FILE));
        let link = |line: &str, number: usize| {
            let staged = dir.path().join(format!("staged-{number}"));
            write(&staged, line).unwrap();
            barrier.wait();
            fs::hard_link(&staged, &path).is_ok()
        };
        let wins = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|number| scope.spawn(move || link(&number.to_string(), number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(wins, 1);
    }
}
