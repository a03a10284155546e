//! Checks of our own, for what no tool checks.

mod file_size;
mod machine_path;

pub(crate) use file_size::check as file_size;
pub(crate) use machine_path::check as machine_path;
