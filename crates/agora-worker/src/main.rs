//! The worker's own executable.

use std::process::ExitCode;

/// The code for a command line that is not understood.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(|command| command.to_str()) {
        #[cfg(target_os = "linux")]
        Some("guard") => agora_worker::child::guard(arguments),
        _ => ExitCode::from(USAGE),
    }
}
