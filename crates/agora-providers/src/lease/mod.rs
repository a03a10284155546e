//! Leases.

mod local;
mod serve;
mod spare;

pub use local::LocalLeases;
pub use serve::Serving;
