//! Where workers run.

#[cfg(feature = "docker")]
mod docker;
mod process;
mod turn;

#[cfg(feature = "docker")]
pub use docker::{ContainerSettings, Containers, Daemon, DaemonError, image};
pub use process::{LocalProcess, WorkerProgram, boot_id};
