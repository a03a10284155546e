//! What every command pays: the start of the program.

use super::{Figure, Subject, rounds};
use crate::failure::Failure;

/// Enough that one slow spawn does not show, in a fifth of a second.
pub(super) const SPAWNS: u32 = 200;

/// How the floor of a process is named.
pub(super) const SPAWN: &str = "spawn `/bin/true`";

pub(super) fn help(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let home = subject.directory("startup")?;
    let mut help = subject.agora(&home).arg("--help");
    let mut nothing = Subject::nothing();
    let [measured, floor] = rounds::medians([&mut || rounds::mean_of(&mut help, SPAWNS), &mut || {
        rounds::mean_of(&mut nothing, SPAWNS)
    }])?;
    Ok(vec![Figure::time("`agora --help`", measured, SPAWN, floor).wish("≤ 3 ×")])
}
