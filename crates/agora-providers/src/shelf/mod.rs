//! Where a dispatch's files are.

mod local;
mod remove;
pub(crate) mod untrusted;

pub use local::LocalShelf;
