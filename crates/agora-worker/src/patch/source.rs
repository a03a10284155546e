//! What the workspace was made from, before a capability or the setup script changed anything in it.
//!
//! A baseline is what the agent was given. A patch stands on the source: it must fit there. Where the two differ, what the agent did
//! to what it was given is done to the source's file.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{Dir, FileType};

use super::FILE_BYTES;
use super::entry::{Name, Node, Sorted, above, executable};
use super::ignored::join;
use super::left_out::Why;
use super::root::{Root, Unread};
use super::section::{Mode, Side};
use super::text;

/// The files that a workspace was made from. Only read.
#[derive(Debug)]
pub struct Source {
    /// The topmost first.
    trees: Vec<Root>,
    /// What of the lower ones is not there.
    gone: BTreeSet<Name>,
}

/// How a path comes to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brought {
    /// Nobody but the agent changed it.
    Plain,
    /// What the agent did to it was done to the source's.
    Merged,
    /// As it ended, with what somebody else had done to it.
    Whole,
}

impl Source {
    /// Knows trees, the topmost first, and which paths of the lower ones are not there.
    pub fn open(trees: &[PathBuf], gone: &[PathBuf]) -> io::Result<Self> {
        let trees = trees.iter().map(|tree| Root::open(tree)).collect::<io::Result<_>>()?;
        let gone = gone.iter().map(|path| path.as_os_str().as_bytes().into()).collect();
        Ok(Self { trees, gone })
    }

    /// Reads the file or link at a path.
    pub(super) fn side(&self, path: &[u8]) -> Result<Option<Side>, Why> {
        let Some((tree, kind, executable)) = self.find(path) else { return Ok(None) };
        match kind {
            FileType::RegularFile => {
                let bytes = tree.read(path, FILE_BYTES).map_err(|unread| match unread {
                    Unread::TooLarge => Why::TooLarge,
                    Unread::Unreadable => Why::Unreadable,
                })?;
                Ok(Some(Side { mode: Mode::of_file(executable), bytes }))
            }
            FileType::Symlink => {
                let bytes = tree.link(path).map_err(|_| Why::Unreadable)?.into_vec();
                Ok(Some(Side { mode: Mode::Link, bytes }))
            }
            _ => Ok(None),
        }
    }

    /// Tells whether a file or link is at the path.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.find(path).is_some_and(|(_, kind, _)| kind != FileType::Directory)
    }

    /// Tells whether a file is at the path.
    pub(super) fn has_file(&self, path: &[u8]) -> bool {
        self.find(path).is_some_and(|(_, kind, _)| kind == FileType::RegularFile)
    }

    /// Tells whether a new file cannot be at a path, because of something that the agent was not given: it cannot have taken it away.
    pub(super) fn is_in_the_way(&self, path: &[u8], given: &Sorted<Node>) -> bool {
        let not_given = |path: &[u8]| self.has(path) && given.find(path).is_none();
        above(path).any(not_given) || self.any_beneath(path, &not_given)
    }

    fn any_beneath(&self, dir: &[u8], is_meant: &dyn Fn(&[u8]) -> bool) -> bool {
        let listed = self.trees.iter().filter_map(|tree| Dir::new(tree.dir(dir).ok()?).ok());
        listed.flatten().flatten().any(|entry| {
            let name = entry.file_name().to_bytes();
            let path = join(dir, name);
            !matches!(name, b"." | b"..") && (is_meant(&path) || self.any_beneath(&path, is_meant))
        })
    }

    /// Finds the topmost tree that has the path, and what is there.
    fn find(&self, path: &[u8]) -> Option<(&Root, FileType, bool)> {
        for (number, tree) in self.trees.iter().enumerate() {
            let is_gone = |path: &[u8]| number > 0 && self.gone.contains(path);
            if is_gone(path) || above(path).any(is_gone) {
                return None;
            }
            if let Ok(stat) = tree.stat(path) {
                return Some((tree, FileType::from_raw_mode(stat.st_mode), executable(&stat)));
            }
            let is_file = |dir: &[u8]| {
                tree.stat(dir).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory)
            };
            if above(path).any(is_file) {
                return None;
            }
        }
        None
    }
}

