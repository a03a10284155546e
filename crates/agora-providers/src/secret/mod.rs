//! Secret stores.

mod key;
mod local;

pub use local::LocalSecrets;
