//! What of a repository is shown: its objects, and those that it borrows.
//!
//! A repository says where both are, and whoever made it may say what they like. A directory is shown if it is where a repository without
//! a word of its own has its objects, or if git made it: it is the `objects` of a repository, with nothing else in it.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agora_core::wall::Never;
use rustix::fs::FileType;

use super::layout::Layout;
use crate::straight;

/// How deep repositories borrow from one another.
const BORROWING: usize = 5;
/// What a list of others takes.
const ALTERNATES_BYTES: u64 = 1 << 20;
/// How files begin that somebody is still writing, and some that nobody came back for.
const UNFINISHED: [&[u8]; 6] = [b"tmp_", b".tmp", b"incoming-", b".nfs", b"gc_", b"pack_git2_"];

/// A directory of objects that may be shown. There is none that was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Store(PathBuf);

/// A directory that is not shown, though a repository says that it holds objects.
#[derive(Debug, thiserror::Error)]
#[error("it says that `{}` holds objects of it, and that is not shown: {why}", path.display())]
pub(crate) struct Unfit {
    path: PathBuf,
    why: String,
}

/// What nobody is shown, whoever names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed<'a> {
    /// Agora's own home.
    pub(crate) home: &'a Path,
    /// Keys and logins of the user's.
    pub(crate) never: Option<&'a Never>,
}

impl Closed<'_> {
    /// Says what a path is, if it is not shown.
    pub(crate) fn why(&self, path: &Path) -> Option<&'static str> {
        let home = fs::canonicalize(self.home).unwrap_or_else(|_| self.home.to_owned());
        if path.starts_with(home) {
            Some("is agora's own, with the work of all agents and its keys")
        } else if self.never.is_some_and(|never| never.holds(path)) {
            Some("holds keys or logins")
        } else {
            None
        }
    }
}

impl Store {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Names the objects of a repository that agora fetched itself.
    pub(crate) fn fetched(repository: &Path) -> Self {
        let objects = repository.join("objects");
        Self(fs::canonicalize(&objects).unwrap_or(objects))
    }

    /// Finds what a repository's objects are in, its own and those that it borrows.
    pub(crate) fn all(layout: &Layout, closed: Closed<'_>) -> Result<Vec<Self>, Unfit> {
        for path in [&layout.own, &layout.common] {
            if let Some(why) = closed.why(path) {
                return Err(Unfit { path: path.clone(), why: format!("it {why}") });
            }
        }
        let mut looking = Looking::new(Some(layout), closed);
        looking.follow(&layout.common.join("objects"), BORROWING);
        looking.unfit.map_or(Ok(looking.found), Err)
    }

    /// Finds which of the directories may be shown that a list names, as alternates are listed: it was made of some that might be, of the
    /// repository with this layout if it is still there, and they may have become anything since.
    pub(crate) fn still(list: &Path, layout: Option<&Layout>, closed: Closed<'_>) -> Vec<Self> {
        let mut looking = Looking::new(layout, closed);
        looking.list(list, Path::new("/"), BORROWING);
        looking.found
    }
}

struct Looking<'a> {
    closed: Closed<'a>,
    layout: Option<&'a Layout>,
    found: Vec<Store>,
    /// The first one.
    unfit: Option<Unfit>,
}

impl<'a> Looking<'a> {
    fn new(layout: Option<&'a Layout>, closed: Closed<'a>) -> Self {
        Self { closed, layout, found: Vec::new(), unfit: None }
    }

    fn follow(&mut self, objects: &Path, deep: usize) {
        // One that is not there holds nothing, as git sees it.
        let Ok(path) = fs::canonicalize(objects) else { return };
        if self.found.iter().any(|store| store.0 == path) {
            return;
        }
        if let Err(why) = self.fits(&path) {
            self.unfit.get_or_insert(Unfit { path, why });
            return;
        }
        self.found.push(Store(path.clone()));
        if deep > 0 {
            self.list(&path.join("info/alternates"), &path, deep - 1);
        }
    }

    fn list(&mut self, list: &Path, from: &Path, deep: usize) {
        let text = straight::read(list, ALTERNATES_BYTES).ok().flatten().unwrap_or_default();
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#') {
            self.follow(&from.join(Path::new(OsStr::from_bytes(line))), deep);
        }
    }

    fn fits(&self, path: &Path) -> Result<(), String> {
        if let Some(why) = self.closed.why(path) {
            return Err(format!("it {why}"));
        }
        let failed = |error: std::io::Error| error.to_string();
        let meta = fs::symlink_metadata(path).map_err(failed)?;
        let own = self.layout.filter(|layout| path == layout.common.join("objects"));
        match own {
            // Nobody but the person who named the tree says that this is it.
            Some(layout) if !layout.is_led && meta.is_dir() => return Ok(()),
            Some(_) => {}
            None if !self.is_open(path, &meta) => {
                return Err("it belongs to somebody else than the repository, and not everybody may read it"
                    .to_owned());
            }
            None => {}
        }
        let is_repositorys = path.file_name() == Some(OsStr::new("objects"))
            && fs::symlink_metadata(path.with_file_name("HEAD")).is_ok_and(|head| !head.is_dir());
        if !is_repositorys {
            return Err("it is not the `objects` of a repository".to_owned());
        }
        match stranger(path).map_err(failed)? {
            Some(odd) => Err(format!("`{}` in it is none of git's", odd.display())),
            None => Ok(()),
        }
    }

    /// Tells whether it is shown to nobody who could not read it. The kernel sees to that, except for root, who works for others, too.
    fn is_open(&self, path: &Path, meta: &Metadata) -> bool {
        let me = rustix::process::geteuid();
        let owner = self.layout.and_then(|layout| fs::symlink_metadata(&layout.own).ok());
        let owner = owner.map_or(me.as_raw(), |owner| owner.uid());
        let may = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.mode() & 0o001 != 0);
        !me.is_root() || meta.uid() == owner || (path.ancestors().all(may) && meta.mode() & 0o004 != 0)
    }
}

