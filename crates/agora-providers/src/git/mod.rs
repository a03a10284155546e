//! Git: what of a repository is where, and the host's own program where one is needed.

pub(crate) mod config;
pub(crate) mod host;
pub(crate) mod layout;
pub(crate) mod reserved;
pub(crate) mod store;

pub use host::{Git, GitError};
