//! The keys that only an engine has, each made from one secret: whoever loses a process loses no key with it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::bootstrap::ThreadKey;
use super::line::EventKey;
use super::receipt::ReceiptSigner;
use crate::id::{DispatchId, ThreadId};

/// Makes keys for dispatches and threads. The same secret gives the same keys, in any process and after a crash.
#[derive(Clone)]
pub struct EngineKeys {
    secret: Zeroizing<[u8; 32]>,
    /// Made when it is first asked for: every worker gets its public half, which takes a while to compute.
    signer: Arc<OnceLock<ReceiptSigner>>,
}

impl EngineKeys {
    /// Takes the 32 bytes that everything is made from.
    pub fn new(secret: [u8; 32]) -> Self {
        Self { secret: Zeroizing::new(secret), signer: Arc::default() }
    }

    /// Returns the key that a dispatch's worker signs its events with.
    pub fn event_key(&self, dispatch: &DispatchId) -> EventKey {
        EventKey::new(self.derive("agora event key", &[dispatch.as_str()]))
    }

    /// Returns the key that a thread's workspace and conversation are sealed with. Without the salt, which is forgotten with the
    /// thread, nobody can make it again.
    pub fn thread_key(&self, thread: &ThreadId, salt: &str) -> ThreadKey {
        ThreadKey::new(self.derive("agora thread key", &[thread.as_str(), salt]))
    }

    /// Returns the key that answers are signed with. Workers get its public half.
    pub fn receipt_signer(&self) -> &ReceiptSigner {
        self.signer.get_or_init(|| ReceiptSigner::new(&self.derive("agora receipt key", &[])))
    }

    /// Returns a key to seal what a client carries from one request to the next, for one process alone: whoever draws another nonce has
    /// another key.
    pub fn request_state_key(&self, nonce: &[u8]) -> [u8; 32] {
        let nonce: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        self.derive("agora request state key", &[&nonce])
    }

    /// Returns the key that tells tokens which this home gave out.
    pub fn token_key(&self) -> [u8; 32] {
        self.derive("agora token key", &[])
    }

    fn derive(&self, purpose: &str, parts: &[&str]) -> [u8; 32] {
        let mut block = Zeroizing::new([0; 64]);
        block[..32].copy_from_slice(&*self.secret);
        let mut mac = Hmac::<Sha256>::new(&(*block).into());
        mac.update(purpose.as_bytes());
        for part in parts {
            // A byte that no id holds keeps the parts apart.
            mac.update(b"\0");
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for EngineKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineKeys(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_and_each_name_has_a_key_of_its_own() {
        let keys = EngineKeys::new([1; 32]);
        let thread = |id: &str, salt| *keys.thread_key(&id.parse().unwrap(), salt).expose();
        assert_eq!(thread("t_1", "a"), thread("t_1", "a"));
        assert_ne!(thread("t_1", "a"), thread("t_1", "b"));
        assert_ne!(thread("t_1", "a"), thread("t_2", "a"));
        let event = |keys: &EngineKeys, id: &str| *keys.event_key(&id.parse().unwrap()).expose();
        assert_ne!(event(&keys, "d_1"), event(&keys, "d_2"));
        assert_ne!(event(&keys, "d_1"), event(&EngineKeys::new([2; 32]), "d_1"));
        assert_ne!(keys.request_state_key(&[1]), keys.request_state_key(&[2]));
        assert_ne!(keys.request_state_key(&[]), keys.token_key());
        assert_eq!(format!("{keys:?}"), "EngineKeys(…)");
    }
}
