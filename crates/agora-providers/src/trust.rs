//! Which project's files a person trusts: a small file for each, which holds the hash that it had then.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use agora_core::ContentHash;
use agora_core::provider::Unavailable;

use crate::home::{Home, list_dir, read_capped};

/// A hash, a line break, and a path.
const ENTRY_BYTES: u64 = 16 * 1024;

/// The files that are trusted, as they were when they were.
#[derive(Clone, Debug)]
pub struct TrustStore {
    home: Home,
}

/// A file that is trusted, and what it held then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    pub file: PathBuf,
    pub hash: ContentHash,
}

impl TrustStore {
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    /// Returns the content of a file that is trusted. `None`: the file is not.
    pub fn get(&self, file: &Path) -> Result<Option<ContentHash>, Unavailable> {
        Ok(self.read(&self.place(file))?.filter(|trusted| trusted.file == file).map(|trusted| trusted.hash))
    }

    /// Trusts a file with this content, and no other that it had before.
    pub fn put(&self, trusted: &Trusted) -> Result<(), Unavailable> {
        self.home.prepare()?;
        let place = self.place(&trusted.file);
        self.home.make_dirs(&self.dir())?;
        let mut bytes = format!("{}\n", trusted.hash).into_bytes();
        bytes.extend(trusted.file.as_os_str().as_bytes());
        self.home.replace(&place, &bytes)
    }

    /// Trusts a file no more. False: it was not trusted.
    pub fn remove(&self, file: &Path) -> Result<bool, Unavailable> {
        let was = self.get(file)?.is_some();
        if was {
            self.home.remove(&self.place(file))?;
        }
        Ok(was)
    }

    /// Returns every file that is trusted, by its path.
    pub fn list(&self) -> Result<Vec<Trusted>, Unavailable> {
        let dir = self.dir();
        let names = list_dir(&dir).map_err(|error| self.home.unavailable("read", &dir, error))?;
        let mut all = Vec::new();
        for name in names {
            all.extend(self.read(&dir.join(name))?);
        }
        all.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(all)
    }

    fn dir(&self) -> PathBuf {
        self.home.root().join("trust")
    }

    fn place(&self, file: &Path) -> PathBuf {
        self.dir().join(ContentHash::of(file.as_os_str().as_bytes()).digits())
    }

    /// Reads an entry. One that is not as it was written trusts nothing.
    fn read(&self, place: &Path) -> Result<Option<Trusted>, Unavailable> {
        let bytes =
            read_capped(place, ENTRY_BYTES).map_err(|error| self.home.unavailable("read", place, error))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let hash = str::from_utf8(&bytes[..end]).ok().and_then(|text| text.parse().ok());
        let file = PathBuf::from(OsString::from_vec(bytes[end + 1..].to_vec()));
        Ok(hash.map(|hash| Trusted { file, hash }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_trusted_with_what_it_held() {
        let dir = tempfile::tempdir().unwrap();
        let store = TrustStore::new(Home::new(dir.path().join("home")));
        let file = PathBuf::from(OsString::from_vec(b"/a b/\xff\n/agora.toml".to_vec()));
        assert_eq!(store.list().unwrap(), []);
        assert!(!store.remove(&file).unwrap());
        let trusted = |text: &[u8]| Trusted { file: file.clone(), hash: ContentHash::of(text) };
        store.put(&trusted(b"one")).unwrap();
        store.put(&trusted(b"two")).unwrap();
        assert_eq!(store.get(&file).unwrap(), Some(ContentHash::of(b"two")));
        assert_eq!(store.get(Path::new("/other/agora.toml")).unwrap(), None);
        assert_eq!(store.list().unwrap(), [trusted(b"two")]);
        // What somebody wrote over trusts nothing.
        std::fs::write(store.place(&file), "nonsense").unwrap();
        assert_eq!(store.get(&file).unwrap(), None);
    }
}
