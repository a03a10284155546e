//! The key that opens the local secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::str::FromStr;

use age::secrecy::ExposeSecret;
use age::x25519::Identity;
use agora_core::provider::secret::SecretError;
use zeroize::Zeroizing;

use crate::home::{Home, read_capped};

/// A key file holds one line of 74 characters; `age-keygen` adds comments.
const KEY_BYTES: u64 = 4096;

/// Where the key is: a file that `age` itself can use.
pub(super) fn path(home: &Home) -> PathBuf {
    home.root().join("keys").join("secrets.agekey")
}

/// Reads the key. `None`: there is none yet, so nothing was ever stored.
pub(super) fn read(home: &Home) -> Result<Option<Identity>, SecretError> {
    let path = path(home);
    let unreadable = |error| SecretError::Unavailable(home.unavailable("read", &path, error));
    let Some(bytes) = read_capped(&path, KEY_BYTES).map_err(unreadable)? else { return Ok(None) };
    let bytes = Zeroizing::new(bytes);
    let mode = fs::metadata(&path).map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SecretError::KeyExposed { file: Home::shown(&path), mode });
    }
    let text = str::from_utf8(&bytes).unwrap_or_default();
    let key = text
        .lines()
        .find(|line| !line.starts_with('#'))
        .and_then(|line| Identity::from_str(line.trim()).ok());
    key.map(Some).ok_or_else(|| SecretError::KeyDamaged { file: Home::shown(&path) })
}

/// Reads the key, or makes one. The caller holds the store's lock: two keys would lock each other's secrets away.
pub(super) fn read_or_make(home: &Home) -> Result<Identity, SecretError> {
    if let Some(key) = read(home)? {
        return Ok(key);
    }
    let path = path(home);
    let key = Identity::generate();
    let line = Zeroizing::new(format!("{}\n", key.to_string().expose_secret()));
    home.make_dirs(path.parent().unwrap_or(home.root())).map_err(SecretError::Unavailable)?;
    home.replace(&path, line.as_bytes()).map_err(SecretError::Unavailable)?;
    Ok(key)
}
