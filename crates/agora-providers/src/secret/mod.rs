//! Secret stores.

mod command;
mod key;
mod local;

pub use command::command_secret;
pub use local::LocalSecrets;
