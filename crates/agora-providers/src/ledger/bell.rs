//! Tells whoever listens, in any process, that something was recorded.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use agora_core::provider::ledger::{LedgerError, Watch};
use async_trait::async_trait;

use super::files::Files;
use crate::notice::Notice;

/// The bell of a ledger, opened when it is first written or listened to. It stays open until the ledger is gone: the
/// kernel closes it when a process is killed, and whoever listens hears that too.
#[derive(Clone, Debug)]
pub(super) struct Bell {
    files: Files,
    open: Arc<Mutex<Option<Arc<File>>>>,
}

impl Bell {
    pub(super) fn new(files: Files) -> Self {
        Self { files, open: Arc::default() }
    }

    pub(super) fn open(&self) -> Result<Arc<File>, LedgerError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*open {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.files.open_bell()?);
        *open = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Rings. What was recorded is recorded, whether or not anybody hears of it: on a full disk nobody may.
    pub(super) fn ring(&self) {
        if let Ok(file) = self.open() {
            let _ = file.write_at(b"\n", 0);
        }
    }

    pub(super) fn listen(&self) -> Result<BellWatch, LedgerError> {
        let open = self.open()?;
        let notice = Notice::of(&self.files.bell)
            .map_err(|error| self.files.unavailable("listen to", &self.files.bell, error))?;
        Ok(BellWatch { notice, _open: open })
    }
}

/// Hears the bell.
#[derive(Debug)]
pub(super) struct BellWatch {
    notice: Notice,
    /// Others hear when whoever listens here dies.
    _open: Arc<File>,
}

#[async_trait]
impl Watch for BellWatch {
    async fn next(&mut self) -> Result<(), LedgerError> {
        self.notice.next().await;
        Ok(())
    }
}
