//! A repository to work on, and the work coming home: the built command, real git, with layers and with copies.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts what it looks at"
)]

mod again;
mod apply;
mod claims;
mod commits;
mod contention;
mod given;
mod hostile;
mod kept;
mod killed;
mod larger;
mod midway;
mod private;
mod rewritten;
mod sees;
mod support;
mod taken;
mod thread;
mod told;
mod trouble;
mod whole;
