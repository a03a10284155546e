//! Seals what an agent left, so that only a worker of the same thread can open it.
//!
//! A sealed file is a line that names the form, a nonce, and blocks of 64 KiB, each with its own tag (XChaCha20-Poly1305 in
//! the STREAM construction). What it is and whose is under every tag: a session does not pass for a workspace, nor one
//! thread's file for another's, and a file that was cut, reordered or continued does not open.

use std::io::{self, Read, Write};

use aead_stream::aead::{KeyInit, Payload};
use aead_stream::{DecryptorBE32, EncryptorBE32};
use agora_core::ThreadId;
use agora_core::wire::bootstrap::ThreadKey;
use chacha20poly1305::XChaCha20Poly1305;

/// The form. A newer one gets another line.
const MAGIC: &[u8] = b"agora sealed 1\n";
/// The nonce of XChaCha20 less what the construction counts in.
const NONCE: usize = 19;
const BLOCK: usize = 64 * 1024;
const TAG: usize = 16;

/// What a sealed file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Workspace,
    Baseline,
    Session,
}

impl Content {
    fn word(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Baseline => "baseline",
            Self::Session => "session",
        }
    }
}

/// Who may seal and open: the key of a thread.
#[derive(Clone, Debug)]
pub struct Seal {
    key: ThreadKey,
    thread: ThreadId,
}

impl Seal {
    pub fn new(key: ThreadKey, thread: ThreadId) -> Self {
        Self { key, thread }
    }

    /// Starts a sealed file.
    pub fn seal<W: Write>(&self, content: Content, mut into: W) -> io::Result<Sealing<W>> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|error| io::Error::other(error.to_string()))?;
        into.write_all(MAGIC)?;
        into.write_all(&nonce)?;
        let cipher = EncryptorBE32::from_aead(self.cipher(), &nonce.into());
        Ok(Sealing { into, cipher, label: self.label(content), held: Vec::with_capacity(BLOCK) })
    }

    /// Opens a sealed file. What comes out has been checked; an error means that nothing more is to be trusted.
    pub fn open<R: Read>(&self, content: Content, mut from: R) -> io::Result<Opening<R>> {
        let mut head = [0; MAGIC.len()];
        from.read_exact(&mut head).map_err(|_| broken("it has no beginning"))?;
        if head != *MAGIC {
            return Err(broken("it has another form"));
        }
        let mut nonce = [0; NONCE];
        from.read_exact(&mut nonce).map_err(|_| broken("it has no beginning"))?;
        let cipher = DecryptorBE32::from_aead(self.cipher(), &nonce.into());
        Ok(Opening {
            from,
            cipher: Some(cipher),
            label: self.label(content),
            open: Vec::new(),
            at: 0,
            ahead: None,
        })
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.key.expose().into())
    }

    fn label(&self, content: Content) -> Vec<u8> {
        format!("{} of {}", content.word(), self.thread).into_bytes()
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the sealed file cannot be opened: {why}"))
}

/// A sealed file that is being written. Without [`Sealing::finish`] it does not open.
pub struct Sealing<W> {
    into: W,
    cipher: EncryptorBE32<XChaCha20Poly1305>,
    label: Vec<u8>,
    held: Vec<u8>,
}

impl<W> std::fmt::Debug for Sealing<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealing(…)")
    }
}

impl<W: Write> Sealing<W> {
    /// Writes the last block, and returns what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        let block = Payload { msg: &self.held, aad: &self.label };
        let block = self.cipher.encrypt_last(block).map_err(|_| broken("it is too large"))?;
        self.into.write_all(&block)?;
        Ok(self.into)
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full block goes out only when more follows, so that the last one is never empty for no reason.
        if self.held.len() == BLOCK {
            let block = Payload { msg: &self.held, aad: &self.label };
            let block = self.cipher.encrypt_next(block).map_err(|_| broken("it is too large"))?;
            self.into.write_all(&block)?;
            self.held.clear();
        }
        let taken = bytes.len().min(BLOCK - self.held.len());
        self.held.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A sealed file that is being read.
pub struct Opening<R> {
    from: R,
    /// Gone once the last block was opened.
    cipher: Option<DecryptorBE32<XChaCha20Poly1305>>,
    label: Vec<u8>,
    open: Vec<u8>,
    at: usize,
    /// The block after the one that is open: only at the end of the file is it known which is the last.
    ahead: Option<Vec<u8>>,
}

impl<R> std::fmt::Debug for Opening<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opening(…)")
    }
}

