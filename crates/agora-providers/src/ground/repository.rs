//! The repository that an agent sees: HEAD, refs and index of the user's, objects borrowed, nothing that runs.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agora_core::ground::Author;
use agora_core::provider::ground::GroundError;
use rustix::fs::FileType;

use super::copy::{self, Owner};
use crate::git::config::{self, Setting};
use crate::git::layout::{CONFIG_BYTES, Layout};
use crate::git::store::Store;
use crate::straight;

/// More refs than any repository has.
const PACKED_BYTES: u64 = 256 << 20;
/// More loose refs than this are packed, or somebody's mistake.
const REFS: usize = 100_000;

/// What says what a repository is, rather than what to do with it.
const KEPT: [(&str, &[&str]); 5] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "symlinks",
            "ignorecase",
            "precomposeunicode",
            "autocrlf",
            "eol",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "quotepath",
            "abbrev",
        ],
    ),
    ("extensions", &["objectformat", "compatobjectformat"]),
    ("branch", &["remote", "merge", "rebase"]),
    ("submodule", &["active", "path", "branch", "url", "fetch"]),
    ("remote", &["url", "fetch"]),
];
/// What git keeps beside HEAD while something is under way, and what says which part of it is there.
const BESIDE: [&str; 9] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "ORIG_HEAD",
    "info/exclude",
    "info/sparse-checkout",
    "info/grafts",
];

/// A repository that is being made.
#[derive(Debug)]
pub(super) struct Repository<'a> {
    pub(super) layout: &'a Layout,
    /// What its objects are in.
    pub(super) stores: &'a [Store],
    pub(super) author: Option<&'a Author>,
    pub(super) owner: Owner,
}

