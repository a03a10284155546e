//! Capabilities: files laid over the worker's workspace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hash::ContentHash;
use crate::limits::{CAPABILITY_BYTES, CAPABILITY_FILES};
use crate::path::BundlePath;

/// One file of a capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    pub path: BundlePath,
    pub mode: FileMode,
    pub size: u64,
    pub sha256: ContentHash,
}

/// The two modes that mean the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum FileMode {
    Plain,
    Executable,
}

impl From<FileMode> for u32 {
    /// Writes the mode as people read it: the decimal number 644 or 755.
    fn from(mode: FileMode) -> Self {
        match mode {
            FileMode::Plain => 644,
            FileMode::Executable => 755,
        }
    }
}

impl TryFrom<u32> for FileMode {
    type Error = TreeError;

    fn try_from(mode: u32) -> Result<Self, TreeError> {
        match mode {
            644 => Ok(Self::Plain),
            755 => Ok(Self::Executable),
            other => Err(TreeError::Mode(other)),
        }
    }
}

/// A set of files that can be laid out on any file system: in one order, with no two in each other's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawCapability", into = "RawCapability")]
pub struct Capability {
    files: Vec<FileEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCapability {
    files: Vec<FileEntry>,
}

/// Says why files do not make a capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    #[error("there is no file in it")]
    Empty,
    #[error("it has {0} files, the most is {CAPABILITY_FILES}")]
    TooManyFiles(usize),
    #[error("its files have {0} bytes together, the most is {CAPABILITY_BYTES} (50 MiB)")]
    TooLarge(u64),
    #[error("`{0}` is in it twice")]
    Twice(BundlePath),
    #[error("`{0}` and `{1}` differ only in letter case, and would be one file elsewhere")]
    Case(BundlePath, BundlePath),
    #[error("`{file}` is a file, and also the directory of `{below}`")]
    FileAndDirectory { file: BundlePath, below: BundlePath },
    #[error("a file's mode is 644 or 755, not {0}")]
    Mode(u32),
}

