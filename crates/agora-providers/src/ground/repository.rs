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
/// What git keeps beside HEAD while something is under way.
const BESIDE: [&str; 19] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "ORIG_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_TERMS",
    "BISECT_NAMES",
    "BISECT_EXPECTED_REV",
    "BISECT_ANCESTORS_OK",
    "BISECT_FIRST_PARENT",
    "BISECT_HEAD",
    "BISECT_RUN",
    "MERGE_AUTOSTASH",
];
/// Says which part of the tree is there.
const SPARSE: &str = "info/sparse-checkout";
/// Of that, what is a directory of files.
const UNDER_WAY: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];
/// And what all working trees share.
const SHARED: [&str; 2] = ["info/exclude", "info/grafts"];
/// Refs that each working tree has of its own.
const OWN_REFS: [&str; 3] = ["bisect", "worktree", "rewritten"];
/// What is under way takes less, in bytes and in files.
const STATE_BYTES: u64 = 64 << 20;
const STATE_FILES: usize = 20_000;

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
    /// Makes a `.git` where none is: where the other one stands, or at a commit, with no index and nothing under way.
    pub(super) fn make(&self, to: &Path, commit: Option<&str>) -> Result<(), GroundError> {
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
        self.fill(to, commit, &settings).map_err(|error| refused_or(failed(to), error))
    }

    fn settings(&self) -> io::Result<Vec<Setting>> {
        let mut settings = Vec::new();
        for file in [self.layout.common.join("config"), self.layout.own.join("config.worktree")] {
            let bytes = straight::read(&file, CONFIG_BYTES).map_err(closed(&file))?.unwrap_or_default();
            settings.extend(config::parse(&String::from_utf8_lossy(&bytes)));
        }
        Ok(settings)
    }

    fn fill(&self, to: &Path, commit: Option<&str>, settings: &[Setting]) -> io::Result<()> {
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
        match commit {
            Some(commit) => self.write(&to.join("HEAD"), format!("{commit}\n").as_bytes())?,
            None => self.standing(to)?,
        }
        self.small(own, SPARSE, to)?;
        SHARED.iter().try_for_each(|name| self.small(common, name, to))?;
        self.copy(&common.join("shallow"), &to.join("shallow"))?;
        self.packed_refs(&common.join("packed-refs"), &to.join("packed-refs"))?;
        let mut left = REFS;
        self.refs(&common.join("refs"), &to.join("refs"), Path::new(""), &mut left)?;
        if own != common {
            for name in OWN_REFS {
                let (from, to) = (own.join("refs").join(name), to.join("refs").join(name));
                if from.is_dir() {
                    copy::directory(&to, 0o755, self.owner)?;
                    self.refs(&from, &to, Path::new(name), &mut left)?;
                }
            }
        }
        let mut alternates = Vec::new();
        for store in self.stores {
            alternates.extend(store.path().as_os_str().as_bytes());
            alternates.push(b'\n');
        }
        self.write(&to.join("objects/info/alternates"), &alternates)?;
        self.write(&to.join("config"), config::write(&self.made(settings)).as_bytes())
    }

    /// Copies where HEAD is, what is staged, and what is under way.
    fn standing(&self, to: &Path) -> io::Result<()> {
        let own = &self.layout.own;
        self.copy(&own.join("HEAD"), &to.join("HEAD"))?;
        self.copy(&own.join("index"), &to.join("index"))?;
        self.shared_index(to)?;
        BESIDE.iter().try_for_each(|name| self.small(own, name, to))?;
        UNDER_WAY.iter().try_for_each(|name| self.under_way(&own.join(name), &to.join(name)))?;
        self.last_checkout(to)
    }

    /// Copies a file of git's, if it is one of a size that git makes. What is no plain file is not as git made it, and says nothing.
    fn small(&self, dir: &Path, name: &str, to: &Path) -> io::Result<()> {
        let file = straight::file(&dir.join(name)).ok().flatten();
        let is_small = |file: &fs::File| file.metadata().is_ok_and(|meta| meta.len() <= STATE_BYTES);
        file.filter(is_small).map_or(Ok(()), |file| copy::opened(&file, &to.join(name), self.owner))
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

    /// Copies a directory of files, unless it is larger than git makes it.
    fn under_way(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = straight::list(from).unwrap_or_default();
        files.retain(|(_, kind)| *kind == FileType::RegularFile);
        let sizes = files.iter().filter_map(|(name, _)| fs::symlink_metadata(from.join(name)).ok());
        let bytes: u64 = sizes.map(|meta| meta.len()).sum();
        if files.is_empty() || files.len() > STATE_FILES || bytes > STATE_BYTES {
            return Ok(());
        }
        copy::directory(to, 0o755, self.owner)?;
        files.iter().try_for_each(|(name, _)| self.copy(&from.join(name), &to.join(name)))
    }

    /// Copies by which checkout HEAD came to be at no branch: `git status` names it.
    fn last_checkout(&self, to: &Path) -> io::Result<()> {
        let own = &self.layout.own;
        let read =
            |name: &str| straight::read(&own.join(name), STATE_BYTES).ok().flatten().unwrap_or_default();
        if read("HEAD").starts_with(b"ref:") {
            return Ok(());
        }
        let log = read("logs/HEAD");
        let is_checkout = |line: &&[u8]| {
            let message = line.iter().position(|&byte| byte == b'\t').map(|tab| &line[tab + 1..]);
            message.is_some_and(|message| message.starts_with(b"checkout: moving from "))
        };
        let Some(line) = log.split_inclusive(|&byte| byte == b'\n').rfind(is_checkout) else { return Ok(()) };
        copy::directory(&to.join("logs"), 0o755, self.owner)?;
        self.write(&to.join("logs/HEAD"), line)
    }

    /// Copies loose refs, but those of other agents' work, and of other working trees alone.
    fn refs(&self, from: &Path, to: &Path, below: &Path, left: &mut usize) -> io::Result<()> {
        for (entry, kind) in straight::list(from).map_err(closed(from))? {
            let name = below.join(&entry);
            let is_others =
                self.layout.own != self.layout.common && OWN_REFS.iter().any(|own| name == Path::new(own));
            if name == Path::new("agora") || is_others {
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
            ("core", "untrackedCache", "false"),
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
