//! How a secret lies on the disk: XChaCha20-Poly1305 with the key of this machine, under the secret's own name.

use std::io;

use agora_core::secret::SecretName;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::keys::Key;

/// The form. A newer one gets another line.
const MAGIC: &[u8] = b"agora secret 1\n";
/// Long enough to be drawn by chance for ever.
const NONCE: usize = 24;
const TAG: usize = 16;

/// What sealing adds to the length of what is sealed.
pub(super) const OVERHEAD: usize = MAGIC.len() + NONCE + TAG;

/// Returns what is stored. The name is under the tag, so that one secret's file cannot stand in for another's.
pub(super) fn seal(key: &Key, name: &SecretName, plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(|error| io::Error::other(error.to_string()))?;
    seal_with(key, nonce, name, plain).ok_or_else(|| io::Error::other("it is too large"))
}

/// Opens what was stored. `None`: it is damaged, another secret's, or another key's.
pub(super) fn open(key: &Key, name: &SecretName, stored: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, sealed) = stored.strip_prefix(MAGIC)?.split_first_chunk::<NONCE>()?;
    let payload = Payload { msg: sealed, aad: &label(name) };
    cipher(key).decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
}

fn seal_with(key: &Key, nonce: [u8; NONCE], name: &SecretName, plain: &[u8]) -> Option<Vec<u8>> {
    let payload = Payload { msg: plain, aad: &label(name) };
    let sealed = cipher(key).encrypt(&XNonce::from(nonce), payload).ok()?;
    Some([MAGIC, &nonce, &sealed].concat())
}

fn cipher(key: &Key) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new((&**key).into())
}

fn label(name: &SecretName) -> Vec<u8> {
    [MAGIC, name.as_str().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8) -> Key {
        Zeroizing::new(std::array::from_fn(|at| u8::try_from(at).unwrap() + first))
    }

    /// The same key, nonce, label and text, sealed by libsodium (`crypto_aead_xchacha20poly1305_ietf_encrypt`).
    #[test]
    fn it_is_what_another_implementation_makes() {
        let nonce = std::array::from_fn(|at| u8::try_from(at).unwrap() + 100);
        let sealed = seal_with(&key(0), nonce, &"a/one".parse().unwrap(), b"correct horse battery").unwrap();
        let theirs = "1f1c8bc29a4dfda2ef5fef4cc34fdfa82fcf37039d5c327071016c3b3841ab1b3551cb2143";
        let ours: String = sealed[MAGIC.len() + NONCE..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn it_opens_whole_under_its_name_and_key_alone() {
        let (one, two) = ("a/one".parse().unwrap(), "a/two".parse().unwrap());
        let sealed = seal(&key(0), &one, b"a value").unwrap();
        assert_eq!(sealed.len(), b"a value".len() + OVERHEAD);
        assert_eq!(open(&key(0), &one, &sealed).unwrap().as_slice(), b"a value");
        assert_ne!(seal(&key(0), &one, b"a value").unwrap(), sealed, "a nonce is used once");
        assert!(open(&key(0), &two, &sealed).is_none() && open(&key(1), &one, &sealed).is_none());
        for cut in 0..sealed.len() {
            assert!(open(&key(0), &one, &sealed[..cut]).is_none(), "cut at {cut}");
            let mut changed = sealed.clone();
            changed[cut] ^= 1;
            assert!(open(&key(0), &one, &changed).is_none(), "changed at {cut}");
        }
    }
}
