//! The ledger in memory is a ledger.

use agora_testkit::ledger::MemoryLedger;

#[tokio::test]
async fn the_ledger_in_memory_meets_the_contract() {
    agora_testkit::contract::ledger(&|clock| Box::new(MemoryLedger::new(clock))).await;
}
