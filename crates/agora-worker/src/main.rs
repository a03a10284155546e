//! The worker's own executable: a worker, or the guard that a worker puts over what it starts.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(|command| command.to_str()) {
        Some("guard") => agora_worker::child::guard(arguments),
        Some(_) => linux::usage(),
        None => linux::work(),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Write};
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::thread;
    use std::time::{SystemTime, UNIX_EPOCH};

    use agora_core::time::{Clock, Timestamp};
    use agora_worker::{Cancel, Outside, run};
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    /// The code for a command line that is not understood.
    const USAGE: u8 = 2;

    pub(super) fn usage() -> ExitCode {
        let told = "agora-worker takes no arguments: agora starts it, with one line on standard input";
        let _ = writeln!(io::stderr(), "{told}");
        ExitCode::from(USAGE)
    }

    pub(super) fn work() -> ExitCode {
        let cancel = Cancel::default();
        let asked = cancel.clone();
        let heard = Signals::new([SIGTERM, SIGINT]).and_then(|mut signals| {
            let hear = move || signals.forever().for_each(|_| asked.ask());
            thread::Builder::new().name("signals".into()).spawn(hear)
        });
        let program = std::env::current_exe();
        let (Ok(_), Ok(program)) = (heard, program) else {
            let _ = writeln!(io::stderr(), "agora-worker: signals or its own program cannot be had");
            return ExitCode::FAILURE;
        };
        let environment = std::env::vars_os().collect();
        let outside = Outside { environment, program, clock: Arc::new(SystemClock), cancel };
        run(outside, io::stdin(), io::stdout(), &mut io::stderr())
    }

    /// The machine's time, for dating lines.
    #[derive(Debug)]
    struct SystemClock;

    impl Clock for SystemClock {
        #[expect(clippy::disallowed_methods, reason = "this is the clock that others take")]
        fn now(&self) -> Timestamp {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        }
    }
}
