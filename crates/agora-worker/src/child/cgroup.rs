//! Control groups: where they can be made.
//!
//! Hosts have version 2, version 1, both at once with the controllers in either, or nothing that we may write.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sandbox::probe::Cgroup;

/// Two limits that must be settable. The values only have to be accepted.
const V2_LIMITS: [(&str, &str); 2] = [("memory.max", "1073741824"), ("pids.max", "64")];
const V1_MEMORY: [(&str, &str); 1] = [("memory.limit_in_bytes", "1073741824")];
const V1_PIDS: [(&str, &str); 1] = [("pids.max", "64")];

/// Finds where groups with limits can be made. `takes` may ask more of a group that was made to see.
pub(crate) fn find(takes: &dyn Fn(&Path) -> Result<(), String>) -> Cgroup {
    let (groups, mounts) = own_texts();
    let v2 = match own_dir(&groups, &mounts, Hierarchy::V2) {
        Some(own) => match own.first_that_takes(&V2_LIMITS, takes) {
            Ok(parent) => return Cgroup::V2 { parent },
            Err(why) => why,
        },
        None => "cgroup v2 is not mounted".to_owned(),
    };
    let v1 = |controller: &'static str, limits: &[(&str, &str)]| {
        own_dir(&groups, &mounts, Hierarchy::V1(controller))
            .ok_or_else(|| format!("cgroup v1 has no {controller} controller"))?
            .first_that_takes(limits, takes)
    };
    match v1("memory", &V1_MEMORY).and_then(|memory| Ok((memory, v1("pids", &V1_PIDS)?))) {
        Ok((memory, pids)) => Cgroup::V1 { memory, pids },
        Err(v1) => Cgroup::No { why: format!("{v2}; {v1}") },
    }
}

/// Finds where groups of version 2 can be made that need no limits, but kill all that is in them at once.
pub(super) fn find_kill() -> Option<PathBuf> {
    let (groups, mounts) = own_texts();
    let kills = |group: &Path| match group.join("cgroup.kill").exists() {
        true => Ok(()),
        false => Err(format!("groups below `{}` cannot be killed", parent_of(group))),
    };
    own_dir(&groups, &mounts, Hierarchy::V2)?.first_that_takes(&[], &kills).ok()
}

