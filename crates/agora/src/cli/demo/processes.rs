//! Which processes belong to a dispatch, as the kernel tells it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What of a file of the kernel's is looked at: an agent decides how long its own arguments are.
const FILE_BYTES: usize = 256 * 1024;

/// Returns the processes that have to do with a dispatch: by what they were started with, by where they are, by the files that they
/// have open, by what is mounted for them; and whoever descends from those.
pub(super) fn of_dispatch(dir: &Path, except: &[u32]) -> BTreeSet<u32> {
    let all = all();
    let worker = worker(dir);
    let concerned = |id: u32| Some(id) == worker || names(id, dir);
    let mut found: BTreeSet<u32> = all.iter().map(|(id, _)| *id).filter(|id| concerned(*id)).collect();
    found.retain(|id| !except.contains(id));
    loop {
        let children: Vec<u32> = all
            .iter()
            .filter(|(id, parent)| found.contains(parent) && !found.contains(id) && !except.contains(id))
            .map(|(id, _)| *id)
            .collect();
        if children.is_empty() {
            return found;
        }
        found.extend(children);
    }
}

/// Tells whether a process is alive, and not only remembered by whoever has to take note of its end.
pub(super) fn is_alive(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// Returns every process with its parent.
fn all() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| {
        let (state, parent) = stat(id)?;
        (state != 'Z' && state != 'X').then_some((id, parent))
    })
    .collect()
}

fn stat(id: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Returns the worker, which others may not look into.
fn worker(dir: &Path) -> Option<u32> {
    let text = fs::read(dir.join("in/worker.json")).ok()?;
    let identity: serde_json::Value = serde_json::from_slice(&text).ok()?;
    u32::try_from(identity["pid"].as_u64()?).ok().filter(|id| {
        let arguments = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        contains(&arguments, b"worker")
    })
}

fn names(id: u32, dir: &Path) -> bool {
    let mark = dir.as_os_str().as_encoded_bytes();
    let below = |file: &str| PathBuf::from(format!("/proc/{id}/{file}"));
    let is_there = |path: PathBuf| fs::read_link(path).is_ok_and(|to| to.starts_with(dir));
    ["cmdline", "environ"].iter().any(|file| contains(&read(&below(file)), mark))
        || sees_other_mounts(id) && contains(&read(&below("mountinfo")), &as_mounted(mark))
        || ["cwd", "root"].iter().any(|link| is_there(below(link)))
        || fs::read_dir(below("fd")).into_iter().flatten().flatten().any(|entry| is_there(entry.path()))
}

/// Tells whether files are mounted for a process that are not for this one: what is here for everybody says nothing.
fn sees_other_mounts(id: u32) -> bool {
    let space = |id: &str| fs::read_link(format!("/proc/{id}/ns/mnt")).ok();
    space(&id.to_string()).is_none_or(|other| Some(other) != space("self"))
}

/// Returns a path as the kernel writes it in a list of mounts.
fn as_mounted(path: &[u8]) -> Vec<u8> {
    path.iter().flat_map(|byte| if *byte == b' ' { b"\\040".to_vec() } else { vec![*byte] }).collect()
}

fn read(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap_or_default();
    bytes.truncate(FILE_BYTES);
    bytes
}

fn contains(bytes: &[u8], mark: &[u8]) -> bool {
    !mark.is_empty() && bytes.windows(mark.len()).any(|window| window == mark)
}
