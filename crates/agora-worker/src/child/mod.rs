//! The one way to start another program.
//!
//! [`hear`] asks a program one thing and waits for a short answer. A `Keeper` runs a program that may be hostile and
//! long: it is fed, drained and limited, and when `Running::wait` returns, nothing that it started is alive.
//!
//! ```text
//! worker ── Keeper ──▶ guard (a fork, or started) ──────▶ program ──▶ whatever it starts
//!    │                   │ subreaper: every orphan below it becomes its child
//!    ├── orders ────────▶│
//!    │◀─── reports ──────┤ end of file on either side: the other one is dead
//!    └◀── output ────────┴──────────────────────────────── program
//! ```
//!
//! Behind a wall of namespaces there is one more: the first process of the PID namespace, between guard and program. When it ends,
//! the kernel ends everything in there.
//!
//! The guard outlives the program and dies with the worker, so neither the program's end nor the worker's leaves
//! anything running. When the guard is killed, the worker, which is a subreaper too, sweeps in its place.

#[cfg(target_os = "linux")]
pub(crate) mod cgroup;
#[cfg(target_os = "linux")]
mod container;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod deadline;
#[cfg(target_os = "linux")]
mod disk;
pub mod drain;
mod family;
#[cfg(target_os = "linux")]
mod flow;
#[cfg(target_os = "linux")]
mod group;
#[cfg(target_os = "linux")]
mod guard;
mod hear;
#[cfg(target_os = "linux")]
mod hold;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod launch;
pub(crate) mod modes;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod spec;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod wait;
#[cfg(target_os = "linux")]
mod waiting;

pub use drain::Sink;
#[cfg(target_os = "linux")]
pub use guard::guard;
pub use hear::{Brief, HearError, Heard, hear};
#[cfg(target_os = "linux")]
pub(crate) use run::kernel_can_limit;
#[cfg(target_os = "linux")]
pub use run::{GuardProgram, Keeper};
#[cfg(target_os = "linux")]
pub use spec::{Ended, GRACE, How, Input, Limits, SoftSignal, Spec, StartError, Why};
#[cfg(target_os = "linux")]
pub use wait::{Running, Stopper};
#[cfg(target_os = "linux")]
pub use waiting::Waiting;
