//! Step 9: runs the setup script, if there is one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use agora_core::wire::line::Said;

use super::environment::Equipped;
use crate::child::{How, Input, Limits, SoftSignal, Spec, StartError, Why};
use crate::desk::Desk;
use crate::fault::Fault;
use crate::progress::Step;

const SCRIPT: &str = "agora-setup.sh";

/// Proof that the setup script has run, or that there is none.
#[derive(Debug)]
pub(crate) struct SetUp(pub(crate) Equipped);

/// Runs it, and says how it went. A script that failed leaves the agent no ground to stand on.
pub(crate) fn run(equipped: Equipped, desk: &mut Desk) -> Result<SetUp, Fault> {
    let path = desk.place.work().join(SCRIPT);
    let Ok(data) = fs::symlink_metadata(&path) else { return Ok(SetUp(equipped)) };
    if !data.is_file() {
        return Err(Fault::Setup("is not a file".to_owned()));
    }
    let seconds = equipped.task.switches.setup_seconds;
    // With its own first line where it is executable; a plain file is a script of the shell.
    let executable = data.permissions().mode() & 0o111 != 0;
    let path = desk.place.inside().work.join(SCRIPT);
    let (program, arguments) =
        if executable { (path, vec![]) } else { (PathBuf::from("/bin/sh"), vec![path.into()]) };
    let spec = Spec {
        program,
        arguments,
        directory: desk.place.inside().work,
        environment: equipped.environment.0.clone().into_iter().collect(),
        stdin: Input::Closed,
        limits: Limits { time: Some(Duration::from_secs(u64::from(seconds))), ..equipped.task.limits() },
        soft: SoftSignal::Terminate,
        grace: crate::child::GRACE,
    };
    desk.show(Step::Setup);
    let ran = desk.run_briefly(spec, "setup").map_err(|error| match error {
        error @ StartError::Wall { .. } => Fault::NotStarted(error),
        error => Fault::Setup(format!("could not be started: {error}")),
    })?;
    desk.say(Said::SetupRan(ran.line()))?;
    desk.cancel.check()?;
    match (ran.ended.stopped, ran.ended.how) {
        (Some(Why::Time), _) => Err(Fault::Setup(format!("did not end within {seconds} seconds"))),
        (_, How::Exited(0)) => Ok(SetUp(equipped)),
        (_, How::Exited(code)) => Err(Fault::Setup(format!("ended with code {code}"))),
        (_, How::Killed(signal)) => Err(Fault::Setup(format!("was ended by signal {signal}"))),
    }
}
