//! The vocabulary and the rules of agora, with no I/O.
//!
//! Everything here is a value or a function of values, so that each rule can be tested in microseconds and means
//! the same in the command, in the engine, in the worker and after a crash. The modules, in the order the data flows:
//!
//! ```text
//!  the words            id  name  hash  canonical  time  secret  limits
//!  what is registered   path  bundle  reference  template  credential
//!  whom an agent is     login
//!  what it may reach    wall
//!  what happens         job  event  record  entry  state  reason
//!  the pause            question  answer  route  sentinel  marker  strict
//!  engine to worker     wire::{manifest, bootstrap, receipt}
//!  worker to engine     wire::{line, report}
//!  the outside          provider::{blob, registry, secret, ledger, lease, shelf, compute, alarm}
//!  the checked doors    blobs  catalogue
//! ```
//!
//! A provider is never trusted: [`blobs::Blobs`] checks the hash of everything that is read, and
//! [`catalogue::Catalogue`] is the one place that decides what registering and resolving mean.

pub mod answer;
pub mod blobs;
pub mod bundle;
pub mod canonical;
pub mod catalogue;
pub mod credential;
pub mod entry;
pub mod event;
pub mod git;
pub mod ground;
pub mod hash;
pub mod id;
pub mod job;
pub mod limits;
pub mod login;
pub mod marker;
pub mod name;
pub mod overlay;
pub mod path;
pub mod provider;
pub mod question;
pub mod reason;
pub mod record;
pub mod reference;
pub mod route;
pub mod secret;
pub mod sentinel;
pub mod state;
pub mod strict;
pub mod template;
mod text;
pub mod time;
pub mod wall;
pub mod wire;

pub use bundle::{Bundle, BundleKind, Manifest};
pub use hash::ContentHash;
pub use id::{DispatchId, QuestionId, ThreadId};
pub use name::{Name, Namespace};
pub use path::BundlePath;
pub use reference::BundleRef;
pub use time::Timestamp;
