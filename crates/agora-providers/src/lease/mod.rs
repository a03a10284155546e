//! Leases.

mod local;

pub use local::LocalLeases;
