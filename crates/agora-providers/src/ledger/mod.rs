//! The ledger: one SQLite file in `$AGORA_HOME`.
//!
//! ```text
//!  sqlite    the face               writer    one thread, one transaction for all who wait
//!  files     where it lies          reader    the connection that only reads
//!  schema    its tables             bell      tells other processes
//!
//!  append    records, all or nothing           past      folds what is recorded; the chain of hashes
//!  papers    what stands beside the entries    standing  the tables that are only a cache, and how to make them again
//!  view  list  queue  agenda  outbox           what can be asked
//!  damage    what is not as it was recorded, and how it is taken out
//! ```
//!
//! Entries and papers are the truth. `threads`, `dispatches` and `labels` follow from them, and exist so that no question
//! takes longer because much was recorded.

mod agenda;
mod append;
mod bell;
mod damage;
mod fault;
mod files;
mod glance;
mod list;
mod outbox;
mod papers;
mod past;
mod questions;
mod queue;
mod reader;
mod row;
mod schema;
mod sqlite;
mod standing;
mod view;
mod writer;

#[cfg(test)]
mod plan_tests;

pub use glance::{Glance, glance};
pub use sqlite::SqliteLedger;
