//! The processes that this one started itself, and the orphans that came to it.
//!
//! Every start goes through [`Member`] or [`enrol`], so whatever else is a child of this process is the orphan of a killed guard, or of a
//! program that was only heard. That holds in a worker. A process that starts programs in other ways as well must not be a
//! keeper: it could lose them in a sweep.

use std::collections::BTreeSet;
use std::io;
use std::ops::{Deref, DerefMut};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(target_os = "linux")]
use std::{thread, time::Duration};

#[cfg(target_os = "linux")]
use rustix::io::FdFlags;
#[cfg(target_os = "linux")]
use rustix::process::{Pid, WaitOptions, waitpid};

#[cfg(target_os = "linux")]
use super::{deadline::Deadline, spec::How, tree};

/// Ids of the members that were not waited for yet.
static MEMBERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A process that this one started.
#[derive(Debug)]
pub(super) struct Member(Child);

impl Member {
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        Self::enrol(&mut members(), command)
    }

    /// Starts a process that inherits one more descriptor, under the same number.
    ///
    /// No other start may come in between: that program would inherit it too.
    #[cfg(target_os = "linux")]
    pub(super) fn start_with(command: &mut Command, inherited: OwnedFd) -> io::Result<Self> {
        let mut members = members();
        rustix::io::fcntl_setfd(&inherited, FdFlags::empty())?;
        let started = Self::enrol(&mut members, command);
        drop(inherited);
        started
    }

    fn enrol(members: &mut BTreeSet<u32>, command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        members.insert(child.id());
        Ok(Self(child))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        members().remove(&self.id());
    }
}

impl Deref for Member {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Member {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// Takes in a process that this one forked.
#[cfg(target_os = "linux")]
pub(super) fn enrol(forked: Pid) {
    members().insert(number(forked));
}

/// Forgets a process that was forked and waited for.
#[cfg(target_os = "linux")]
pub(super) fn strike(forked: Pid) {
    members().remove(&number(forked));
}

#[cfg(target_os = "linux")]
fn number(id: Pid) -> u32 {
    id.as_raw_nonzero().get().unsigned_abs()
}

fn members() -> MutexGuard<'static, BTreeSet<u32>> {
    MEMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long orphans may take to die. They were sent SIGKILL; only one that hangs in the kernel takes longer.
#[cfg(target_os = "linux")]
const DYING: Duration = Duration::from_secs(5);
/// Between two looks at orphans that are dying.
#[cfg(target_os = "linux")]
const PAUSE: Duration = Duration::from_millis(2);

/// What came of killing the orphans.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orphans {
    /// How the one that was asked for ended, when it was among them.
    pub(super) how: Option<How>,
    pub(super) leftovers: bool,
}

/// Kills every orphan that came to this process, with all below them. `agent` is the one whose end is of interest.
#[cfg(target_os = "linux")]
pub(super) fn sweep_orphans(agent: Option<Pid>) -> Orphans {
    let deadline = Deadline::after(DYING);
    let mut how = None;
    loop {
        let pass = sweep_once(agent, &mut how);
        match pass {
            Pass::Nobody => return Orphans { how, leftovers: false },
            // What the dead leave behind is here by now.
            Pass::SomeDied if !deadline.passed() => {}
            Pass::AllDying if !deadline.passed() => thread::sleep(PAUSE),
            Pass::SomeDied | Pass::AllDying => return Orphans { how, leftovers: true },
        }
    }
}

#[cfg(target_os = "linux")]
enum Pass {
    Nobody,
    SomeDied,
    AllDying,
}

#[cfg(target_os = "linux")]
fn sweep_once(agent: Option<Pid>, how: &mut Option<How>) -> Pass {
    // Held, so that no process starts that is not known yet.
    let members = members();
    let spared = |id: Pid| members.contains(&number(id));
    let orphans: Vec<Pid> = tree::children().into_iter().filter(|id| !spared(*id)).collect();
    if orphans.is_empty() {
        return Pass::Nobody;
    }
    for orphan in &orphans {
        tree::kill_child(*orphan);
    }
    tree::kill_below(&spared);
    let mut pass = Pass::AllDying;
    for orphan in orphans {
        match waitpid(Some(orphan), WaitOptions::NOHANG) {
            Ok(None) => continue,
            Ok(Some((id, status))) if Some(id) == agent => *how = how.or(tree::how(status)),
            Ok(Some(_)) | Err(_) => {}
        }
        pass = Pass::SomeDied;
    }
    pass
}
