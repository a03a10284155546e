//! Step 11: runs the agent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agora_core::limits::{LINE_STDERR_BYTES, LINE_STDOUT_BYTES};
use agora_core::provider::compute::Terminal;
use agora_core::wire::line::{Ran, Said};

use super::channel::{Channel, Listening};
use super::prepare::{Baselines, Ready};
use crate::adapter::{Allowance, End, Environment, Invocation, Job, Listener, Runtime, RuntimeExit};
use crate::budget;
use crate::child::drain::{Capped, Lines, Redacting, Tee};
use crate::child::{Ended, GRACE, How, Limits, Sink, Spec, Stopper};
use crate::desk::Desk;
use crate::fault::{Fault, workspace};
use crate::needs_input::resume::Occasion;
use crate::progress::{Follower, Progress, Step};
use crate::steps::fetch::Task;
use crate::terminal::Vigil;

/// The agent has ended, and nothing that it started is left.
pub(crate) struct Invoked {
    pub(crate) task: Task,
    pub(crate) runtime: Runtime,
    pub(crate) environment: Environment,
    pub(crate) baselines: Baselines,
    pub(crate) ended: Ended,
    pub(crate) exit: RuntimeExit,
    /// What ended it first: the dispatch's time, or what was left of the budget's.
    pub(crate) minutes_left: bool,
    pub(crate) channel: Option<Channel>,
}

/// The listener, shared between the thread that reads and us, and what it may stop.
struct Hearing {
    listener: Option<Box<dyn Listener>>,
    stopper: Option<Stopper>,
}

pub(crate) fn run(listening: Listening, desk: &mut Desk) -> Result<Invoked, Fault> {
    let Listening { ready, mut channel } = listening;
    let Ready { task, runtime, environment, baselines, words, session } = ready;
    let left = budget::left(&task)?;
    let job = Job {
        place: &desk.place,
        task: &task,
        environment: &environment,
        prompt: words.prompt,
        follow_up: words.follow_up,
        teaching: words.teaching,
        session: session.as_ref(),
        left: Allowance { turns: left.turns, tokens: left.tokens, usd: left.usd },
    };
    let terminal = desk.terminal.take();
    let invocation = match (&task.occasion, &terminal) {
        (Occasion::TakenOver, Some(terminal)) => {
            desk.place.give_terminal(terminal).map_err(workspace("giving the agent its terminal"))?;
            runtime.attend(&job, terminal)?
        }
        (Occasion::TakenOver, None) => return Err(Fault::NoTerminal),
        (Occasion::First | Occasion::Answered(_) | Occasion::Continued { .. }, _) => runtime.plan(&job)?,
    };
    if let Some(resumed) = &mut desk.report.resumed_with {
        resumed.session = invocation.resumed;
    }
    let timeout = task.time();
    let time = left.time.map_or(timeout, |left| left.min(timeout));
    let limits = Limits { time: Some(time), ..task.limits() };
    let (spec, listener) = spec(invocation, &environment, limits, desk);
    let (ended, exit) = match supervise(spec, listener, terminal, channel.as_mut(), desk) {
        Ok(ran) => ran,
        Err(fault) => {
            if let Some(channel) = channel {
                channel.stop(desk);
            }
            return Err(fault);
        }
    };
    let minutes_left = left.time.is_none_or(|left| left > timeout);
    Ok(Invoked { task, runtime, environment, baselines, ended, exit, minutes_left, channel })
}

fn spec(
    invocation: Invocation,
    environment: &Environment,
    limits: Limits,
    desk: &Desk,
) -> (Spec, Box<dyn Listener>) {
    let mut variables = environment.0.clone();
    variables.extend(invocation.environment.into_iter().map(|(name, value)| (name.into(), value)));
    let spec = Spec {
        program: invocation.program,
        arguments: invocation.arguments,
        directory: desk.place.inside().work,
        environment: variables.into_iter().collect(),
        stdin: invocation.stdin,
        limits,
        soft: invocation.soft,
        grace: GRACE,
    };
    (spec, invocation.listener)
}

