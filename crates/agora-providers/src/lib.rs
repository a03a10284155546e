//! The outside world behind agora's seams, as it is on one machine: a directory, `$AGORA_HOME`.
//!
//! ```text
//!  home      the directory's layout, and who may use it
//!  disk      the few operations that change it, each atomic or synced: what a test makes fail one by one
//!  blob      bytes by their hash          registry  versions by their name
//!  secret    values, encrypted at rest    ledger    what happened, in order
//!  shelf     a directory a dispatch       lease     who carries a thread
//!  ground    what agents work on          git       the host's git, and what a repository is
//!  compute   workers as processes         notice    hears that files change
//!  clock     the time                     alarm     waking at a moment
//!  notify    telling a person
//!  program   a short program of the user's, heard out
//!  straight  opening what others may have made
//! ```
//!
//! Nothing here is trusted by the rest of agora: hashes are checked by `agora_core::blobs`, rules are kept by
//! `agora_core::catalogue`.

pub mod alarm;
mod aside;
pub mod blob;
pub mod clock;
pub mod codex;
pub mod compute;
mod content;
pub mod disk;
mod dispatch_dir;
pub mod entropy;
pub mod git;
pub mod ground;
pub mod home;
pub mod keys;
pub mod lease;
pub mod ledger;
mod notice;
pub mod notify;
pub mod program;
pub mod registry;
pub mod secret;
pub mod shelf;
mod straight;
pub mod trust;

mod blocking;
mod unlocked;
mod words;

pub use alarm::SystemAlarm;
pub use clock::SystemClock;
pub use home::Home;
