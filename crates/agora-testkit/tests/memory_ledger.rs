//! The ledger in memory is a ledger.

use std::sync::Arc;

use agora_testkit::clock::SetClock;
use agora_testkit::ledger::MemoryLedger;

#[tokio::test]
async fn the_ledger_in_memory_meets_the_contract() {
    let clock = Arc::new(SetClock::at("2026-11-15T12:00:00Z"));
    agora_testkit::contract::ledger(&MemoryLedger::new(clock)).await;
}
