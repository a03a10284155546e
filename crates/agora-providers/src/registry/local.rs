//! Versions in files: per name an append-only list, and a head that is replaced by one rename.
//!
//! The rename is the moment at which a version exists. Before it the list may have a tail that no head counts: a
//! writer that died. The next writer, who has the list's lock, overwrites it. Readers take no lock: the part of a
//! list that a head counts never changes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agora_core::bundle::BundleKind;
use agora_core::provider::Unavailable;
use agora_core::provider::registry::{Registry, RegistryError, RegistryKey, Version};
use agora_core::{Name, Namespace};
use async_trait::async_trait;

use super::cache;
use super::line::{self, Head, VersionLine};
use crate::blocking::blocking;
use crate::home::{Home, list_dir, read_capped};

/// A head is one line of fixed words.
const HEAD_BYTES: u64 = 1024;

/// Keeps the registry under `$AGORA_HOME`.
#[derive(Clone, Debug)]
pub struct LocalRegistry {
    home: Home,
}

impl LocalRegistry {
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    fn dir(&self, namespace: &Namespace, kind: BundleKind) -> PathBuf {
        self.home.root().join("registry").join(namespace.as_str()).join(kind.as_str())
    }

    fn list_path(&self, key: &RegistryKey) -> PathBuf {
        self.dir(&key.namespace, key.kind).join("versions").join(key.name.as_str())
    }

    fn head_path(&self, key: &RegistryKey) -> PathBuf {
        self.dir(&key.namespace, key.kind).join("heads").join(key.name.as_str())
    }

    fn read_head(&self, path: &Path) -> Result<Option<Head>, RegistryError> {
        let bytes = read_capped(path, HEAD_BYTES).map_err(|error| self.unreadable(path, error))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let head = str::from_utf8(&bytes).ok().and_then(Head::parse);
        head.map(Some).ok_or_else(|| damaged(path, "it does not hold one whole version"))
    }

    fn read_versions(&self, key: &RegistryKey) -> Result<Vec<Version>, RegistryError> {
        let Some(head) = self.read_head(&self.head_path(key))? else { return Ok(Vec::new()) };
        let path = self.list_path(key);
        let file = File::open(&path).map_err(|error| self.unreadable(&path, error))?;
        check_length(&path, &file, &head)
            .map_err(|error| error.unwrap_or_else(|error| self.unreadable(&path, error)))?;
        let mut bytes = vec![0; usize::try_from(head.length).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, 0).map_err(|error| self.unreadable(&path, error))?;
        let text = String::from_utf8(bytes).map_err(|_| damaged(&path, "it is not text"))?;
        let mut versions = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let version =
                line::version(line).filter(|(version, rest)| version.seq == number && rest.is_empty());
            versions.push(version.ok_or_else(|| damaged(&path, &format!("line {number} is no version")))?.0);
        }
        match versions.last() {
            Some(last) if *last == head.latest => Ok(versions),
            _ => Err(damaged(&path, "its last version is not the one that the head names")),
        }
    }

    fn read_names(
        &self,
        namespace: &Namespace,
        kind: BundleKind,
    ) -> Result<Vec<(Name, Version)>, RegistryError> {
        let dir = self.dir(namespace, kind);
        let heads = dir.join("heads");
        if let Some(names) = cache::read(&dir) {
            return Ok(names);
        }
        let before = cache::stamp(&heads);
        let mut names = Vec::new();
        for file in list_dir(&heads).map_err(|error| self.unreadable(&heads, error))? {
            let name = file.to_str().and_then(|file| file.parse::<Name>().ok());
            let name = name.ok_or_else(|| damaged(&heads.join(&file), "it does not belong there"))?;
            if let Some(head) = self.read_head(&heads.join(&file))? {
                names.push((name, head.latest));
            }
        }
        if let Some(stamp) = before.filter(|_| before == cache::stamp(&heads)) {
            // A cache that cannot be written costs time, nothing else.
            let _ = self.home.replace(&cache::path(&dir), cache::encode(stamp, &names).as_bytes());
        }
        Ok(names)
    }

    fn write(&self, key: &RegistryKey, version: Version) -> Result<(), RegistryError> {
        let (list, head_path) = (self.list_path(key), self.head_path(key));
        self.home.prepare().map_err(RegistryError::Unavailable)?;
        for path in [&list, &head_path] {
            let dir = path.parent().unwrap_or(path);
            self.home.make_dirs(dir).map_err(RegistryError::Unavailable)?;
        }
        let file = self.lock(&list)?;
        let head = self.read_head(&head_path)?;
        let (seq, offset) = match &head {
            None => (0, 0),
            Some(head) => {
                check_length(&list, &file, head)
                    .map_err(|error| error.unwrap_or_else(|error| self.unreadable(&list, error)))?;
                (head.latest.seq, head.length)
            }
        };
        if version.seq != seq + 1 {
            return Err(RegistryError::Moved);
        }
        let line = format!("{}\n", VersionLine(version));
        self.home.write_tail(&list, &file, offset, line.as_bytes()).map_err(RegistryError::Unavailable)?;
        if head.is_none() {
            // The list may be new: its name must be on the disk before a head counts on it.
            self.home.sync_dir(list.parent().unwrap_or(&list)).map_err(RegistryError::Unavailable)?;
        }
        let head = Head { latest: version, length: offset + line.len() as u64 };
        self.home.replace(&head_path, head.to_string().as_bytes()).map_err(RegistryError::Unavailable)
    }

    /// Opens a list and waits for its lock, which ends with the process.
    fn lock(&self, list: &Path) -> Result<File, RegistryError> {
        let open = || -> io::Result<File> {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(list)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|error| RegistryError::Unavailable(self.home.unavailable("write", list, error)))
    }

    fn unreadable(&self, path: &Path, error: io::Error) -> RegistryError {
        RegistryError::Unavailable(self.unavailable(path, error))
    }

    fn unavailable(&self, path: &Path, error: io::Error) -> Unavailable {
        self.home.unavailable("read", path, error)
    }
}

/// Checks that everything a head counts is still in the list.
fn check_length(path: &Path, file: &File, head: &Head) -> Result<(), Result<RegistryError, io::Error>> {
    let length = file.metadata().map_err(Err)?.len();
    if length < head.length {
        let why = format!("it was cut short: {length} bytes of {} are there", head.length);
        return Err(Ok(damaged(path, &why)));
    }
    Ok(())
}

fn damaged(path: &Path, why: &str) -> RegistryError {
    RegistryError::Damaged { file: Home::shown(path), why: why.to_owned() }
}

#[async_trait]
impl Registry for LocalRegistry {
    async fn latest(&self, key: &RegistryKey) -> Result<Option<Version>, RegistryError> {
        let (this, path) = (self.clone(), self.head_path(key));
        blocking(move || this.read_head(&path)).await.map(|head| head.map(|head| head.latest))
    }

    async fn versions(&self, key: &RegistryKey) -> Result<Vec<Version>, RegistryError> {
        let (this, key) = (self.clone(), key.clone());
        blocking(move || this.read_versions(&key)).await
    }

    async fn names(
        &self,
        namespace: &Namespace,
        kind: BundleKind,
    ) -> Result<Vec<(Name, Version)>, RegistryError> {
        let (this, namespace) = (self.clone(), namespace.clone());
        blocking(move || this.read_names(&namespace, kind)).await
    }

    async fn append(&self, key: &RegistryKey, version: Version) -> Result<(), RegistryError> {
        let (this, key) = (self.clone(), key.clone());
        blocking(move || this.write(&key, version)).await
    }
}
