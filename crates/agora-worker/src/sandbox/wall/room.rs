//! A new root with nothing in it but what is visible. Made by the first process of the new namespaces, before it is anybody else.
//!
//! What is to be visible is picked up first, as mounts that are nowhere yet. Then the old root goes, and only after that
//! everything gets its place: a link that somebody left in a directory of the dispatch leads nowhere but into the room itself.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;

use agora_core::wall::{Access, Network};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};
use rustix::process::{Resource, Rlimit, chdir, geteuid, getrlimit, pivot_root, setrlimit, umask};
use rustix::thread::UnshareFlags;

use super::{Bind, Part, Plan, Refused, net};
use crate::sandbox::syscall;

/// Covered by the room while it is made: one of these is everywhere.
pub(super) const PLACES: [&str; 4] = ["/tmp", "/run", "/dev", "/usr"];
/// The room itself holds a few directories and links.
pub(super) const ROOM: &std::ffi::CStr = c"mode=0755,size=4m";
/// Without these hardly a program runs; the others are left out where the machine has none.
const DEVICES: [&str; 4] = ["null", "zero", "random", "urandom"];
const FURTHER_DEVICES: [&str; 2] = ["full", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/ptmx", "pts/ptmx"),
];
/// The most memory that programs share through files. It counts as theirs where memory is counted.
const SHARED_MEMORY: u64 = 1 << 30;

/// `MOUNT_ATTR_RDONLY`, `_NOSUID` and `_NODEV` of `linux/mount.h`.
const READ_ONLY: u64 = 1;
const NO_SETUID: u64 = 2;
const NO_DEVICES: u64 = 4;

/// Returns the namespaces of a room. Root needs none for users: it makes the others with its own right.
pub(crate) fn namespaces(network: Network) -> UnshareFlags {
    let mut namespaces =
        UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    namespaces.set(UnshareFlags::NEWUSER, !geteuid().is_root());
    namespaces.set(UnshareFlags::NEWNET, network == Network::None);
    namespaces
}

/// Makes the room and moves this process into it. What is in there may use so much memory.
pub(crate) fn furnish(plan: &Plan, memory: Option<u64>) -> Result<(), Refused> {
    let mounts = || Part::Mounts.refused::<Errno>();
    if plan.network == Network::None {
        net::start()?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(mounts())?;
    let mask = umask(Mode::from_raw_mode(0o022));
    let descriptors = have_all_descriptors();
    let picked = plan.binds.iter().map(|bind| Ok((bind, pick_up(bind)?))).collect::<Result<Vec<_>, _>>()?;
    let devices = pick_up_devices()?;

    let place = PLACES.into_iter().map(Path::new).find(|place| place.is_dir()).unwrap_or(Path::new("/"));
    mount("agora", place, "tmpfs", MountFlags::NOSUID, ROOM).map_err(mounts())?;
    chdir(place).map_err(mounts())?;
    // While the old one is still there: a process may only have a new `/proc` that already sees a whole one.
    fs::create_dir("proc").map_err(Part::Proc.refused())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "proc", "proc", flags, None).map_err(Part::Proc.refused())?;
    pivot_root(".", ".").map_err(mounts())?;
    unmount(".", UnmountFlags::DETACH).map_err(mounts())?;
    chdir("/").map_err(mounts())?;

    for (link, target) in &plan.links {
        make_parents(link, plan.agent).and_then(|()| symlink(target, link)).map_err(Part::View.refused())?;
    }
    make_devices(devices, memory)?;
    for (bind, tree) in picked {
        let Some(tree) = tree else { continue };
        match put_down(&tree, bind, plan.agent) {
            Err(error) if !bind.may_miss(error) => return Err(Part::View.refused()(error)),
            Ok(()) | Err(_) => {}
        }
    }
    for hidden in &plan.hidden {
        cover(hidden).map_err(Part::View.refused::<Errno>())?;
    }
    umask(mask);
    let _ = setrlimit(Resource::Nofile, descriptors);
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(mounts())?;
    syscall::mount_setattr(root.as_fd(), READ_ONLY, false).map_err(mounts())
}