/// Finds something in a directory of objects that git does not keep there. By their names: what they hold nobody looks at.
fn stranger(objects: &Path) -> std::io::Result<Option<PathBuf>> {
    for (name, kind) in straight::list(objects)? {
        let path = objects.join(&name);
        let is_known: fn(&[u8], bool) -> bool = match (name.as_bytes(), kind) {
            (b"pack", FileType::Directory) => is_of_packs,
            (b"info", FileType::Directory) => is_of_info,
            (name, FileType::Directory) if name.len() == 2 && is_hex(name) => is_object,
            (b"object-map", FileType::Directory) => |_, is_dir| !is_dir,
            (b"loose-object-idx", FileType::RegularFile) => continue,
            (name, FileType::Directory | FileType::RegularFile) if is_unfinished(name) => continue,
            _ => return Ok(Some(name.into())),
        };
        for (below, kind) in straight::list(&path)? {
            let name = below.as_bytes();
            let is_plain = matches!(kind, FileType::Directory | FileType::RegularFile);
            if !is_plain || !(is_known(name, kind == FileType::Directory) || is_unfinished(name)) {
                return Ok(Some(Path::new(&path.file_name().unwrap_or_default()).join(below)));
            }
        }
    }
    Ok(None)
}

fn is_object(name: &[u8], is_dir: bool) -> bool {
    !is_dir && is_hex(name) && matches!(name.len(), 38 | 62)
}

fn is_of_packs(name: &[u8], is_dir: bool) -> bool {
    if is_dir {
        return matches!(name, b"multi-pack-index.d" | b"preserved");
    }
    // Those of single objects are what `git maintenance` packs.
    [&b"pack-"[..], b"loose-", b"multi-pack-index", b"insert_"].iter().any(|start| name.starts_with(start))
}

fn is_of_info(name: &[u8], is_dir: bool) -> bool {
    if is_dir {
        return name == b"commit-graphs";
    }
    matches!(name, b"packs" | b"alternates" | b"http-alternates" | b"commit-graph")
}

fn is_hex(name: &[u8]) -> bool {
    name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_unfinished(name: &[u8]) -> bool {
    UNFINISHED.iter().any(|start| name.starts_with(start)) || name.ends_with(b".lock")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_git_keeps_among_objects_is_known_by_its_name() {
        let object = "0123456789abcdef0123456789abcdef012345";
        let kept = [
            format!("ab/{object}"),
            format!("ab/{object}{}", "0".repeat(24)),
            "ab/tmp_obj_x1".to_owned(),
            "pack/pack-12.pack".to_owned(),
            "pack/pack-12.bitmap".to_owned(),
            "pack/loose-12.pack".to_owned(),
            "pack/multi-pack-index.d/multi-pack-index-chain".to_owned(),
            "pack/multi-pack-index.lock".to_owned(),
            "pack/tmp_pack_x1".to_owned(),
            "info/alternates".to_owned(),
            "info/commit-graphs/graph-12.graph".to_owned(),
            "tmp_objdir-incoming-x1/pack/x".to_owned(),
            "maintenance.lock".to_owned(),
            "object-map/map-12.map".to_owned(),
        ];
        let odd = [
            "id_ed25519",
            "ab/id_ed25519",
            "AB/x",
            "abc/x",
            "pack/id_ed25519",
            "pack/pack-12/id_ed25519",
            "info/exclude",
            "info/commit-graph/x",
            "info2/x",
        ];
        let put = |objects: &Path, path: &str| {
            let path = objects.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        let dir = tempfile::tempdir().unwrap();
        let objects = fs::canonicalize(dir.path()).unwrap().join("objects");
        for path in &kept {
            put(&objects, path);
            assert_eq!(stranger(&objects).unwrap(), None, "{path}");
        }
        fs::create_dir_all(format!("{}/cd/{object}", objects.display())).unwrap();
        assert!(stranger(&objects).unwrap().is_some(), "an object is no directory");
        for (number, path) in odd.into_iter().enumerate() {
            let objects = objects.with_file_name(number.to_string());
            put(&objects, path);
            assert!(stranger(&objects).unwrap().is_some(), "{path}");
        }
        let objects = objects.with_file_name("linked");
        fs::create_dir(&objects).unwrap();
        symlink("/etc", objects.join("pack")).unwrap();
        assert_eq!(stranger(&objects).unwrap(), Some("pack".into()));
    }
}