impl<R: Read> Opening<R> {
    fn next_block(&mut self) -> io::Result<Vec<u8>> {
        let mut block = Vec::with_capacity(BLOCK + TAG);
        (&mut self.from).take((BLOCK + TAG) as u64).read_to_end(&mut block)?;
        Ok(block)
    }

    fn advance(&mut self) -> io::Result<()> {
        let Some(mut cipher) = self.cipher.take() else { return Ok(()) };
        let block = match self.ahead.take() {
            Some(block) => block,
            None => self.next_block()?,
        };
        let ahead = self.next_block()?;
        let payload = Payload { msg: &block, aad: &self.label };
        let wrong = |_| broken("it was changed or cut, or is another thread's");
        self.open = if ahead.is_empty() {
            cipher.decrypt_last(payload).map_err(wrong)?
        } else {
            let open = cipher.decrypt_next(payload).map_err(wrong)?;
            (self.ahead, self.cipher) = (Some(ahead), Some(cipher));
            open
        };
        self.at = 0;
        Ok(())
    }
}

impl<R: Read> Read for Opening<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.open.len() && self.cipher.is_some() {
            self.advance()?;
        }
        let rest = &self.open[self.at..];
        let taken = rest.len().min(into.len());
        into[..taken].copy_from_slice(&rest[..taken]);
        self.at += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(key: u8, thread: &str) -> Seal {
        Seal::new(ThreadKey::new([key; 32]), thread.parse().unwrap())
    }

    fn sealed(bytes: &[u8]) -> Vec<u8> {
        let mut sealing = seal(1, "t_1").seal(Content::Workspace, Vec::new()).unwrap();
        sealing.write_all(bytes).unwrap();
        sealing.finish().unwrap()
    }

    fn opened(seal: &Seal, content: Content, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        seal.open(content, bytes)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn what_is_sealed_comes_back_at_every_size() {
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 17] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let sealed = sealed(&bytes);
            assert_eq!(opened(&seal(1, "t_1"), Content::Workspace, &sealed).unwrap(), bytes, "{size}");
        }
        let text = sealed(b"the agent's secret notes");
        assert!(!text.windows(6).any(|window| window == b"secret"));
    }

    #[test]
    fn another_key_thread_or_content_does_not_open_it() {
        let sealed = sealed(b"hello");
        for (seal, content) in [
            (seal(2, "t_1"), Content::Workspace),
            (seal(1, "t_2"), Content::Workspace),
            (seal(1, "t_1"), Content::Session),
        ] {
            assert!(opened(&seal, content, &sealed).is_err());
        }
    }

    #[test]
    fn one_that_was_cut_changed_or_reordered_does_not_open() {
        let sealed = sealed(&vec![7; 3 * BLOCK]);
        let seal = seal(1, "t_1");
        let head = MAGIC.len() + NONCE;
        for length in [0, 3, head, head + 5, head + BLOCK + TAG, sealed.len() - 1] {
            assert!(opened(&seal, Content::Workspace, &sealed[..length]).is_err(), "cut to {length}");
        }
        for place in [0, MAGIC.len(), head, head + BLOCK + TAG + 1, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(opened(&seal, Content::Workspace, &changed).is_err(), "changed at {place}");
        }
        let mut swapped = sealed.clone();
        let (one, two) = (head..head + BLOCK + TAG, head + BLOCK + TAG..head + 2 * (BLOCK + TAG));
        swapped[one.clone()].copy_from_slice(&sealed[two.clone()]);
        swapped[two].copy_from_slice(&sealed[one]);
        assert!(opened(&seal, Content::Workspace, &swapped).is_err());
    }
}
