//! Blob storage.

mod local;

pub use local::LocalBlobs;
