//! What agora's tests share. Never shipped.
//!
//! ```text
//!  contract   what every implementation of a seam keeps true; a new back end adds one call
//!  disk       the real disk with one fault: it stops the world, or is full, at the operation a test chooses
//!  clock      a clock that a test sets        ledger  a ledger in memory
//!  corpus     inputs from outside, and what can happen to them
//!  cli        the built command in a sealed environment
//!  model      a scripted model that speaks to the real agents
//!  login      a scripted login server, whose refresh tokens work once
//!  worker     the real worker, started as an engine would
//!  part       the real programs that `cargo xtask test` brings
//!  watch      tells whether anybody opened a file
//!  terminal   a terminal that a command is started in
//!  pipe       shows whether what has it open is alive
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "this crate is test code: it fails loudly, and starts the processes that tests look at"
)]

pub mod cli;
pub mod clock;
pub mod contract;
pub mod corpus;
pub mod disk;
pub mod ledger;
pub mod login;
pub mod model;
pub mod part;
pub mod pipe;
pub mod terminal;
pub mod watch;
pub mod worker;