/// Does to the source's file what the agent did to the one that it was given.
pub(super) fn merged(given: &Side, source: &Side, ended: Side, effort: &mut u64) -> (Side, Brought) {
    if given == source {
        return (ended, Brought::Plain);
    }
    let links = [given, source, &ended].iter().filter(|side| side.mode == Mode::Link).count();
    if links > 0 {
        return (ended, Brought::Whole);
    }
    let mode = if ended.mode == given.mode { source.mode } else { ended.mode };
    let bytes = if ended.bytes == given.bytes {
        Some(source.bytes.clone())
    } else if source.bytes == given.bytes {
        Some(ended.bytes.clone())
    } else if [given, source, &ended]
        .iter()
        .all(|side| text::is_comparable(&side.bytes) && !side.bytes.contains(&0))
    {
        text::merged(&given.bytes, &source.bytes, &ended.bytes, effort)
    } else {
        None
    };
    match bytes {
        Some(bytes) => (Side { mode, bytes }, Brought::Merged),
        None => (ended, Brought::Whole),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn side(mode: Mode, bytes: &str) -> Side {
        Side { mode, bytes: bytes.into() }
    }

    #[test]
    fn the_topmost_tree_decides_and_what_is_gone_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let (top, base) = (dir.path().join("top"), dir.path().join("base"));
        for path in ["top/d", "base/d", "base/was"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        for (path, content) in [
            ("top/both", "top"),
            ("base/both", "base"),
            ("base/d/deep", "deep"),
            ("base/gone", "x"),
            ("base/was/in", "x"),
            ("top/was", "now a file"),
        ] {
            fs::write(dir.path().join(path), content).unwrap();
        }
        symlink("both", top.join("link")).unwrap();
        let source = Source::open(&[top, base], &[PathBuf::from("gone")]).unwrap();
        let read = |path: &str| {
            let side = source.side(path.as_bytes()).unwrap();
            side.map(|side| (side.mode, String::from_utf8(side.bytes).unwrap()))
        };
        let plain = |text: &str| Some((Mode::Plain, text.to_owned()));
        assert_eq!(
            (read("both"), read("d/deep"), read("was")),
            (plain("top"), plain("deep"), plain("now a file"))
        );
        assert_eq!(read("link"), Some((Mode::Link, "both".to_owned())));
        assert_eq!((read("gone"), read("was/in"), read("d"), read("none")), (None, None, None, None));
        assert!(source.has(b"link") && source.has(b"d/deep") && !source.has(b"d") && !source.has(b"gone"));
        let given = |paths: &[&str]| {
            let link = Node::Link(Box::from(&b"x"[..]));
            Sorted::new(paths.iter().map(|path| (path.as_bytes().into(), link.clone())).collect())
        };
        let nothing = given(&[]);
        for path in ["d", "was/new", "link/x"] {
            assert!(source.is_in_the_way(path.as_bytes(), &nothing), "{path}");
            assert!(!source.is_in_the_way(path.as_bytes(), &given(&["d/deep", "was", "link"])), "{path}");
        }
        for path in ["d/new", "gone/new", "new"] {
            assert!(!source.is_in_the_way(path.as_bytes(), &nothing), "{path}");
        }
    }

    #[test]
    fn what_the_agent_did_is_done_to_the_sources_file() {
        use Mode::{Executable, Link, Plain};
        let merge = |given: &Side, source: &Side, ended: &Side| {
            merged(given, source, ended.clone(), &mut u64::MAX.clone())
        };
        let (source, given) = (side(Plain, "1\n2\n3\n"), side(Executable, "one\n2\n3\n"));
        let ended = side(Executable, "one\n2\nthree\n");
        assert_eq!(merge(&given, &source, &ended), (side(Plain, "1\n2\nthree\n"), Brought::Merged));
        assert_eq!(merge(&source, &source, &ended), (ended.clone(), Brought::Plain));
        // A mode alone is a change, too.
        let ended = side(Plain, "one\n2\n3\n");
        assert_eq!(merge(&given, &source, &ended), (source.clone(), Brought::Merged));
        let (given, ended) = (side(Plain, "one\n2\n3\n"), side(Executable, "one\n2\n3\n"));
        assert_eq!(merge(&given, &source, &ended), (side(Executable, "1\n2\n3\n"), Brought::Merged));
        for ended in [side(Plain, "ONE\n2\n3\n"), side(Plain, "one\n2\n\0"), side(Link, "one")] {
            assert_eq!(merge(&given, &source, &ended), (ended.clone(), Brought::Whole));
        }
    }
}
