//! A worker as a process: what it takes from the machine before its first step.

mod contained;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use agora_core::time::{Clock, Timestamp};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;

use crate::cancel::Cancel;
use crate::child::{GuardProgram, Waiting};
use crate::run::{Outside, run};
use crate::sandbox::syscall::share_one_heap;
use crate::sandbox::wall::Outer;

/// Runs as a worker: the whole life of `agora-worker` and of `agora worker run`. The arguments are those that make this very
/// executable run [`guard`](crate::child::guard()).
pub fn work(guard: &[&str]) -> ExitCode {
    serve(outside(guard, Heeds::Anybody))
}

/// Runs as the first process of a container: the whole life of `agora worker contained`. What it says goes to files of its place, as
/// for a worker that is a process of the engine's machine, and it heeds only who is outside: the agent is inside with it.
pub fn work_contained(guard: &[&str]) -> ExitCode {
    serve(contained::enter(dispatch_dir()).and_then(|()| outside(guard, Heeds::WhoIsOutside)))
}

fn serve(outside: io::Result<Outside>) -> ExitCode {
    match outside {
        Ok(outside) => run(outside, io::stdin(), io::stdout(), &mut io::stderr()),
        Err(error) => {
            let _ = writeln!(io::stderr(), "agora-worker: the machine does not let it start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whose wish to end is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heeds {
    Anybody,
    /// Whoever is not among the processes that this one can see: their id is 0 to it.
    WhoIsOutside,
}

impl Heeds {
    fn hears(self, origin: &Origin) -> bool {
        match self {
            Self::Anybody => true,
            // The kernel itself has no process.
            Self::WhoIsOutside => origin.process.is_none_or(|sender| sender.pid == 0),
        }
    }
}

fn outside(guard: &[&str], heeds: Heeds) -> io::Result<Outside> {
    // First of all, while it hides nothing, knows nothing, and has one thread.
    let outer = match heeds {
        Heeds::Anybody => Outer::machine(),
        Heeds::WhoIsOutside => Outer::Container,
    };
    share_one_heap();
    crate::room::enter(dispatch_dir().as_deref());
    let life = pass_life_on()?;
    let waiting = Some(Waiting::fork(&life)?);
    // For as long as this process lives.
    std::mem::forget(life);
    let environment = std::env::vars_os().collect();
    // It holds the event key and every secret: nobody but root opens its descriptors or reads its memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // So that a worker, which may run for hours, keeps no directory busy.
    rustix::process::chdir("/")?;
    let cancel = Cancel::default();
    let asked = cancel.clone();
    let mut signals = SignalsInfo::<WithOrigin>::new([SIGTERM, SIGINT])?;
    let hear = move || signals.forever().filter(|origin| heeds.hears(origin)).for_each(|_| asked.ask());
    thread::Builder::new().name("signals".into()).spawn(hear)?;
    let guard = GuardProgram {
        program: std::env::current_exe()?,
        arguments: guard.iter().map(OsString::from).collect(),
    };
    let terminal = crate::terminal::receive(io::stdin())?;
    let clock = Arc::new(SystemClock);
    Ok(Outside { environment, guard, waiting, clock, cancel, terminal, outer })
}

/// Lets guards inherit the standard error that this worker was given, beside the pipe that is theirs.
///
/// Whoever started the worker may know by the lock on that file, or by the end of that pipe, whether it lives. Should it be
/// killed, it is not over before its guards are done. They do not pass it on: a guard's program gets three streams.
fn pass_life_on() -> io::Result<OwnedFd> {
    // Without close-on-exec.
    Ok(rustix::io::dup(io::stderr())?)
}

/// Returns where the dispatch is. Nothing else of the environment is read as early: what is in a fork then is nobody's secret.
#[expect(clippy::disallowed_methods, reason = "the rest is read once, by whoever works")]
fn dispatch_dir() -> Option<PathBuf> {
    std::env::var_os("AGORA_DISPATCH_DIR").map(PathBuf::from)
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