impl Capability {
    /// Takes files in any order; the same files give the same capability.
    pub fn new(mut files: Vec<FileEntry>) -> Result<Self, TreeError> {
        if files.is_empty() {
            return Err(TreeError::Empty);
        }
        if files.len() > CAPABILITY_FILES {
            return Err(TreeError::TooManyFiles(files.len()));
        }
        let total = files.iter().fold(0_u64, |total, file| total.saturating_add(file.size));
        if total > CAPABILITY_BYTES {
            return Err(TreeError::TooLarge(total));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        check_collisions(&files)?;
        Ok(Self { files })
    }

    /// Returns the files, ordered by path: the order of their bytes in the pack.
    pub fn files(&self) -> &[FileEntry] {
        &self.files
    }

    /// Returns the size of all files together: the length of the pack.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

fn check_collisions(files: &[FileEntry]) -> Result<(), TreeError> {
    let mut by_folded: BTreeMap<String, &BundlePath> = BTreeMap::new();
    for file in files {
        if let Some(other) = by_folded.insert(file.path.folded(), &file.path) {
            let (other, path) = (other.clone(), file.path.clone());
            return Err(if other == path { TreeError::Twice(path) } else { TreeError::Case(other, path) });
        }
    }
    for (folded, path) in &by_folded {
        // Whatever is below a file follows it directly in this order, if anything is.
        let below = format!("{folded}/");
        if let Some((_, inner)) =
            by_folded.range(below.clone()..).next().filter(|(next, _)| next.starts_with(&below))
        {
            return Err(TreeError::FileAndDirectory { file: (*path).clone(), below: (*inner).clone() });
        }
    }
    Ok(())
}

impl From<Capability> for RawCapability {
    fn from(capability: Capability) -> Self {
        Self { files: capability.files }
    }
}

impl TryFrom<RawCapability> for Capability {
    type Error = TreeError;

    fn try_from(raw: RawCapability) -> Result<Self, TreeError> {
        Self::new(raw.files)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bundle::{Bundle, Manifest};

    fn file(path: &str, size: u64) -> FileEntry {
        FileEntry {
            path: path.parse().unwrap(),
            mode: FileMode::Plain,
            size,
            sha256: ContentHash::of(path.as_bytes()),
        }
    }

    fn tree(paths: &[&str]) -> Result<Capability, TreeError> {
        Capability::new(paths.iter().map(|path| file(path, 1)).collect())
    }

    fn path(text: &str) -> BundlePath {
        text.parse().unwrap()
    }

    #[test]
    fn files_in_each_others_way_are_refused() {
        assert_eq!(tree(&[]), Err(TreeError::Empty));
        assert_eq!(tree(&["a", "b", "a"]), Err(TreeError::Twice(path("a"))));
        assert_eq!(tree(&["Read.me", "read.ME"]), Err(TreeError::Case(path("Read.me"), path("read.ME"))));
        assert_eq!(tree(&["Ä", "ä"]), Err(TreeError::Case(path("Ä"), path("ä"))));
        let both = Err(TreeError::FileAndDirectory { file: path("a"), below: path("a/b/c") });
        assert_eq!(tree(&["a/b/c", "a"]), both);
        let folded = Err(TreeError::FileAndDirectory { file: path("A"), below: path("a/b") });
        assert_eq!(tree(&["A", "a/b"]), folded);
        assert!(tree(&["a.b", "a/b", "a-b"]).is_ok());
    }

    #[test]
    fn limits_are_exact() {
        assert!(Capability::new(vec![file("a", CAPABILITY_BYTES)]).is_ok());
        let over = Capability::new(vec![file("a", CAPABILITY_BYTES), file("b", 1)]);
        assert_eq!(over, Err(TreeError::TooLarge(CAPABILITY_BYTES + 1)));
        assert!(
            Capability::new(vec![file("a", u64::MAX), file("b", u64::MAX)]).is_err(),
            "sizes do not wrap"
        );
        let many = |count: usize| Capability::new((0..count).map(|i| file(&format!("f{i}"), 0)).collect());
        assert!(many(CAPABILITY_FILES).is_ok());
        assert_eq!(many(CAPABILITY_FILES + 1), Err(TreeError::TooManyFiles(CAPABILITY_FILES + 1)));
    }

    #[test]
    fn a_manifest_from_elsewhere_is_checked_again() {
        let good = Manifest::new(Bundle::Capability(tree(&["a", "b"]).unwrap())).encode().unwrap();
        assert!(Manifest::decode(&good.bytes).is_ok());
        let text = String::from_utf8(good.bytes).unwrap();
        for (from, to) in [
            ("\"path\":\"b\"", "\"path\":\"../b\""),
            ("\"path\":\"b\"", "\"path\":\"A\""),
            ("\"mode\":644", "\"mode\":777"),
            ("\"schema\":1", "\"schema\":2"),
            ("\"files\"", "\"flies\""),
        ] {
            assert!(text.contains(from), "{from}");
            assert!(Manifest::decode(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn any_file_order_gives_the_same_hash(
            (files, shuffled) in proptest::collection::btree_map("[a-z]{1,4}(/[a-z]{1,4}){0,2}", 0_u64..100, 1..20)
                .prop_map(|tree| tree.iter().map(|(path, size)| file(path, *size)).collect::<Vec<_>>())
                .prop_flat_map(|files| (Just(files.clone()), Just(files).prop_shuffle()))
        ) {
            let hash = |files| Capability::new(files).map(|tree| Manifest::new(Bundle::Capability(tree)).encode().unwrap().hash);
            prop_assert_eq!(hash(files).ok(), hash(shuffled).ok());
        }

        #[test]
        fn a_manifest_with_any_byte_changed_is_refused_or_is_another(place in 0_usize..400, byte: u8) {
            let good = Manifest::new(Bundle::Capability(tree(&["a", "b/c"]).unwrap())).encode().unwrap();
            let mut bytes = good.bytes.clone();
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Ok(manifest) = Manifest::decode(&bytes) {
                let again = manifest.encode().unwrap();
                prop_assert_eq!(again.hash == good.hash, manifest == Manifest::decode(&good.bytes).unwrap());
            }
        }

        #[test]
        fn no_manifest_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Manifest::decode(&bytes);
        }
    }
}
