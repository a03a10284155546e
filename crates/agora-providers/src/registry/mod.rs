//! The registry.

mod cache;
mod line;
mod local;

pub use local::LocalRegistry;
