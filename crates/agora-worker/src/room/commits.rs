//! The agent's own commits: the objects that its repository has and nobody else, and where its HEAD ended.
//!
//! All of it is the agent's: read without following a link, with caps, and looked through for secrets.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use agora_core::wire::report::LeftRef;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};

use super::packed::{self, Names, Unread};
use crate::patch::root::Root;
use crate::redact::Redactor;

/// Objects of one agent: some thousand commits.
const OBJECTS: usize = 100_000;
/// All of them, as they are stored and as they are read.
const BYTES: u64 = 256 << 20;
const READ_BYTES: u64 = 1 << 30;
/// An object's content: what is larger is no work of an agent's.
const OBJECT_BYTES: usize = 64 << 20;
const LINE_BYTES: u64 = 4096;
const STASH: &str = "refs/stash";
/// More branches than that nobody reads of.
const OTHERS: usize = 100;
/// How hard to deflate what was packed: git packs it again.
const QUICKLY: u8 = 1;

/// Why commits are not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unkept {
    #[error("there are too many, or a file in them has more than 64 MiB")]
    TooLarge,
    #[error("one of them holds a secret")]
    Secret,
    #[error("the repository's HEAD names no commit")]
    Head,
    #[error("an object of theirs is no object")]
    Malformed,
    #[error("they could not be read")]
    Io(#[from] io::Error),
}

/// Reads which commit HEAD names. `None`: the workspace has no repository, or one without a commit.
pub(crate) fn head(work: &Path) -> Result<Option<String>, Unkept> {
    let git = work.join(".git");
    match fs::symlink_metadata(&git) {
        Ok(data) if data.is_dir() => {}
        Ok(_) => return Err(Unkept::Head),
        Err(_) => return Ok(None),
    }
    let mut name = "HEAD".to_owned();
    for _ in 0..5 {
        let Some(text) = text(work, &name)? else { return packed_ref(work, &name) };
        match text.strip_prefix("ref:") {
            Some(next) => name = next.trim().to_owned(),
            None => return if is_id(&text) { Ok(Some(text)) } else { Err(Unkept::Head) },
        }
        let plain = name.starts_with("refs/") && !name.split('/').any(|part| matches!(part, "" | "." | ".."));
        if !plain {
            return Err(Unkept::Head);
        }
    }
    Err(Unkept::Head)
}

/// Reads a file of git's that holds one line. A link or a pipe is no such file.
fn text(work: &Path, name: &str) -> Result<Option<String>, Unkept> {
    match read(work, &format!(".git/{name}"), LINE_BYTES) {
        Ok(bytes) => Ok(Some(String::from_utf8(bytes).map_err(|_| Unkept::Head)?.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(Unkept::Head),
    }
}

/// Looks for a ref among those that share a file. A branch that is nowhere has no commit yet.
fn packed_ref(work: &Path, name: &str) -> Result<Option<String>, Unkept> {
    let refs = match read(work, ".git/packed-refs", 64 << 20) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        refs => refs.map_err(|_| Unkept::Head)?,
    };
    let refs = String::from_utf8_lossy(&refs);
    let found = refs.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
    match found {
        Some(id) if is_id(id) => Ok(Some(id.to_owned())),
        None if name.starts_with("refs/heads/") => Ok(None),
        Some(_) | None => Err(Unkept::Head),
    }
}

fn read(work: &Path, below: &str, most: u64) -> io::Result<Vec<u8>> {
    crate::patch::read_below(work, below.as_bytes(), most)
}

fn too_large(error: io::Error) -> Unkept {
    if error.kind() == io::ErrorKind::FileTooLarge { Unkept::TooLarge } else { error.into() }
}

fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes every object that only this repository has: a name with its length, and the bytes with theirs. Returns the names.
pub(crate) fn pack(
    work: &Path,
    redactor: &Redactor,
    head: &str,
    out: &mut dyn Write,
) -> Result<HashSet<String>, Unkept> {
    let mut kept = Kept { redactor, out, names: HashSet::new(), bytes: 0, inflated: 0 };
    for name in names(work, ".git/objects/pack")?.into_iter().filter(|name| name.ends_with(".pack")) {
        let pack = read(work, &format!(".git/objects/pack/{name}"), BYTES).map_err(too_large)?;
        let objects = packed::objects(&pack, Names::of(head)).map_err(|unread| match unread {
            Unread::Malformed => Unkept::Malformed,
            Unread::TooLarge => Unkept::TooLarge,
        })?;
        for object in objects {
            let alone = compress_to_vec_zlib(&object.whole, QUICKLY);
            kept.take(&object.id, &alone, &object.whole)?;
        }
    }
    for dir in names(work, ".git/objects")?.into_iter().filter(|name| is_hex(name) && name.len() == 2) {
        for rest in names(work, &format!(".git/objects/{dir}"))?.into_iter().filter(|name| is_hex(name)) {
            let id = format!("{dir}{rest}");
            if !is_id(&id) {
                continue;
            }
            let object = read(work, &format!(".git/objects/{dir}/{rest}"), BYTES).map_err(too_large)?;
            let content = decompress_to_vec_zlib_with_limit(&object, OBJECT_BYTES);
            let content = content.map_err(|error| match error.status {
                TINFLStatus::HasMoreOutput => Unkept::TooLarge,
                _ => Unkept::Malformed,
            })?;
            kept.take(&id, &object, &content)?;
        }
    }
    Ok(kept.names)
}

/// Returns the branches, and the stash, that name one of these objects, and not where HEAD is.
pub(crate) fn others(work: &Path, own: &HashSet<String>, head: &str, redactor: &Redactor) -> Vec<LeftRef> {
    let packed = read(work, ".git/packed-refs", 64 << 20).unwrap_or_default();
    let packed = String::from_utf8_lossy(&packed).into_owned();
    let packed = packed.lines().filter_map(|line| line.split_once(' '));
    let mut found: BTreeMap<String, String> =
        packed.map(|(commit, name)| (name.to_owned(), commit.to_owned())).collect();
    // What is loose goes before what is packed.
    let mut waiting = vec!["refs/heads".to_owned(), STASH.to_owned()];
    for _ in 0..OBJECTS {
        let Some(name) = waiting.pop() else { break };
        if let Ok(Some(commit)) = text(work, &name) {
            found.insert(name, commit);
        } else {
            let below = names(work, &format!(".git/{name}")).unwrap_or_default();
            waiting.extend(below.into_iter().map(|part| format!("{name}/{part}")));
        }
    }
    let left = found.into_iter().filter(|(_, commit)| commit != head && own.contains(commit));
    let left = left.filter_map(|(name, commit)| {
        let name = if name == STASH { "the stash" } else { name.strip_prefix("refs/heads/")? };
        Some(LeftRef { name: redactor.text(name).into_owned(), commit })
    });
    left.take(OTHERS).collect()
}

/// What is kept so far, and where it goes.
struct Kept<'a> {
    redactor: &'a Redactor,
    out: &'a mut dyn Write,
    names: HashSet<String>,
    bytes: u64,
    inflated: u64,
}

