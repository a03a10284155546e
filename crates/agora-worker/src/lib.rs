//! The half of agora that stands beside untrusted code.
//!
//! ```text
//!  work           a worker as a process
//!  run            the fourteen steps, on one screen
//!  steps/         each step, from what the one before made
//!  adapter/       what knows one runtime: claude-code, codex, command, external
//!  needs_input/   how an agent asks, and how what it wrote is read
//!  terminal       what a person sits at who took a thread over
//!  child/         the one way to start another program
//!  room           the workspace as layers over what it was made from
//!  overlay  patch  snapshot  seal  outputs      what goes into a workspace, and what comes out (archive: files as a stream)
//!  redact  teller  outcome  progress  fault     what is said, and what is not
//!  sandbox        what this machine can put between an agent and everything else
//! ```

#[cfg(target_os = "linux")]
mod adapter;
mod archive;
#[cfg(target_os = "linux")]
mod budget;
#[cfg(target_os = "linux")]
mod cancel;
pub mod child;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod desk;
#[cfg(target_os = "linux")]
mod fault;
#[cfg(all(target_os = "linux", fuzzing))]
pub mod fuzz;
#[cfg(target_os = "linux")]
mod hashing;
mod needs_input;
#[cfg(target_os = "linux")]
mod outcome;
mod outputs;
pub mod overlay;
pub mod patch;
mod place;
#[cfg(target_os = "linux")]
mod progress;
pub mod redact;
mod redact_said;
#[cfg(target_os = "linux")]
mod room;
#[cfg(target_os = "linux")]
mod run;
pub mod sandbox;
pub mod seal;
pub mod snapshot;
#[cfg(target_os = "linux")]
mod steps;
mod stopwatch;
mod switches;
mod teller;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod unnamed;
#[cfg(target_os = "linux")]
mod work;

#[cfg(target_os = "linux")]
pub use cancel::Cancel;
#[cfg(target_os = "linux")]
pub use run::{Outside, run};
#[cfg(target_os = "linux")]
pub use work::{work, work_contained};