fn supervise(
    spec: Spec,
    listener: Box<dyn Listener>,
    terminal: Option<Terminal>,
    channel: Option<&mut Channel>,
    desk: &mut Desk,
) -> Result<(Ended, RuntimeExit), Fault> {
    let begun = listener.progress();
    let hearing = Arc::new(Mutex::new(Hearing { listener: Some(listener), stopper: None }));
    let follower = show(begun, &hearing, desk);
    let bell = follower.as_ref().map(Follower::bell);
    let stdout = Arc::new(Mutex::new(Capped::new(LINE_STDOUT_BYTES)));
    let stderr = Arc::new(Mutex::new(Capped::new(LINE_STDERR_BYTES)));
    let logs = desk.logs("agent");
    let heard = Arc::clone(&hearing);
    let lines = Lines::new(move |line: &[u8]| {
        let mut hearing = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let wish = hearing.listener.as_mut().and_then(|listener| listener.line(line));
        if let (Some(why), Some(stopper)) = (wish, &hearing.stopper) {
            stopper.stop(why);
        }
        drop(hearing);
        if let Some(bell) = &bell {
            bell.ring();
        }
    });
    let hidden = Tee(vec![Box::new(logs.stdout), Box::new(Arc::clone(&stdout))]);
    let out = Tee(vec![Box::new(lines), Box::new(Redacting::new(&desk.redactor, hidden))]);
    let hidden = Tee(vec![Box::new(logs.stderr), Box::new(Arc::clone(&stderr))]);
    let err: Box<dyn Sink> = Box::new(Redacting::new(&desk.redactor, hidden));
    let running = desk.keeper.start(spec, Box::new(out), err).map_err(Fault::NotStarted)?;
    hearing.lock().unwrap_or_else(PoisonError::into_inner).stopper = Some(running.stopper());
    desk.cancel.watch(running.stopper());
    if let Some(channel) = channel {
        channel.may_stop(running.stopper()).map_err(workspace("watching the channel"))?;
    }
    let vigil = terminal.map(|terminal| Vigil::keep(terminal, running.stopper())).transpose();
    let vigil = vigil.map_err(workspace("watching the terminal"))?;
    let ended = running.wait();
    desk.cancel.unwatch();
    // With it goes the last hold on the terminal: whoever sits there sees that the program has ended.
    drop(vigil);
    drop(follower);
    let text = |capped: &Mutex<Capped>| capped.lock().unwrap_or_else(PoisonError::into_inner).text();
    let (stdout, stderr) = (text(&stdout), text(&stderr));
    let end = End { ended: &ended, stdout: &stdout, stderr: &stderr };
    let listener = hearing.lock().unwrap_or_else(PoisonError::into_inner).listener.take();
    // The one listener is taken here and nowhere else.
    let exit = listener.map(|listener| listener.conclude(&end)).ok_or(Fault::Cancelled)?;
    desk.say(Said::AdapterRan(Ran {
        exit_code: shell_code(ended.how),
        duration_ms: millis(ended.duration),
        // Hidden before it is cut: half of a secret at the edge would be left.
        stdout: capped(&desk.redactor.text(&exit.text)),
        stderr,
    }))?;
    Ok((ended, exit))
}

/// Shows that the agent has begun, and goes on showing how far it is when its runtime tells.
fn show(begun: Option<Progress>, hearing: &Arc<Mutex<Hearing>>, desk: &Desk) -> Option<Follower> {
    let board = desk.board();
    board.show(Step::Agent, &begun.clone().unwrap_or_default());
    begun?;
    let asked = Arc::clone(hearing);
    let ask = move || {
        let hearing = asked.lock().unwrap_or_else(PoisonError::into_inner);
        hearing.listener.as_ref().and_then(|listener| listener.progress())
    };
    // Without a thread for it nobody watches, and the agent works all the same.
    board.follow(ask).ok()
}

/// Says an end as shells do.
pub(crate) fn shell_code(how: How) -> i32 {
    match how {
        How::Exited(code) => code,
        How::Killed(signal) => 128 + signal,
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Cuts a text that a line could not hold, keeping its head and its tail.
fn capped(text: &str) -> String {
    if text.len() <= LINE_STDOUT_BYTES {
        return text.to_owned();
    }
    let mut capped = Capped::new(LINE_STDOUT_BYTES);
    capped.take(text.as_bytes());
    capped.end();
    capped.text()
}
