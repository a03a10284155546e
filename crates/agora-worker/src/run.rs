//! A worker's life: fourteen steps, in this order.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use agora_core::event::Event;
use agora_core::provider::compute::Terminal;
use agora_core::time::Clock;
use agora_core::wire::bootstrap::{Bootstrap, Supplied};
use agora_core::wire::line::Said;
use agora_core::wire::report::Report;

use crate::adapter;
use crate::cancel::Cancel;
use crate::child::{GuardProgram, Keeper, Waiting};
use crate::desk::Desk;
use crate::fault::Fault;
use crate::place::Place;
use crate::redact::Redactor;
use crate::sandbox::wall::Outer;
use crate::steps::decide::{Ending, decide, gather, raise_the_limit};
use crate::steps::finish::{Done, finish};
use crate::steps::{assignment, capture, channel, environment, fetch, invoke, prepare, setup, stage};
use crate::stopwatch::Stopwatch;
use crate::teller::Teller;

/// What a worker gets from outside. Read once, by `work`.
pub struct Outside {
    pub environment: Vec<(OsString, OsString)>,
    /// Stands guard over what the worker starts.
    pub guard: GuardProgram,
    /// Stands guard over the first of it.
    pub waiting: Option<Waiting>,
    pub clock: Arc<dyn Clock>,
    pub cancel: Cancel,
    /// What a person sits at who took the thread over.
    pub terminal: Option<Terminal>,
    /// What stands around the worker itself.
    pub(crate) outer: Outer,
}

impl std::fmt::Debug for Outside {
    /// Without the environment: it may hold anything.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// Runs a dispatch to its one terminal event.
pub fn run(
    outside: Outside,
    stdin: impl Read,
    stdout: impl Write + Send + 'static,
    stderr: &mut dyn Write,
) -> ExitCode {
    let complain = |stderr: &mut dyn Write, why: &dyn std::fmt::Display| {
        // Without a key nothing that is said would count: the engine sees a worker that failed, and this.
        let _ = writeln!(stderr, "agora-worker: {why}");
        ExitCode::FAILURE
    };
    let place = match Place::new(&outside.environment) {
        Ok(place) => place,
        Err(error) => return complain(stderr, &error),
    };
    let bootstrap = match assignment::read_bootstrap(stdin) {
        Ok(Ok(bootstrap)) => bootstrap,
        Ok(Err(error)) => return complain(stderr, &error),
        Err(error) => return complain(stderr, &format!("the bootstrap line could not be read: {error}")),
    };
    match open_desk(place, &bootstrap, outside, stdout) {
        Ok(desk) => match work(bootstrap, desk) {
            Done::Well => ExitCode::SUCCESS,
            Done::Otherwise => ExitCode::FAILURE,
        },
        Err(error) => complain(stderr, &error),
    }
}

fn work(bootstrap: Bootstrap, mut desk: Desk) -> Done {
    let ending = match steps(bootstrap, &mut desk) {
        Ok(ending) => ending,
        Err(Fault::Cancelled) => Ending::Cancelled(None),
        Err(Fault::BudgetSpent { part, what, budget }) => raise_the_limit(part, &what, &budget),
        Err(_) if desk.cancel.is_asked() => Ending::Cancelled(None),
        Err(fault) => Ending::Failed(fault),
    };
    finish(ending, desk) // 14
}

/// The steps. What one makes only the next can use, and a cancel is honoured between any two.
fn steps(bootstrap: Bootstrap, desk: &mut Desk) -> Result<Ending, Fault> {
    let dispatch_id = desk.place.dispatch_id.clone();
    desk.say(Said::Boot { dispatch_id: dispatch_id.clone() })?;

    let assignment = assignment::read(bootstrap, &desk.place)?; //  1
    let runtime = adapter::load(&desk.place)?; //  2
    let fetched = fetch::fetch(assignment, runtime)?; //  3
    desk.cancel.check()?; //  4: the desk has its key and its voice since it was opened
    desk.since_started = Some(Stopwatch::start());
    desk.say(Said::Event(Event::Started { dispatch_id }))?; //  5
    desk.report.warnings.extend(fetched.task.switches.warnings.iter().cloned());

    let staged = stage::stage(fetched, desk)?; //  6
    let secured = environment::resolve_secrets(staged)?; //  7
    let equipped = environment::merge(secured, desk); //  8
    desk.cancel.check()?;
    let set_up = setup::run(equipped, desk)?; //  9
    let ready = prepare::prepare(set_up, desk)?;
    desk.cancel.check()?;
    let listening = channel::start(ready, desk)?; // 10
    let mut invoked = invoke::run(listening, desk)?; // 11
    if let Some(channel) = invoked.channel.take() {
        channel.stop(desk); // 12
    }
    let evidence = gather(&mut invoked, &desk.place); // 13
    capture::capture(&invoked, desk);
    Ok(decide(evidence, desk.cancel.is_asked()))
}

/// Puts everything on the desk that can be had before the manifest is read: from here on failures can be said, signed.
fn open_desk(
    place: Place,
    bootstrap: &Bootstrap,
    outside: Outside,
    stdout: impl Write + Send + 'static,
) -> Result<Desk, String> {
    let Outside { guard, waiting, clock, cancel, terminal, outer, .. } = outside;
    let secrets = bootstrap.secrets.values().filter_map(|supplied| match supplied {
        Supplied::Value(value) => Some(value),
        Supplied::Missing(_) | Supplied::Unreachable(_) => None,
    });
    let redactor = Redactor::new(secrets).map_err(|error| error.to_string())?;
    let key = bootstrap.event_key.clone();
    let teller =
        Teller::new(key, redactor.clone(), Arc::clone(&clock), stdout).map_err(|error| error.to_string())?;
    let mut keeper = Keeper::new(guard, place.dispatch_id.as_str()).with_waiting(waiting);
    keeper.protect(place.out());
    Ok(Desk {
        teller,
        report: Report::new(place.dispatch_id.clone(), clock.now()),
        keeper,
        refused: None,
        place,
        room: None,
        redactor,
        cancel,
        terminal,
        clock,
        since_started: None,
        outer,
    })
}
