//! The secret that an engine's keys are made from: one file, made once.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use agora_core::provider::Unavailable;
use zeroize::Zeroizing;

use crate::entropy;
use crate::home::{Home, read_capped};

/// 64 hex digits and a line break.
const FILE_BYTES: u64 = 4096;

/// Reads the secret, or makes it. Of several processes that make it at once, all get the same.
pub fn engine_secret(home: &Home) -> Result<[u8; 32], Unavailable> {
    let path = home.root().join("keys").join("engine.key");
    if let Some(secret) = read(home, &path)? {
        return Ok(secret);
    }
    home.prepare()?;
    home.make_dirs(&home.root().join("keys"))?;
    let mut bytes = Zeroizing::new([0; 32]);
    entropy::draw(&mut *bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let line = Zeroizing::new(format!("{digits}\n"));
    // Whoever was faster has made the one that counts.
    home.put_new(&path, line.as_bytes())?;
    let damaged = || home.unavailable("read", &path, io::Error::other("it was just made, and is gone"));
    read(home, &path)?.ok_or_else(damaged)
}

fn read(home: &Home, path: &std::path::Path) -> Result<Option<[u8; 32]>, Unavailable> {
    let unreadable = |error| home.unavailable("read", path, error);
    let Some(bytes) = read_capped(path, FILE_BYTES).map_err(unreadable)? else { return Ok(None) };
    let bytes = Zeroizing::new(bytes);
    let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(unreadable(io::Error::other(format!(
            "others may read it (mode {mode:o}); `chmod 600` it, and rotate what it protects"
        ))));
    }
    let wrong = || unreadable(io::Error::other("it holds no key; restore it from a backup"));
    let digits = bytes.trim_ascii();
    let digit = |at: usize| digits.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut secret = [0; 32];
    if digits.len() != 64 {
        return Err(wrong());
    }
    for (place, byte) in secret.iter_mut().enumerate() {
        let (high, low) = (digit(place * 2).ok_or_else(wrong)?, digit(place * 2 + 1).ok_or_else(wrong)?);
        *byte = u8::try_from(high * 16 + low).map_err(|_| wrong())?;
    }
    Ok(Some(secret))
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
        let path = home.root().join("keys/engine.key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(engine_secret(&home).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(engine_secret(&home).is_err());
    }
}
