//! Secret stores.

mod command;
mod local;
mod seal;

pub use command::command_secret;
pub use local::LocalSecrets;