fn own_texts() -> (String, String) {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    (read("/proc/self/cgroup"), read("/proc/self/mountinfo"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hierarchy {
    V2,
    V1(&'static str),
}

/// This process' own group, and where its hierarchy is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnDir {
    mount: PathBuf,
    own: PathBuf,
}

impl OwnDir {
    /// Returns the nearest group, from our own upwards, below which a group with these limits can be made.
    ///
    /// Upwards, because version 2 gives no limits to groups below one that has processes of its own, as ours has.
    /// Nothing is switched on: `cgroup.subtree_control` belongs to whoever runs the machine.
    fn first_that_takes(
        &self,
        limits: &[(&str, &str)],
        takes: &dyn Fn(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        let mut nearest = None;
        for parent in self.own.ancestors().take_while(|dir| dir.starts_with(&self.mount)) {
            match try_group(parent, limits, takes) {
                Ok(()) => return Ok(parent.to_owned()),
                Err(why) => nearest = nearest.or(Some(why)),
            }
        }
        Err(nearest.unwrap_or_else(|| format!("`{}` cannot be seen", self.own.display())))
    }
}

fn try_group(
    parent: &Path,
    limits: &[(&str, &str)],
    takes: &dyn Fn(&Path) -> Result<(), String>,
) -> Result<(), String> {
    // Numbered: threads may try at the same time.
    static TRIES: AtomicU64 = AtomicU64::new(0);
    let number = TRIES.fetch_add(1, Ordering::Relaxed);
    let group = parent.join(format!("agora-probe-{}-{number}", std::process::id()));
    fs::create_dir(&group).map_err(|error| format!("`{}` takes no groups: {error}", parent.display()))?;
    let tried = set_all(&group, limits).and_then(|()| takes(&group));
    let removed = fs::remove_dir(&group)
        .map_err(|error| format!("`{}` could not be removed: {error}", group.display()));
    tried.and(removed)
}

fn set_all(group: &Path, limits: &[(&str, &str)]) -> Result<(), String> {
    for (file, value) in limits {
        set(group, file, value).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("no `{file}` in groups below `{}`", parent_of(group)),
            _ => format!("`{file}` cannot be set below `{}`: {error}", parent_of(group)),
        })?;
    }
    Ok(())
}

/// Opens, and never creates: a missing file is a controller that is not switched on.
pub(super) fn set(group: &Path, file: &str, value: &str) -> io::Result<()> {
    fs::File::options().write(true).open(group.join(file))?.write_all(value.as_bytes())
}

/// Moves a process into a group; 0 is the one that writes.
pub(crate) fn move_into(group: &Path, id: i32) -> Result<(), String> {
    set(group, "cgroup.procs", &id.to_string())
        .map_err(|error| format!("no process can be moved below `{}`: {error}", parent_of(group)))
}

fn parent_of(group: &Path) -> std::path::Display<'_> {
    group.parent().unwrap_or(group).display()
}

/// Finds our own group's directory from the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own_dir(groups: &str, mounts: &str, hierarchy: Hierarchy) -> Option<OwnDir> {
    let inside = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let ours = match hierarchy {
            Hierarchy::V2 => controllers.is_empty(),
            Hierarchy::V1(name) => controllers.split(',').any(|controller| controller == name),
        };
        ours.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        // 36 35 0:30 ROOT MOUNT options [optional fields] - TYPE source super-options
        let (place, file_system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, mount) = (place.next()?, place.next()?);
        let mut file_system = file_system.split(' ');
        let (kind, options) = (file_system.next()?, file_system.nth(1)?);
        let ours = match hierarchy {
            Hierarchy::V2 => kind == "cgroup2",
            Hierarchy::V1(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        // A container without a cgroup namespace sees only the part of the tree that is mounted at `root`.
        let below = Path::new(inside).strip_prefix(root).ok().filter(|_| ours)?;
        let mount = PathBuf::from(mount);
        // Joined by component: an empty rest would leave a slash at the end.
        let own = mount.components().chain(below.components()).collect();
        Some(OwnDir { own, mount })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        30 20 0:26 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw\n\
        32 30 0:28 /docker/abc /sys/fs/cgroup/memory rw master:9 - cgroup cgroup rw,memory\n\
        33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
    const GROUPS: &str = "9:cpu,memory:/docker/abc/inner\n3:pids:/\n0::/user.slice/app.scope\n";

    fn dirs(mount: &str, own: &str) -> Option<OwnDir> {
        Some(OwnDir { mount: mount.into(), own: own.into() })
    }

    #[test]
    fn the_own_group_is_found_in_each_hierarchy() {
        let find = |hierarchy| own_dir(GROUPS, MOUNTS, hierarchy);
        let unified = "/sys/fs/cgroup/unified";
        assert_eq!(find(Hierarchy::V2), dirs(unified, "/sys/fs/cgroup/unified/user.slice/app.scope"));
        let memory = "/sys/fs/cgroup/memory";
        assert_eq!(find(Hierarchy::V1("memory")), dirs(memory, "/sys/fs/cgroup/memory/inner"));
        assert_eq!(find(Hierarchy::V1("pids")), dirs("/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids"));
        assert_eq!(find(Hierarchy::V1("cpuset")), None);
    }

    #[test]
    fn a_plain_directory_is_no_group_and_stays_clean() {
        let dir = tempfile::tempdir().unwrap();
        let own = OwnDir { mount: dir.path().into(), own: dir.path().into() };
        let why = own.first_that_takes(&V2_LIMITS, &|_| Ok(())).unwrap_err();
        assert!(why.starts_with("no `memory.max`"), "{why}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
