//! `agora worker run`, `contained`, `guard` and `view`: what agora starts itself for. No person types them.
//!
//! They are found before anything is parsed or made. A guard is started for every program that a worker runs, its arguments
//! are another program's, and it must have one thread.

use std::ffi::OsString;
use std::process::ExitCode;

/// What makes this executable a worker.
const RUN: [&str; 2] = ["worker", "run"];
/// What makes it the first process of a container, and a worker.
const CONTAINED: [&str; 2] = ["worker", "contained"];
/// What makes it a guard, with a task behind it.
const GUARD: [&str; 2] = ["worker", "guard"];
/// What makes it say what would be visible behind a wall.
const VIEW: [&str; 2] = ["worker", "view"];
/// The code for a question that is none.
#[cfg(target_os = "linux")]
const USAGE: u8 = 2;

/// Runs as one of them when the arguments say so. They begin with the program's name.
#[cfg(target_os = "linux")]
pub(crate) fn run(arguments: &[OsString]) -> Option<ExitCode> {
    let begins = |with: [&str; 2]| arguments.len() > 2 && arguments[1..3] == with;
    if begins(GUARD) {
        return Some(agora_worker::child::guard(arguments[3..].iter().cloned()));
    }
    if begins(CONTAINED) && arguments.len() == 3 {
        return Some(agora_worker::work_contained(&GUARD));
    }
    if begins(VIEW) && arguments.len() == 4 {
        let answer = arguments[3].to_str().and_then(agora_worker::sandbox::preview::view_in_this_process);
        let told = answer.and_then(|answer| crate::ui::print(&(answer + "\n")).ok());
        return Some(told.map_or(ExitCode::from(USAGE), |()| ExitCode::SUCCESS));
    }
    (begins(RUN) && arguments.len() == 3).then(|| agora_worker::work(&GUARD))
}

/// Workers are for Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_arguments: &[OsString]) -> Option<ExitCode> {
    None
}
