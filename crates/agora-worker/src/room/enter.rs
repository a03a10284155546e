//! A mount namespace of the worker's own, entered before it has threads: what is mounted there is gone with the worker, however it
//! ends.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

use super::LAYERS;
use crate::sandbox::own_namespaces;

/// Whether this process is in a namespace of its own: nothing is ever mounted in one that is not.
static ENTERED: OnceLock<Result<(), String>> = OnceLock::new();

/// Tells whether this process may mount what it likes, or why not.
pub(super) fn entered() -> io::Result<()> {
    match ENTERED.get() {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => Err(io::Error::other(why.clone())),
        None => Err(io::Error::other("the worker was started without a namespace of its own")),
    }
}

/// Enters a namespace if the dispatch has layers. Where the machine does not let us, the workspace is a copy: nothing fails here.
pub(crate) fn enter(dir: Option<&Path>) {
    if dir.is_some_and(|dir| dir.join(LAYERS).is_dir()) {
        let _ = ENTERED.set(namespace().map_err(|error| format!("no mount namespace: {error}")));
    }
}

fn namespace() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() {
        own_namespaces(UnshareFlags::NEWNS)?;
    } else {
        own_namespaces(UnshareFlags::NEWNS | UnshareFlags::NEWUSER)?;
        // As oneself: what is made there is ours outside, too.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))?;
    }
    // What is mounted here stays here; what is mounted outside still comes in.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    Ok(())
}