impl Repository<'_> {
    /// Makes a `.git` where none is.
    pub(super) fn make(&self, to: &Path) -> Result<(), GroundError> {
        let settings = self.settings().map_err(|error| refused_or(failed(&self.layout.common), error))?;
        let is = |section: &str, key: &str| {
            settings.iter().find(|setting| setting.section == section && setting.key == key)
        };
        if let Some(storage) = is("extensions", "refstorage").filter(|setting| setting.value != "files") {
            return Err(GroundError::Refused {
                what: format!(
                    "the repository keeps its refs as `{}`, which agora cannot read yet",
                    storage.value
                ),
                hint: Some("`git refs migrate --ref-format=files` changes that".to_owned()),
            });
        }
        let mut paths = self.stores.iter().map(Store::path);
        if let Some(odd) = paths.find(|path| path.as_os_str().as_bytes().contains(&b'\n')) {
            let what = format!(
                "`{}` has a line break in its name: no other repository can borrow from it",
                odd.display()
            );
            return Err(GroundError::Refused { what, hint: Some("give it another name".to_owned()) });
        }
        self.fill(to, &settings).map_err(|error| refused_or(failed(to), error))
    }

    fn settings(&self) -> io::Result<Vec<Setting>> {
        let mut settings = Vec::new();
        for file in [self.layout.common.join("config"), self.layout.own.join("config.worktree")] {
            let bytes = straight::read(&file, CONFIG_BYTES).map_err(closed(&file))?.unwrap_or_default();
            settings.extend(config::parse(&String::from_utf8_lossy(&bytes)));
        }
        Ok(settings)
    }

    fn fill(&self, to: &Path, settings: &[Setting]) -> io::Result<()> {
        for dir in [
            "",
            "info",
            "objects",
            "objects/info",
            "objects/pack",
            "refs",
            "refs/heads",
            "refs/tags",
            "hooks",
        ] {
            copy::directory(&to.join(dir), 0o755, self.owner)?;
        }
        let (own, common) = (&self.layout.own, &self.layout.common);
        self.copy(&own.join("HEAD"), &to.join("HEAD"))?;
        self.copy(&own.join("index"), &to.join("index"))?;
        self.shared_index(to)?;
        for name in BESIDE {
            // What is no plain file is not as git made it, and says nothing.
            let open = |dir: &PathBuf| straight::file(&dir.join(name)).ok().flatten();
            if let Some(file) = open(own).or_else(|| open(common)) {
                copy::opened(&file, &to.join(name), self.owner)?;
            }
        }
        self.copy(&common.join("shallow"), &to.join("shallow"))?;
        self.packed_refs(&common.join("packed-refs"), &to.join("packed-refs"))?;
        let mut left = REFS;
        self.refs(&common.join("refs"), &to.join("refs"), Path::new(""), &mut left)?;
        let mut alternates = Vec::new();
        for store in self.stores {
            alternates.extend(store.path().as_os_str().as_bytes());
            alternates.push(b'\n');
        }
        self.write(&to.join("objects/info/alternates"), &alternates)?;
        self.write(&to.join("config"), config::write(&self.made(settings)).as_bytes())
    }

    /// Copies a file of git's that need not be there.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = straight::file(from).map_err(closed(from))?;
        file.map_or(Ok(()), |file| copy::opened(&file, to, self.owner))
    }

    /// An index may stand on another file, of which only the changes are its own.
    fn shared_index(&self, to: &Path) -> io::Result<()> {
        let own = &self.layout.own;
        for (name, _) in straight::list(own).map_err(closed(own))? {
            if name.as_bytes().starts_with(b"sharedindex.") {
                self.copy(&own.join(&name), &to.join(&name))?;
            }
        }
        Ok(())
    }

    /// Copies packed refs, but those of other agents' work, with what a tag among them stands for.
    fn packed_refs(&self, from: &Path, to: &Path) -> io::Result<()> {
        let Some(refs) = straight::read(from, PACKED_BYTES).map_err(closed(from))? else { return Ok(()) };
        let (mut kept, mut is_kept) = (Vec::with_capacity(refs.len()), true);
        for line in refs.split_inclusive(|&byte| byte == b'\n') {
            // A line that begins so belongs to the one before it.
            if !line.starts_with(b"^") {
                let name = line.iter().position(|&byte| byte == b' ').map_or(line, |cut| &line[cut + 1..]);
                is_kept = !name.starts_with(b"refs/agora/");
            }
            kept.extend(line.iter().filter(|_| is_kept));
        }
        self.write(to, &kept)
    }

    /// Copies loose refs, but those of other agents' work.
    fn refs(&self, from: &Path, to: &Path, below: &Path, left: &mut usize) -> io::Result<()> {
        for (entry, kind) in straight::list(from).map_err(closed(from))? {
            let name = below.join(&entry);
            if name == Path::new("agora") {
                continue;
            }
            let (from, target) = (from.join(&entry), to.join(&entry));
            if kind == FileType::Directory {
                copy::directory(&target, 0o755, self.owner)?;
                self.refs(&from, &target, &name, left)?;
            } else if kind == FileType::RegularFile {
                *left = left.checked_sub(1).ok_or_else(|| io::Error::other("it has too many loose refs"))?;
                self.copy(&from, &target)?;
            }
        }
        Ok(())
    }

    fn write(&self, to: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::File::options().write(true).create_new(true).open(to)?.write_all(bytes)?;
        self.owner.set(to)
    }

    /// Returns the configuration of the repository that is made.
    fn made(&self, settings: &[Setting]) -> Vec<Setting> {
        let kept = |setting: &&Setting| {
            KEPT.iter().any(|(section, keys)| *section == setting.section && keys.contains(&&*setting.key))
        };
        // A URL may stand in the place of any name, and a password in every URL.
        let plain = |setting: &Setting| Setting {
            subsection: setting.subsection.as_deref().map(config::without_user),
            value: config::without_user(&setting.value),
            ..setting.clone()
        };
        let mut made: Vec<Setting> = settings.iter().filter(kept).map(plain).collect();
        let ours = [
            ("core", "bare", "false"),
            ("core", "hooksPath", "/dev/null"),
            ("core", "checkStat", "minimal"),
            ("core", "trustctime", "false"),
            ("core", "fsmonitor", "false"),
            ("gc", "auto", "0"),
            ("maintenance", "auto", "false"),
            ("commit", "gpgsign", "false"),
            ("tag", "gpgsign", "false"),
            ("credential", "helper", ""),
        ];
        let setting = |section: &str, key: &str, value: &str| Setting {
            section: section.to_owned(),
            subsection: None,
            key: key.to_owned(),
            value: value.to_owned(),
        };
        made.extend(ours.map(|(section, key, value)| setting(section, key, value)));
        let author = self.author.cloned().unwrap_or_else(Author::nobody);
        made.extend([setting("user", "name", &author.name), setting("user", "email", &author.email)]);
        made
    }
}

