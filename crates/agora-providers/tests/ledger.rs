//! The ledger in a file keeps its contract, is never half written, and finds everything by an index.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agora_core::provider::ledger::Ledger;
use agora_core::time::Clock;
use agora_providers::Home;
use agora_providers::ledger::SqliteLedger;
use agora_testkit::contract;
use tempfile::TempDir;

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn the_ledger_in_a_file_meets_the_contract() {
    let dir = TempDir::new().unwrap();
    let count = AtomicU32::new(0);
    let make = |clock: Arc<dyn Clock>| -> Box<dyn Ledger> {
        let number = count.fetch_add(1, Ordering::Relaxed);
        Box::new(SqliteLedger::open(Home::new(dir.path().join(number.to_string())), clock).unwrap())
    };
    block(contract::ledger(&make));
    let several = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    several.block_on(contract::ledger(&make));
}
