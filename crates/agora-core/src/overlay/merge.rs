//! Merging: objects key by key, lists as ordered unions, and of two plain values of one type the later one.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Conflict, JsonType, MergeFault, Owner, Place};
use crate::bundle::Runtime;
use crate::strict;

/// One file that is merged. People write a few kilobytes; the parts are held in memory.
pub const MERGED_BYTES: u64 = 1024 * 1024;

/// The files that are merged instead of replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    /// Claude Code's settings: an object.
    ClaudeSettings,
    /// Claude Code's plugins: an object whose lists are united, or one list.
    Plugins,
    /// Who is told of what: an object whose lists are united, or one list.
    Notifications,
}

impl MergeKind {
    pub const ALL: [Self; 3] = [Self::ClaudeSettings, Self::Plugins, Self::Notifications];

    /// Returns the path of the file.
    pub fn path(self) -> &'static str {
        match self {
            Self::ClaudeSettings => ".claude/settings.json",
            Self::Plugins => "agora-plugins.json",
            Self::Notifications => "agora-notifications.json",
        }
    }

    /// Tells whether the file means something to a runtime. To another it is a file like any other.
    pub(super) fn counts_for(self, runtime: &Runtime) -> bool {
        match self {
            Self::ClaudeSettings | Self::Plugins => *runtime == Runtime::ClaudeCode,
            Self::Notifications => true,
        }
    }

    fn check_shape(self, value: &Value) -> Result<(), MergeFault> {
        let found = JsonType::of(value);
        match (self, found) {
            (_, JsonType::Object) | (Self::Plugins | Self::Notifications, JsonType::List) => Ok(()),
            (Self::ClaudeSettings, _) => Err(MergeFault::Shape(found, "an object")),
            (Self::Plugins | Self::Notifications, _) => Err(MergeFault::Shape(found, "an object or a list")),
        }
    }
}

/// Merges the contents of one file, given in the order of the layers.
///
/// Written without spaces: an indented text of deep lists would be hundreds of times as long as what it came from.
pub fn merge(kind: MergeKind, parts: &[(&Owner, &[u8])]) -> Result<Vec<u8>, Conflict> {
    let owners: Vec<&Owner> = parts.iter().map(|(owner, _)| *owner).collect();
    let mut merged: Option<Value> = None;
    for (index, (_, bytes)) in parts.iter().enumerate() {
        let value = read(kind, bytes).map_err(|fault| unmergeable(kind, &owners, index, fault))?;
        match &mut merged {
            None => merged = Some(value),
            Some(earlier) => {
                lay_over(earlier, value).map_err(|clash| clash.told(kind, &parts[..index], owners[index]))?;
            }
        }
    }
    let merged = merged.unwrap_or_else(|| Value::Object(Map::new()));
    Ok(format!("{merged}\n").into_bytes())
}

/// Tells whether a file of a size may be merged at all.
pub(super) fn check_size(size: u64) -> Result<(), MergeFault> {
    if size > MERGED_BYTES { Err(MergeFault::TooLarge(size)) } else { Ok(()) }
}

fn read(kind: MergeKind, bytes: &[u8]) -> Result<Value, MergeFault> {
    check_size(bytes.len() as u64)?;
    let text = str::from_utf8(bytes).map_err(|_| MergeFault::NotUtf8)?;
    let value = strict::parse(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(MergeFault::Json)?;
    kind.check_shape(&value).map(|()| value)
}

/// Blames one of several parts, and names the neighbour that it cannot be merged with.
pub(super) fn unmergeable(kind: MergeKind, owners: &[&Owner], index: usize, fault: MergeFault) -> Conflict {
    let owner = |index: usize| owners.get(index).map_or(Owner::Helper, |owner| (*owner).clone());
    let other = if index == 0 { 1 } else { index - 1 };
    Conflict::Unmergeable { path: kind.path(), owner: owner(index), other: owner(other), fault }
}

/// Two values of different types at one place.
struct Clash {
    /// The keys that lead there, the last one first: each level adds its own on the way out.
    way_back: Vec<String>,
    earlier: JsonType,
    later: JsonType,
}

fn lay_over(earlier: &mut Value, later: Value) -> Result<(), Clash> {
    let types = (JsonType::of(earlier), JsonType::of(&later));
    match (earlier, later) {
        (Value::Object(earlier), Value::Object(later)) => {
            for (key, value) in later {
                match earlier.get_mut(&key) {
                    None => {
                        earlier.insert(key, value);
                    }
                    Some(slot) => lay_over(slot, value).map_err(|clash| clash.below(key))?,
                }
            }
            Ok(())
        }
        (Value::Array(earlier), Value::Array(later)) => {
            unite(earlier, later);
            Ok(())
        }
        (earlier, later) if types.0 == types.1 => {
            *earlier = later;
            Ok(())
        }
        _ => Err(Clash { way_back: Vec::new(), earlier: types.0, later: types.1 }),
    }
}

/// Adds what is not there yet, in its order. By hashes: a megabyte holds half a million items.
fn unite(earlier: &mut Vec<Value>, later: Vec<Value>) {
    let mut seen: HashSet<&Value> = earlier.iter().collect();
    let new: Vec<bool> = later.iter().map(|item| seen.insert(item)).collect();
    earlier.extend(later.into_iter().zip(new).filter_map(|(item, new)| new.then_some(item)));
}

impl Clash {
    fn below(mut self, key: String) -> Self {
        self.way_back.push(key);
        self
    }

    /// Says who clashes. The earlier one is the last that has anything at that place, which need not be the neighbour.
    fn told(self, kind: MergeKind, before: &[(&Owner, &[u8])], later: &Owner) -> Conflict {
        let place: Vec<String> = self.way_back.into_iter().rev().collect();
        let has_place = |bytes: &[u8]| {
            let there = |value: &Value| place.iter().try_fold(value, |value, key| value.get(key)).is_some();
            read(kind, bytes).is_ok_and(|value| there(&value))
        };
        let earlier = before.iter().rev().find(|(_, bytes)| has_place(bytes));
        Conflict::Types {
            path: kind.path(),
            earlier: earlier.map_or(Owner::Helper, |(owner, _)| (*owner).clone()),
            earlier_is: self.earlier,
            later: later.clone(),
            later_is: self.later,
            place: Place(place),
        }
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