/// Takes a copy of a path's mounts, read-only where they are to be.
fn pick_up(bind: &Bind) -> Result<Option<OwnedFd>, Refused> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let flags = flags | OpenTreeFlags::AT_EMPTY_PATH;
    let picked = bind.open().and_then(|at| open_tree(at, "", flags)).and_then(|tree| {
        let read_only = if bind.access == Access::Read { READ_ONLY } else { 0 };
        syscall::mount_setattr(tree.as_fd(), NO_SETUID | NO_DEVICES | read_only, true).map(|()| tree)
    });
    match picked {
        Ok(tree) => Ok(Some(tree)),
        Err(error) if bind.may_miss(error) => Ok(None),
        Err(error) => Err(Part::View.refused()(error)),
    }
}

fn pick_up_devices() -> Result<Vec<(&'static str, OwnedFd)>, Refused> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let pick_up = |name| open_tree(CWD, Path::new("/dev").join(name), flags).map(|device| (name, device));
    let further = FURTHER_DEVICES
        .into_iter()
        .map(pick_up)
        .filter(|device| device.as_ref().err() != Some(&Errno::NOENT));
    let devices = DEVICES.into_iter().map(pick_up).chain(further);
    devices.collect::<Result<_, _>>().map_err(Part::Devices.refused())
}

/// Lets this process have as many descriptors as it may: everything that is picked up is one, as long as it has no place. Returns what is
/// the program's again.
fn have_all_descriptors() -> Rlimit {
    let known = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: known.maximum, ..known });
    known
}

fn make_devices(devices: Vec<(&str, OwnedFd)>, memory: Option<u64>) -> Result<(), Refused> {
    let made = || -> std::io::Result<()> {
        for dir in ["dev", "dev/pts", "dev/shm"] {
            fs::create_dir(dir)?;
        }
        for (name, device) in devices {
            let at = Path::new("dev").join(name);
            File::create(&at)?;
            attach(&device, &at)?;
        }
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        mount("devpts", "dev/pts", "devpts", flags, c"newinstance,ptmxmode=0666,mode=0620")?;
        let size = SHARED_MEMORY.min(memory.unwrap_or(u64::MAX));
        let options = CString::new(format!("mode=1777,size={size}"))?;
        mount("shm", "dev/shm", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
        for (link, target) in LINKS {
            symlink(target, link)?;
        }
        Ok(())
    };
    made().map_err(Part::Devices.refused())
}

/// Gives picked up mounts their place in the room.
fn put_down(tree: &OwnedFd, bind: &Bind, agent: Option<u32>) -> Result<(), Errno> {
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    make_parents(&bind.to, agent).map_err(errno)?;
    // It leads where it leads, and nothing can be put over it.
    if bind.to.is_symlink() {
        return Err(Errno::LOOP);
    }
    let is_dir = FileType::from_raw_mode(fstat(tree)?.st_mode) == FileType::Directory;
    let made = match fs::metadata(&bind.to) {
        Ok(_) => Ok(()),
        Err(_) if is_dir => fs::create_dir(&bind.to),
        Err(_) => File::create(&bind.to).map(drop),
    };
    made.map_err(errno)?;
    attach(tree, &bind.to)
}

/// Makes the directories above a path. Where the room is, they are of the room; below the home, they are the agent's.
fn make_parents(path: &Path, agent: Option<u32>) -> std::io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().skip(1).take_while(|parent| !parent.is_dir()).collect();
    for parent in missing.into_iter().rev() {
        fs::create_dir(parent)?;
        std::os::unix::fs::chown(parent, agent, agent)?;
    }
    Ok(())
}

fn attach(tree: &OwnedFd, at: &Path) -> Result<(), Errno> {
    move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Covers something of a visible directory that nobody may see.
fn cover(hidden: &Path) -> Result<(), Errno> {
    match fs::symlink_metadata(hidden) {
        Ok(about) if about.is_dir() => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
            mount("hidden", hidden, "tmpfs", flags, c"mode=0000,size=4k")
        }
        Ok(about) if about.is_file() => {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            open_tree(CWD, "/dev/null", flags).and_then(|nothing| attach(&nothing, hidden))
        }
        // What a link leads to is covered where it lies.
        Ok(_) | Err(_) => Ok(()),
    }
}
