//! What every step uses: the place, the voice, the report, and the one who starts programs.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use agora_core::limits::{LINE_STDERR_BYTES, LINE_STDOUT_BYTES, LOG_BYTES};
use agora_core::provider::compute::Terminal;
use agora_core::time::Clock;
use agora_core::wire::line::{Ran, Said};
use agora_core::wire::report::Report;

use crate::cancel::Cancel;
use crate::child::drain::{Capped, LogFile, Redacting, Tee};
use crate::child::{Ended, Keeper, Spec, StartError};
use crate::fault::Fault;
use crate::place::Place;
use crate::progress::{Board, Progress, Step};
use crate::redact::Redactor;
use crate::room::Room;
use crate::sandbox::wall::Outer;
use crate::steps::invoke::{millis, shell_code};
use crate::stopwatch::Stopwatch;
use crate::teller::Teller;
use crate::unnamed::Unnamed;

/// A worker's desk.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) place: Place,
    /// `None` for a workspace that began empty.
    pub(crate) room: Option<Room>,
    pub(crate) teller: Teller,
    pub(crate) report: Report,
    /// What a person reads when the login that the agent got is refused.
    pub(crate) refused: Option<String>,
    pub(crate) redactor: Redactor,
    pub(crate) keeper: Keeper,
    pub(crate) cancel: Cancel,
    /// What a person sits at who took the thread over, until the agent has it.
    pub(crate) terminal: Option<Terminal>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Runs since `dispatch.started`.
    pub(crate) since_started: Option<Stopwatch>,
    /// What stands around the worker itself.
    pub(crate) outer: Outer,
}

/// The logs of a program, as files.
pub(crate) struct Logs {
    pub(crate) stdout: LogFile,
    pub(crate) stderr: LogFile,
}

/// What a short program did.
#[derive(Debug)]
pub(crate) struct BriefRun {
    pub(crate) ended: Ended,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl BriefRun {
    pub(crate) fn line(&self) -> Ran {
        Ran {
            exit_code: shell_code(self.ended.how),
            duration_ms: millis(self.ended.duration),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
        }
    }
}

impl Desk {
    /// Says something. A line that cannot be written is a bug of ours, and ends the dispatch.
    pub(crate) fn say(&mut self, said: Said) -> Result<(), Fault> {
        let broken =
            |error| Fault::Workspace { what: "writing an event line", source: io::Error::other(error) };
        self.teller.say(said).map_err(broken)
    }

    /// Notes something that a person should know and nobody fails for.
    pub(crate) fn warn(&mut self, warning: String) {
        self.report.warnings.push(warning);
    }

    /// Returns where progress is shown.
    pub(crate) fn board(&self) -> Board {
        Board::new(self.place.out(), self.redactor.clone(), Arc::clone(&self.clock))
    }

    /// Shows that a step has begun that may take long.
    pub(crate) fn show(&self, step: Step) {
        self.board().show(step, &Progress::default());
    }

    /// Returns the log files of a program.
    pub(crate) fn logs(&self, name: &str) -> Logs {
        let log =
            |stream: &str| LogFile::at(self.place.out().join(format!("{name}.{stream}.log")), LOG_BYTES);
        Logs { stdout: log("stdout"), stderr: log("stderr") }
    }

    /// Makes a file without a name, for what only this worker needs.
    pub(crate) fn spool(&self) -> io::Result<File> {
        Unnamed::new(&self.place.out())?.file.try_clone()
    }

    /// Runs a program whose output is a few words, to its end.
    pub(crate) fn run_briefly(&self, spec: Spec, name: &str) -> Result<BriefRun, StartError> {
        let logs = self.logs(name);
        let stdout = Arc::new(Mutex::new(Capped::new(LINE_STDOUT_BYTES)));
        let stderr = Arc::new(Mutex::new(Capped::new(LINE_STDERR_BYTES)));
        let out = Tee(vec![Box::new(logs.stdout), Box::new(Arc::clone(&stdout))]);
        let err = Tee(vec![Box::new(logs.stderr), Box::new(Arc::clone(&stderr))]);
        let hide = |sink| Box::new(Redacting::new(&self.redactor, sink));
        let running = self.keeper.start(spec, hide(out), hide(err))?;
        self.cancel.watch(running.stopper());
        let ended = running.wait();
        self.cancel.unwatch();
        let text = |capped: &Mutex<Capped>| capped.lock().unwrap_or_else(PoisonError::into_inner).text();
        Ok(BriefRun { ended, stdout: text(&stdout), stderr: text(&stderr) })
    }
}