/// Reads which paths a repository tracks. What cannot be read tracks nothing.
pub(super) fn tracked(layout: &Layout) -> Vec<Box<[u8]>> {
    const INDEX_BYTES: u64 = 256 << 20;
    tracked_up_to(layout, INDEX_BYTES)
}

/// Reads which paths a repository tracks, if no file that says it is larger than this.
pub(super) fn tracked_up_to(layout: &Layout, most: u64) -> Vec<Box<[u8]>> {
    let read = |name: &str| straight::read(&layout.own.join(name), most).ok().flatten();
    agora_core::git::index::tracked(&read("index").unwrap_or_default(), read).unwrap_or_default()
}

/// Reads which commit HEAD names, without git's help. `None` before the first commit.
pub(super) fn head(layout: &Layout) -> Option<String> {
    let mut name = "HEAD".to_owned();
    for _ in 0..5 {
        let from = if name == "HEAD" { &layout.own } else { &layout.common };
        let text = straight::read(&from.join(&name), 8 * 1024).ok().flatten();
        let text = match text {
            Some(text) => String::from_utf8(text).ok()?,
            None => packed(layout, &name)?,
        };
        match text.trim().strip_prefix("ref:") {
            Some(next) => name = next.trim().to_owned(),
            None => return is_id(text.trim()).then(|| text.trim().to_owned()),
        }
        if name.split('/').any(|part| part.is_empty() || part == "..") {
            return None;
        }
    }
    None
}

fn packed(layout: &Layout, name: &str) -> Option<String> {
    let refs = straight::read(&layout.common.join("packed-refs"), PACKED_BYTES).ok()??;
    let text = String::from_utf8_lossy(&refs);
    text.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' ').map(str::to_owned))
}

/// Tells whether a text is an object's id.
pub(crate) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads who works here from the repository's own configuration.
pub(super) fn author(layout: &Layout) -> Option<Author> {
    let bytes =
        straight::read(&layout.common.join("config"), CONFIG_BYTES).ok().flatten().unwrap_or_default();
    let settings = config::parse(&String::from_utf8_lossy(&bytes));
    let user = |key: &str| {
        let last = settings.iter().rev().find(|setting| setting.section == "user" && setting.key == key);
        last.map(|setting| setting.value.clone())
    };
    Some(Author { name: user("name")?, email: user("email")? })
}

/// Says that something of the user's repository cannot be read by who runs agora, and what it is.
#[derive(Debug, thiserror::Error)]
#[error("`{}` could not be read: {source}", path.display())]
struct Closed {
    path: PathBuf,
    source: io::Error,
}

/// Names what could not be read, if that is because it is closed to us.
fn closed(path: &Path) -> impl Fn(io::Error) -> io::Error + use<'_> {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => {
            io::Error::new(source.kind(), Closed { path: path.to_owned(), source })
        }
        _ => source,
    }
}

/// It is for the user to open what is closed; all else is as it is said otherwise.
fn refused_or(otherwise: impl Fn(io::Error) -> GroundError, error: io::Error) -> GroundError {
    match error.downcast::<Closed>() {
        Ok(closed) => GroundError::Refused {
            what: closed.to_string(),
            hint: Some(
                "let this user read it: `ls -l` of it shows who may, `chown` or `chmod u+r` mend it"
                    .to_owned(),
            ),
        },
        Err(error) => otherwise(error),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> GroundError {
    let path: PathBuf = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::InvalidData => GroundError::Refused {
            what: format!("the repository cannot be worked on: {error}"),
            hint: Some("see whether `git fsck` finds it whole; agora wants plain files in it".to_owned()),
        },
        _ => GroundError::Unavailable(super::take::unavailable("read the repository", &path, error)),
    }
}
