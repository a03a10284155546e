//! Keys of this machine: 32 bytes each, in a file of its own that is made once and is its owner's alone.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agora_core::provider::Unavailable;
use zeroize::Zeroizing;

use crate::home::{Home, read_capped};

/// 64 hex digits and a line break, and room for what an editor adds.
const FILE_BYTES: u64 = 4096;

/// A key, cleared from memory when nobody needs it any more.
pub(crate) type Key = Zeroizing<[u8; 32]>;

/// Says why there is no key to be had.
#[derive(Debug)]
pub(crate) enum KeyError {
    /// Others could read it.
    Exposed {
        path: PathBuf,
        mode: u32,
    },
    /// The file holds no key.
    Damaged {
        path: PathBuf,
    },
    Unavailable(Unavailable),
}

/// Reads the secret that an engine's keys are made from, or makes it.
pub fn engine_secret(home: &Home) -> Result<[u8; 32], Unavailable> {
    read_or_make(home, "engine.key").map(|key| *key).map_err(|error| {
        let (path, why) = match error {
            KeyError::Exposed { path, mode } => (
                path,
                format!("others may read it (mode {mode:o}); `chmod 600` it, and rotate what it protects"),
            ),
            KeyError::Damaged { path } => (path, "it holds no key; restore it from a backup".to_owned()),
            KeyError::Unavailable(unavailable) => return unavailable,
        };
        home.unavailable("read", &path, io::Error::other(why))
    })
}

/// Reads a key, or makes it. Of several processes that make it at once, all get the same.
pub(crate) fn read_or_make(home: &Home, name: &str) -> Result<Key, KeyError> {
    if let Some(key) = read(home, name)? {
        return Ok(key);
    }
    let path = path(home, name);
    make(home, &path).map_err(KeyError::Unavailable)?;
    read(home, name)?.ok_or_else(|| {
        let gone = io::Error::other("it was just made, and is gone");
        KeyError::Unavailable(home.unavailable("read", &path, gone))
    })
}

/// Reads a key. `None`: there is none yet, so nothing was ever made with it.
pub(crate) fn read(home: &Home, name: &str) -> Result<Option<Key>, KeyError> {
    let path = path(home, name);
    let unreadable = |error| KeyError::Unavailable(home.unavailable("read", &path, error));
    let Some(bytes) = read_capped(&path, FILE_BYTES).map_err(unreadable)? else { return Ok(None) };
    let bytes = Zeroizing::new(bytes);
    let mode = fs::metadata(&path).map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path, mode });
    }
    match from_hex(bytes.trim_ascii()) {
        Some(key) => Ok(Some(key)),
        None => Err(KeyError::Damaged { path }),
    }
}

fn path(home: &Home, name: &str) -> PathBuf {
    home.root().join("keys").join(name)
}

fn make(home: &Home, path: &Path) -> Result<(), Unavailable> {
    home.prepare()?;
    home.make_dirs(path.parent().unwrap_or(home.root()))?;
    let mut key = Zeroizing::new([0; 32]);
    // A key that somebody could guess is worse than none.
    getrandom::fill(&mut *key)
        .map_err(|error| home.unavailable("make", path, io::Error::other(error.to_string())))?;
    let digits: Zeroizing<String> = Zeroizing::new(key.iter().map(|byte| format!("{byte:02x}")).collect());
    let line = Zeroizing::new(format!("{}\n", *digits));
    // Whoever was faster has made the one that counts.
    home.put_new(path, line.as_bytes())?;
    Ok(())
}

fn from_hex(digits: &[u8]) -> Option<Key> {
    let mut key = Zeroizing::new([0; 32]);
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != key.len() || !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    for (byte, [high, low]) in key.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_kept_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        let made = engine_secret(&home).unwrap();
        assert_eq!(engine_secret(&home).unwrap(), made);
        assert_ne!(made, [0; 32]);
        assert_ne!(*read_or_make(&home, "secrets.key").unwrap(), made);
        let path = home.root().join("keys/engine.key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(engine_secret(&home).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for damaged in ["short", &"0".repeat(63), &"0".repeat(65), &"x".repeat(64), ""] {
            fs::write(&path, damaged).unwrap();
            assert!(matches!(read(&home, "engine.key"), Err(KeyError::Damaged { .. })), "{damaged}");
            assert!(engine_secret(&home).is_err());
        }
    }
}
