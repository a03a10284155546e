//! The worker's own executable: a worker, or the guard that a worker puts over what it starts.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::io::Write;

    /// What makes this executable a guard.
    const GUARD: &str = "guard";
    /// The code for a command line that is not understood.
    const USAGE: u8 = 2;

    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        None => agora_worker::work(&[GUARD]),
        Some(command) if command == GUARD => agora_worker::child::guard(arguments),
        Some(_) => {
            let told = "agora-worker takes no arguments: agora starts it, with one line on standard input";
            let _ = writeln!(std::io::stderr(), "{told}");
            ExitCode::from(USAGE)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}
