//! A workspace that a test changes, and a git that judges the patch.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use agora_core::secret::{SecretValue, ShortSecrets};
use agora_worker::patch::{Among, Baseline, Known, PatchSummary};
use agora_worker::redact::Redactor;
use tempfile::TempDir;

/// What a patch can say of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    File { bytes: Vec<u8>, executable: bool },
    Link(Vec<u8>),
}

pub(crate) type Tree = BTreeMap<Vec<u8>, Item>;

pub(crate) fn file(bytes: impl AsRef<[u8]>) -> Item {
    Item::File { bytes: bytes.as_ref().to_vec(), executable: false }
}

pub(crate) fn program(bytes: impl AsRef<[u8]>) -> Item {
    Item::File { bytes: bytes.as_ref().to_vec(), executable: true }
}

pub(crate) fn link(target: impl AsRef<[u8]>) -> Item {
    Item::Link(target.as_ref().to_vec())
}

pub(crate) fn tree<const N: usize>(items: [(&str, Item); N]) -> Tree {
    items.into_iter().map(|(path, item)| (path.as_bytes().to_vec(), item)).collect()
}

/// Reads a directory, without what belongs to git or agora.
pub(crate) fn read(dir: &Path) -> Tree {
    fn walk(dir: &Path, prefix: &[u8], tree: &mut Tree) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if name == ".git" || (prefix.is_empty() && name == ".agora") {
                continue;
            }
            let path = [prefix, name.as_bytes()].concat();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                walk(&entry.path(), &[&path[..], b"/"].concat(), tree);
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                tree.insert(path, Item::Link(target.as_os_str().as_bytes().to_vec()));
            } else if kind.is_file() {
                let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
                tree.insert(path, Item::File { bytes: fs::read(entry.path()).unwrap(), executable });
            }
        }
    }
    let mut tree = Tree::new();
    walk(dir, b"", &mut tree);
    tree
}

/// Makes the directory hold exactly this tree. What is the same already is not touched.
pub(crate) fn make(dir: &Path, tree: &Tree) {
    let now = read(dir);
    for path in now.keys().filter(|path| now.get(*path) != tree.get(*path)) {
        fs::remove_file(at(dir, path)).unwrap();
        let mut parent = at(dir, path);
        while parent.pop() && parent != dir && fs::remove_dir(&parent).is_ok() {}
    }
    for (path, item) in tree.iter().filter(|(path, item)| now.get(*path) != Some(item)) {
        put(dir, path, item);
    }
}

pub(crate) fn put(dir: &Path, path: &[u8], item: &Item) {
    let path = at(dir, path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match item {
        Item::Link(target) => symlink(OsStr::from_bytes(target), path).unwrap(),
        Item::File { bytes, executable } => {
            fs::write(&path, bytes).unwrap();
            let mode = if *executable { 0o755 } else { 0o644 };
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }
}

pub(crate) fn at(dir: &Path, path: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(path))
}

pub(crate) fn git(dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

pub(crate) fn redactor(secrets: &[&str]) -> Redactor {
    let value = |text: &&str| SecretValue::new((*text).to_owned(), ShortSecrets::Allow).unwrap();
    let values: Vec<SecretValue> = secrets.iter().map(value).collect();
    Redactor::new(&values).unwrap()
}

/// A workspace, and what it was when the baseline was taken.
pub(crate) struct Work {
    pub(crate) dir: TempDir,
    pub(crate) before: Tree,
    pub(crate) baseline: Baseline,
    /// A copy of it, as a worker has one that knows what changed.
    pub(crate) frozen: Option<PathBuf>,
}

pub(crate) struct Patch {
    pub(crate) text: Vec<u8>,
    pub(crate) summary: PatchSummary,
}

impl Work {
    pub(crate) fn new(before: &Tree) -> Self {
        Self::prepared(|root| make(root, before))
    }

    pub(crate) fn prepared(prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let root = dir.path().join("work");
        prepare(&root);
        let baseline = Baseline::take(&root, spool(), &Known::default()).unwrap();
        let frozen = dir.path().join("frozen");
        // What cannot be copied is not looked at the other way.
        let copied = Command::new("cp").arg("-a").args([&root, &frozen]).output().unwrap().status.success();
        Self { before: read(&root), frozen: copied.then_some(frozen), dir, baseline }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn patch(&self, secrets: &[&str]) -> Patch {
        let noted = patch(&self.baseline, &self.root(), secrets);
        if let Some(frozen) = &self.frozen {
            // Whoever looks only at what differs, and has the originals as a tree, writes the same.
            let (before, now) = (read(frozen), read(&self.root()));
            let differ = before.keys().chain(now.keys()).filter(|path| before.get(*path) != now.get(*path));
            let known = Baseline::of_tree(frozen, Among::new(differ.cloned()), spool()).unwrap();
            let told = patch(&known, &self.root(), secrets);
            assert_eq!(String::from_utf8_lossy(&told.text), String::from_utf8_lossy(&noted.text));
        }
        noted
    }

    /// Writes the patch and lets git apply it to what there was: it must give what there is now.
    pub(crate) fn judged(&self) -> Patch {
        let patch = self.patch(&[]);
        applies(&self.before, &read(&self.root()), &patch.text);
        patch
    }
}

pub(crate) fn spool() -> File {
    tempfile::tempfile().unwrap()
}

pub(crate) fn patch(baseline: &Baseline, root: &Path, secrets: &[&str]) -> Patch {
    let mut text = Vec::new();
    let summary = baseline.patch(root, &redactor(secrets), &mut text).unwrap();
    assert_eq!(summary.bytes, text.len() as u64);
    Patch { text, summary }
}

/// Applies in a directory that is no repository and in one that is, and back again.
pub(crate) fn applies(before: &Tree, after: &Tree, text: &[u8]) {
    if text.is_empty() {
        // Git calls an empty patch an error.
        return assert_trees(before, after, "no patch");
    }
    let dir = tempfile::tempdir().unwrap();
    let patch = dir.path().join("patch");
    fs::write(&patch, text).unwrap();
    let patch = patch.to_str().unwrap();
    let shown = || format!("{before:?}\n{after:?}\n{}", String::from_utf8_lossy(text));
    for name in ["plain", "repository"] {
        let copy = dir.path().join(name);
        fs::create_dir(&copy).unwrap();
        make(&copy, before);
        if name == "repository" {
            git(&copy, &["init", "-q"]).unwrap();
        }
        git(&copy, &["apply", "--binary", patch])
            .unwrap_or_else(|error| panic!("{name}: {error}{}", shown()));
        assert_trees(&read(&copy), after, &shown());
        // Git cannot take back what made a link of a directory, if the link leads to itself.
        let beneath = |link: &[u8]| before.keys().any(|path| path.starts_with(&[link, b"/"].concat()));
        if after.iter().any(|(path, item)| matches!(item, Item::Link(_)) && beneath(path)) {
            continue;
        }
        git(&copy, &["apply", "-R", "--binary", patch]).unwrap_or_else(|error| panic!("{error}{}", shown()));
        assert_eq!(contents(&read(&copy)), contents(before), "{}", shown());
    }
}

/// Without modes: when git takes back a removal, it forgets the mode of what was removed.
fn contents(tree: &Tree) -> Vec<(&[u8], &[u8])> {
    fn content(item: &Item) -> &[u8] {
        match item {
            Item::File { bytes, .. } | Item::Link(bytes) => bytes,
        }
    }
    tree.iter().map(|(path, item)| (&**path, content(item))).collect()
}

#[track_caller]
fn assert_trees(one: &Tree, other: &Tree, about: &str) {
    assert_eq!(one, other, "{about}");
}
