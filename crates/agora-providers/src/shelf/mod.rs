//! Where a dispatch's files are.

mod local;
mod placing;
mod remove;
mod size;
mod tree;
pub(crate) mod untrusted;

pub use local::LocalShelf;
pub(crate) use remove::remove;
pub(crate) use size::of as size_of;
