//! Who a program behind the wall is, and what it may not become again.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::{Part, Refused};

/// One user and one group, as they are mapped into a user namespace. Written out before there is one: whoever enters it may have to do
/// without memory of its own.
#[derive(Debug)]
pub(crate) struct IdMaps {
    user: String,
    group: String,
}

impl IdMaps {
    pub(crate) fn of(user: u32, group: u32) -> Self {
        Self { user: format!("{user} {user} 1"), group: format!("{group} {group} 1") }
    }

    /// Maps them in the user namespace that this process has just entered.
    pub(crate) fn write(&self) -> Result<(), Refused> {
        // The group map of an ordinary user is only accepted once `setgroups` is denied.
        for (file, text) in [
            ("/proc/self/setgroups", "deny"),
            ("/proc/self/uid_map", self.user.as_str()),
            ("/proc/self/gid_map", self.group.as_str()),
        ] {
            fs::write(file, text).map_err(Part::Ids.refused())?;
        }
        Ok(())
    }
}

/// Tells whether an id exists in this process' user namespace: a container may have few.
pub(crate) fn has_id(id: u32) -> bool {
    ["/proc/self/uid_map", "/proc/self/gid_map"].iter().all(|file| {
        fs::read_to_string(file).is_ok_and(|map| {
            map.lines().any(|line| {
                let mut numbers =
                    line.split_ascii_whitespace().filter_map(|number| number.parse::<u32>().ok());
                let first = numbers.next();
                let count = numbers.nth(1);
                first.zip(count).is_some_and(|(first, count)| id >= first && id - first < count)
            })
        })
    })
}

/// Gives up every capability and the way to any other, and becomes `agent` where there is one to become. For good.
pub(crate) fn shed(agent: Option<u32>) -> Result<(), Refused> {
    let refused = || Part::Privileges.refused::<Errno>();
    // First: it takes a capability to take one away from the programs to come.
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // Not known to this kernel, or nothing that we could give away.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(refused()(error)),
        }
    }
    if let Some(id) = agent {
        let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
        // This process has one thread, so what holds for it holds for the process.
        set_thread_groups(&[]).map_err(refused())?;
        set_thread_res_gid(group, group, group).map_err(refused())?;
        set_thread_res_uid(user, user, user).map_err(refused())?;
    }
    let _ = clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(refused())?;
    set_no_new_privs(true).map_err(refused())
}
