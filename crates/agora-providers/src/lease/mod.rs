//! Leases.

mod local;
mod serve;

pub use local::LocalLeases;
pub use serve::Serving;
