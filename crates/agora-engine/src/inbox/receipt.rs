//! Whether a receipt is what it says: signed here, for this question of this thread, and an answer to it.

use agora_core::wire::receipt::{About, Receipt, ReceiptError, ReceiptKey};

use super::Refusal;
use crate::agora::Agora;
use crate::error::Error;

impl Agora {
    /// Returns the public key that this agora's receipts are checked with.
    pub fn receipt_key(&self) -> Result<ReceiptKey, Error> {
        Ok(self.engine()?.world().keys.receipt_signer().public_key())
    }

    /// Checks a receipt against the public key, and against what the ledger holds of the question, its thread and the bundles. The
    /// inner error says what is not as the receipt says.
    pub async fn check_receipt(&self, receipt: &Receipt) -> Result<Result<(), ReceiptError>, Error> {
        let statement = &receipt.statement;
        let asker = self.asker(&statement.question_id).await?;
        let view = asker.view().await?;
        let asked = view.thread.questions().iter().find(|asked| asked.id == statement.question_id);
        let asked = asked.ok_or_else(|| Error::Answer(Refusal::Unknown(statement.question_id.clone())))?;
        let job = asker.engine.papers(asker.dispatch_id()).await.map_err(Error::Carry)?.job;
        let about = About {
            namespace: &view.namespace,
            thread_id: &view.thread_id,
            question_id: &asked.id,
            question: &asked.question,
            resolved: &job.resolved,
        };
        Ok(receipt.check(&self.receipt_key()?, about).map(drop))
    }
}
