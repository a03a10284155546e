//! Whether this machine lets us make a room: found by making one, in a child that is thrown away.

use std::fs;
use std::io;
use std::path::Path;

use agora_core::wall::{Isolation, Network};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, chdir, getegid, geteuid, waitpid};

use super::room::{PLACES, ROOM};
use super::{IdMaps, Part, Refused, namespaces};
use crate::sandbox::syscall;

/// What stands around a worker itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outer {
    Machine {
        /// What came of trying already.
        tried: Option<Result<(), Refused>>,
    },
    /// It is the first process of a container, which has the namespaces, and the network that was asked for.
    Container,
}

impl Outer {
    /// Looks at the machine, before this process hides its memory: whoever is not root maps itself into a user namespace, which the kernel
    /// does not let a hidden process do. Root tries when a wall is wanted, and only then.
    pub(crate) fn machine() -> Self {
        Self::Machine { tried: (!geteuid().is_root()).then(in_a_child) }
    }
}

/// What can be built here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// Why there are no namespaces.
    pub(crate) namespaces: Result<(), Refused>,
    /// The newest Landlock that the kernel speaks, if it is switched on.
    pub(crate) landlock: Option<u32>,
    /// The container is the outer wall.
    pub(crate) contained: bool,
}

impl Trial {
    /// Finds out what there is to build of. Namespaces are tried only for who wants a wall, and not where a container has them already.
    pub(crate) fn of(isolation: Isolation, outer: Outer) -> Self {
        let namespaces = match outer {
            Outer::Machine { tried } if isolation != Isolation::None => tried.unwrap_or_else(in_a_child),
            Outer::Machine { .. } | Outer::Container => {
                Err(Refused { part: Part::Namespaces, error: Errno::PERM })
            }
        };
        Self { namespaces, landlock: landlock(), contained: outer == Outer::Container }
    }
}

fn landlock() -> Option<u32> {
    syscall::landlock_abi().ok().filter(|abi| *abi > 0)
}

/// Tries it. The process may have threads, whose locks nobody in the child would ever open: everything that takes memory is made before.
fn in_a_child() -> Result<(), Refused> {
    let (hear, tell) = pipe_with(PipeFlags::CLOEXEC).map_err(Part::Namespaces.refused())?;
    let ids = Some(IdMaps::of(geteuid().as_raw(), getegid().as_raw())).filter(|_| !geteuid().is_root());
    let child = syscall::fork_into_namespaces(namespaces(Network::Open), || {
        let Err(Refused { part, error }) = make_a_room(ids.as_ref()) else {
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
    // What the child did not say is not waited for: its end of the pipe is ours, too.
    drop(tell);
    let mut told = [0; 2];
    match rustix::io::read(&hear, &mut told) {
        Ok(2) => {
            let part = Part::from_number(told[0]).unwrap_or(Part::Namespaces);
            Err(Refused { part, error: Errno::from_raw_os_error(i32::from(told[1])) })
        }
        _ => Err(Refused { part: Part::Namespaces, error: Errno::IO }),
    }
}

/// Only system calls, with short paths, which lie on the stack: see [`in_a_child`].
fn make_a_room(ids: Option<&IdMaps>) -> Result<(), Refused> {
    if let Some(ids) = ids {
        ids.write()?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(Part::Mounts.refused())?;
    let place = PLACES.into_iter().map(Path::new).find(|place| place.is_dir()).unwrap_or(Path::new("/"));
    mount("agora", place, "tmpfs", MountFlags::NOSUID, ROOM).map_err(Part::Mounts.refused())?;
    chdir(place).map_err(Part::Mounts.refused())?;
    fs::create_dir("proc").map_err(Part::Proc.refused())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "proc", "proc", flags, None).map_err(Part::Proc.refused())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn without_a_wall_and_in_a_container_nothing_is_tried() {
        let refused = Err(Refused { part: Part::Namespaces, error: Errno::PERM });
        assert_eq!(Trial::of(Isolation::None, Outer::Machine { tried: None }).namespaces, refused);
        let inside = Trial::of(Isolation::Auto, Outer::Container);
        assert_eq!((inside.namespaces, inside.contained), (refused, true));
    }

    #[test]
    fn what_was_tried_already_is_not_tried_again() {
        for tried in [Ok(()), Err(Refused { part: Part::Proc, error: Errno::BUSY })] {
            let outer = Outer::Machine { tried: Some(tried) };
            assert_eq!(Trial::of(Isolation::Strict, outer).namespaces, tried);
        }
    }

    /// A lock of the allocator that is held when the child is made stays closed in it: it would wait for ever.
    #[test]
    fn a_trial_ends_while_other_threads_use_memory() {
        let over = AtomicBool::new(false);
        let first = Trial::of(Isolation::Auto, Outer::Machine { tried: None }).namespaces;
        thread::scope(|scope| {
            for size in [24, 4096, 200_000] {
                let over = &over;
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::black_box(vec![0_u8; size]);
                    }
                });
            }
            for _ in 0..20 {
                assert_eq!(Trial::of(Isolation::Auto, Outer::Machine { tried: None }).namespaces, first);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
