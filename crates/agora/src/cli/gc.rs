//! `agora gc`: takes away what nobody may want any more.

use agora_engine::Sweep;
use clap::Args;
use serde_json::json;

use super::{Context, counted, dispatch};
use crate::exit::Exit;
use crate::failure::Failure;

/// Take away what is left of threads that ended long ago
#[derive(Debug, Args)]
#[command(
    long_about = "Take away what is left of threads whose retention is over, directories that no ledger knows, containers that an engine left, and, where `store.max` is exceeded, the snapshots of ended threads. Nothing of an open thread is ever touched.",
    after_help = "Example:\n  agora gc --dry-run"
)]
pub(super) struct Gc {
    /// Say what would be taken away, and take nothing
    #[arg(long)]
    dry_run: bool,
}

impl Gc {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let agora = dispatch::open(context).await?;
        let mode = if self.dry_run { Sweep::DryRun } else { Sweep::Really };
        let swept = agora.sweep(mode).await?;
        let document = json!({
            "dryRun": self.dry_run, "threads": swept.threads, "strays": swept.strays, "snapshots": swept.snapshots,
            "leftovers": swept.leftovers,
            "bases": swept.bases,
            "bytesBefore": swept.bytes_before, "bytesAfter": swept.bytes_after,
        });
        context.ui.result(
            || &document,
            || {
                let verb = if self.dry_run { "would take away" } else { "took away" };
                format!(
                    "{verb} {}, {}, {}, {}, {}; {} MiB before, {} MiB after\n",
                    counted(swept.threads.len(), "ended thread"),
                    counted(swept.strays.len(), "stray"),
                    counted(swept.snapshots.len(), "snapshot"),
                    counted(swept.leftovers.len(), "leftover"),
                    counted(usize::try_from(swept.bases).unwrap_or(usize::MAX), "base"),
                    swept.bytes_before >> 20,
                    swept.bytes_after >> 20,
                )
            },
        )?;
        Ok(Exit::Done)
    }
}
