//! A child that runs, and the wait for its end.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use rustix::process::Signal;

use super::control::{Order, Report};
use super::deadline::{Deadline, Since};
use super::flow::{Flowed, Flows};
use super::hold::{Event, Hold, SWEEPING};
use super::spec::{Ended, How, SoftSignal, Why};
use super::{container, modes};

/// How long streams may stay open once everything is dead. What was in them is read at once; only somebody outside, who was
/// handed a stream, makes this run out.
const STREAMS_OPEN: Duration = Duration::from_secs(3);

/// A child. Dropping it kills it with all that it started.
#[derive(Debug)]
pub struct Running {
    // Dropped in this order: the streams end by themselves when everything is dead.
    hold: Hold,
    flows: Flows,
    since: Since,
    time: Option<Duration>,
    soft: SoftSignal,
    grace: Duration,
    /// A directory of the worker's own.
    own: Option<PathBuf>,
}

/// Stops a child, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// Asks the child to end, and ends it when it does not. Only the first call counts, and none after its end.
    pub fn stop(&self, why: Why) {
        // Nobody waits any more: it has ended.
        let _ = self.0.send(Event::Stop(why));
    }
}

/// How far a child is on its way to its end, and how long it may stay there.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Running(Deadline),
    /// It got its soft signal.
    Asked(Deadline),
    /// It is dead or was sent SIGKILL, and the guard sweeps.
    Swept(Deadline),
}

impl Running {
    pub(super) fn new(
        hold: Hold,
        flows: Flows,
        since: Since,
        time: Option<Duration>,
        soft: SoftSignal,
        grace: Duration,
        own: Option<PathBuf>,
    ) -> Self {
        Self { hold, flows, since, time, soft, grace, own }
    }

    pub fn stopper(&self) -> Stopper {
        Stopper(self.hold.sender.clone())
    }

    /// Waits until the child has ended, everything that it started is gone, and its output is read.
    pub fn wait(mut self) -> Ended {
        let (mut how, mut stopped, mut duration) = (None, None, None);
        let left = self.time.map(|time| time.saturating_sub(self.since.elapsed()));
        let mut phase = Phase::Running(Deadline::after_if_any(left));
        loop {
            let (Phase::Running(deadline) | Phase::Asked(deadline) | Phase::Swept(deadline)) = phase;
            match (self.hold.next(deadline), phase) {
                (Event::Report(Report::Ended(end)), _) => {
                    (how, duration) = (Some(end), Some(self.since.elapsed()));
                    phase = Phase::Swept(Deadline::after(SWEEPING));
                }
                (Event::Report(Report::Swept(_)) | Event::Gone, _) => break,
                (Event::Stop(Why::Disk), Phase::Running(_) | Phase::Asked(_)) => {
                    stopped = stopped.or(Some(Why::Disk));
                    self.hold.order(Order::Kill);
                    phase = Phase::Swept(Deadline::after(SWEEPING));
                }
                (Event::Stop(why), Phase::Running(_)) => (stopped, phase) = (Some(why), self.ask()),
                (Event::Late, Phase::Running(_)) => (stopped, phase) = (Some(Why::Time), self.ask()),
                (Event::Late, Phase::Asked(_)) => {
                    self.hold.order(Order::Kill);
                    phase = Phase::Swept(Deadline::after(SWEEPING));
                }
                // The guard does not answer.
                (Event::Late, Phase::Swept(_)) => break,
                // Another reason to stop, or a report that comes only once.
                (Event::Stop(_) | Event::Report(_), _) => {}
            }
        }
        let released = self.hold.release();
        let flowed = self.flows.finish(STREAMS_OPEN);
        if let Some(own) = &self.own {
            modes::mend(own);
        }
        Ended {
            how: how.or(released.how).unwrap_or(How::Killed(Signal::KILL.as_raw())),
            stopped,
            out_of_memory: container::ran_out_of_memory() || released.swept.out_of_memory,
            too_many_processes: released.swept.too_many_processes,
            duration: duration.unwrap_or_else(|| self.since.elapsed()),
            leftovers: released.swept.leftovers || flowed == Flowed::GivenUp,
        }
    }

    fn ask(&mut self) -> Phase {
        self.hold.order(Order::Soft(self.soft));
        Phase::Asked(Deadline::after(self.grace))
    }
}
