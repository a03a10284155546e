//! Where workers run.

mod process;

pub use process::{LocalProcess, WorkerProgram, boot_id};
