//! Namespaces, and overlayfs inside them: the process leaves the host and furnishes a room.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;

use super::cause::{Settings, Step};
use super::{Cause, Refusal, Support};
use crate::sandbox::syscall;

/// Covered by a private file system during the try. The first exists nearly everywhere, the second in any container.
const PLACES: [&str; 2] = ["/tmp", "/dev"];
/// Enough for a few directories; the limit is there so that a leak could not matter.
const ROOM_OPTIONS: &std::ffi::CStr = c"mode=0700,size=1m";
/// What the forked child answers when it is not the first process of its namespace; above every errno.
const NOT_FIRST: u8 = 254;

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) namespaces: Support,
    pub(super) overlayfs: Support,
}

/// Enters the namespaces for good, and tries there what the wall will need.
pub(super) fn try_all() -> Found {
    let settings = Settings::read();
    let room = match enter(&settings) {
        Ok(room) => room,
        Err(refusal) => {
            let why = "overlayfs was not tried, since it needs the namespaces".to_owned();
            let overlayfs = Support::No(Refusal { cause: Cause::NeedsNamespaces, why });
            return Found { namespaces: Support::No(refusal), overlayfs };
        }
    };
    let overlayfs = support(try_overlayfs(&room, &settings));
    let namespaces = support(try_proc(&room, &settings));
    Found { namespaces, overlayfs }
}

fn support(tried: Result<(), Refusal>) -> Support {
    match tried {
        Ok(()) => Support::Yes,
        Err(refusal) => Support::No(refusal),
    }
}

/// Leaves the host's namespaces and returns a directory on a private file system.
fn enter(settings: &Settings) -> Result<PathBuf, Refusal> {
    let namespaces = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    syscall::unshare(namespaces)
        .map_err(|error| settings.explain(Step::Unshare, "making namespaces", error))?;

    let inside = |doing| move |error: Errno| settings.explain(Step::Inside, doing, error);
    // The group map of an ordinary user is only accepted once `setgroups` is denied.
    write("/proc/self/setgroups", "deny").map_err(inside("denying setgroups"))?;
    write("/proc/self/uid_map", &format!("{user} {user} 1")).map_err(inside("mapping the user"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1")).map_err(inside("mapping the group"))?;

    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(inside("making the mounts private"))?;
    let place = PLACES.into_iter().map(Path::new).find(|place| place.is_dir());
    let place = place.ok_or(Errno::NOENT).map_err(inside("finding a place to mount on"))?;
    mount("agora-probe", place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, ROOM_OPTIONS)
        .map_err(inside("mounting a private file system"))?;
    Ok(place.to_owned())
}

/// Layers a directory over another, changes a file through the layer and looks where the change went.
fn try_overlayfs(room: &Path, settings: &Settings) -> Result<(), Refusal> {
    let explain = |doing| move |error: Errno| settings.explain(Step::Inside, doing, error);
    let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| room.join(name));
    for dir in [&lower, &upper, &work, &merged] {
        fs::create_dir(dir).map_err(errno).map_err(explain("making a directory"))?;
    }
    write(lower.join("file"), "base").map_err(explain("writing a file"))?;

    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr",
        lower.display(),
        upper.display(),
        work.display()
    );
    let options = CString::new(options).map_err(|_| Errno::INVAL).map_err(explain("naming the layers"))?;
    mount("overlay", &merged, "overlay", MountFlags::empty(), options.as_c_str())
        .map_err(explain("mounting overlayfs"))?;
    write(merged.join("file"), "changed").map_err(explain("changing a file in overlayfs"))?;
    let read = |path: PathBuf| fs::read_to_string(path).map_err(errno);
    let layers = read(lower.join("file"))
        .and_then(|lower| Ok((lower, read(upper.join("file"))?)))
        .map_err(explain("reading the layers"))?;
    if layers == ("base".to_owned(), "changed".to_owned()) {
        Ok(())
    } else {
        let why = "overlayfs was mounted but did not keep the change in its upper layer".to_owned();
        Err(Refusal { cause: Cause::Other, why })
    }
}

/// Mounts a fresh `/proc` as the first process of the new PID namespace. Without one the agent would look at the
/// host's processes, or have no `/proc` at all, and then few programs run.
fn try_proc(room: &Path, settings: &Settings) -> Result<(), Refusal> {
    let doing = "mounting a fresh `/proc`";
    let explain = |error: Errno| settings.explain(Step::Proc, doing, error);
    let proc = room.join("proc");
    fs::create_dir(&proc).map_err(errno).map_err(explain)?;
    let code = syscall::in_forked_child(|| {
        if !rustix::process::getpid().is_init() {
            return NOT_FIRST;
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        match mount("proc", &proc, "proc", flags, None) {
            Ok(()) => 0,
            Err(error) => u8::try_from(error.raw_os_error()).unwrap_or(NOT_FIRST),
        }
    });
    match code.map_err(errno).map_err(explain)? {
        Some(0) => Ok(()),
        Some(code) if code < NOT_FIRST => Err(explain(Errno::from_raw_os_error(i32::from(code)))),
        _ => {
            let why = "a process started in the new PID namespace was not its first".to_owned();
            Err(Refusal { cause: Cause::Other, why })
        }
    }
}

fn write(path: impl AsRef<Path>, text: &str) -> Result<(), Errno> {
    fs::write(path, text).map_err(errno)
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