impl Kept<'_> {
    /// Takes an object, as git would store it alone, and what that holds.
    fn take(&mut self, id: &str, object: &[u8], content: &[u8]) -> Result<(), Unkept> {
        self.names.insert(id.to_owned());
        self.bytes += object.len() as u64;
        self.inflated += content.len() as u64;
        if self.names.len() > OBJECTS || self.bytes > BYTES || self.inflated > READ_BYTES {
            return Err(Unkept::TooLarge);
        }
        if self.redactor.holds(content) {
            return Err(Unkept::Secret);
        }
        self.out.write_all(&[u8::try_from(id.len()).unwrap_or(0)])?;
        self.out.write_all(id.as_bytes())?;
        self.out.write_all(&(object.len() as u64).to_le_bytes())?;
        self.out.write_all(object)?;
        Ok(())
    }
}

fn is_hex(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Lists a directory that is reached without a link. One that is not there is empty.
fn names(work: &Path, below: &str) -> Result<Vec<String>, Unkept> {
    let paths = match Root::open(work)?.list(below.as_bytes(), OBJECTS) {
        Ok(paths) => paths,
        Err(error) => {
            return match error.kind() {
                io::ErrorKind::NotFound => Ok(Vec::new()),
                io::ErrorKind::FileTooLarge => Err(Unkept::TooLarge),
                _ => Err(Unkept::Malformed),
            };
        }
    };
    let name = |path: &Vec<u8>| String::from_utf8(path[below.len() + 1..].to_vec()).ok();
    Ok(paths.iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_object_is_looked_for_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (work, foreign) = (dir.path().join("work"), dir.path().join("foreign"));
        let redactor = Redactor::new([]).unwrap();
        for (link, packed) in [(".git/objects", "pack"), (".git/objects/pack", ""), (".git", "objects/pack")]
        {
            for there in [false, true] {
                fs::create_dir_all(work.join(link).parent().unwrap()).unwrap();
                fs::create_dir_all(foreign.join(packed)).unwrap();
                if there {
                    fs::write(foreign.join(packed).join("x.pack"), "PACK").unwrap();
                }
                symlink(&foreign, work.join(link)).unwrap();
                // Whether there is something tells as little as what it is.
                let packed = pack(&work, &redactor, &"0".repeat(40), &mut Vec::new());
                assert!(matches!(packed, Err(Unkept::Malformed)), "{link} {there}: {packed:?}");
                fs::remove_dir_all(&work).unwrap();
                fs::remove_dir_all(&foreign).unwrap();
            }
        }
    }
}
