//! Whether this machine lets us make a room: found by making one, in a child that is thrown away.

use std::fs;
use std::io;
use std::path::Path;

use agora_core::wall::Network;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::pipe::pipe;
use rustix::process::{WaitOptions, getegid, geteuid, waitpid};

use super::room::{PLACES, ROOM};
use super::{Part, Refused, map_ids, namespaces};
use crate::sandbox::syscall;

/// What this machine can build. Tried once, when a worker starts and has no threads yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// Why there are no namespaces.
    pub(crate) namespaces: Result<(), Refused>,
    /// The newest Landlock that the kernel speaks, if it is switched on.
    pub(crate) landlock: Option<u32>,
    /// This worker is the first process of a container, which is the outer wall: it has the namespaces, and the network that was
    /// asked for.
    pub(crate) contained: bool,
}

impl Trial {
    /// Says what there is to build inside a container. Namespaces are not tried: they are around it already.
    pub(crate) fn in_a_container() -> Self {
        let namespaces = Err(Refused { part: Part::Namespaces, error: Errno::PERM });
        Self { namespaces, landlock: landlock(), contained: true }
    }
}

fn landlock() -> Option<u32> {
    syscall::landlock_abi().ok().filter(|abi| *abi > 0)
}

/// Tries it. Only for a process with one thread.
pub(crate) fn try_namespaces() -> Trial {
    let landlock = landlock();
    Trial { namespaces: in_a_child(), landlock, contained: false }
}

fn in_a_child() -> Result<(), Refused> {
    let (hear, tell) = pipe().map_err(Part::Namespaces.refused())?;
    let (user, group) = (geteuid(), getegid());
    let child = syscall::fork_into_namespaces(namespaces(Network::Open), || {
        let Err(Refused { part, error }) = make_a_room(user.as_raw(), group.as_raw(), user.is_root()) else {
            return 0;
        };
        let errno = u8::try_from(error.raw_os_error()).unwrap_or(u8::MAX);
        let _ = rustix::io::write(&tell, &[part.number(), errno]);
        1
    })
    .map_err(Part::Namespaces.refused::<io::Error>())?;
    let ended = waitpid(Some(child), WaitOptions::empty()).map_err(Part::Namespaces.refused())?;
    if ended.is_some_and(|(_, status)| status.exit_status() == Some(0)) {
        return Ok(());
    }
    let mut told = [0; 2];
    match rustix::io::read(&hear, &mut told) {
        Ok(2) => {
            let part = Part::from_number(told[0]).unwrap_or(Part::Namespaces);
            Err(Refused { part, error: Errno::from_raw_os_error(i32::from(told[1])) })
        }
        _ => Err(Refused { part: Part::Namespaces, error: Errno::IO }),
    }
}

fn make_a_room(user: u32, group: u32, is_root: bool) -> Result<(), Refused> {
    if !is_root {
        map_ids(user, group)?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(Part::Mounts.refused())?;
    let place = PLACES.into_iter().map(Path::new).find(|place| place.is_dir()).unwrap_or(Path::new("/"));
    mount("agora", place, "tmpfs", MountFlags::NOSUID, ROOM).map_err(Part::Mounts.refused())?;
    let proc = place.join("proc");
    fs::create_dir(&proc).map_err(Part::Proc.refused())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", &proc, "proc", flags, None).map_err(Part::Proc.refused())
}
