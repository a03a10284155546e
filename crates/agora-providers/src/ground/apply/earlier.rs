//! What was brought before: where it still is, the user's files stand on it, and not on what was taken.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use agora_core::DispatchId;
use agora_core::git::patch::PathBytes;
use agora_core::wire::report::PatchReport;
use serde::{Deserialize, Serialize};

use super::super::own::{Entry, Own};
use super::super::work::Work;
use super::ApplyError;
use super::merged::{Renames, merge};
use crate::dispatch_dir::DispatchDir;
use crate::home::{Home, read_capped};

const NOTE: &str = "applied.json";
const NOTE_BYTES: u64 = 64 << 20;
/// How many are remembered. Each one more is looked for in the user's files.
const MOST: usize = 8;

/// The work of one dispatch, as it was brought or was about to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Brought {
    pub(super) dispatch_id: DispatchId,
    pub(super) patch: PatchReport,
    /// The commit that a branch was made of.
    #[serde(default)]
    pub(super) commit: Option<String>,
}

/// What a thread brought before, the oldest first.
#[derive(Debug)]
pub(super) struct Earlier {
    note: PathBuf,
    all: Vec<Brought>,
}

impl Earlier {
    pub(super) fn read(thread_dir: &Path) -> io::Result<Self> {
        let note = thread_dir.join(NOTE);
        let bytes = read_capped(&note, NOTE_BYTES)?;
        let all = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Ok(Self { note, all })
    }

    /// Reads what the dispatches made, as far as it is kept.
    pub(super) fn works(&self, home: &Home) -> Vec<Work> {
        let out = |brought: &Brought| DispatchDir::new(home, &brought.dispatch_id).out();
        self.all.iter().filter_map(|brought| Work::read(&out(brought), &brought.patch).ok()).collect()
    }

    /// Returns the commit that the last branch was made of.
    pub(super) fn commit(&self) -> Option<&str> {
        self.all.iter().rev().find_map(|brought| brought.commit.as_deref())
    }

    /// Remembers what is about to be brought. Before it is: whether it is there is always looked for.
    pub(super) fn remember(&self, home: &Home, brought: Brought) -> Result<(), ApplyError> {
        let mut all = self.all.clone();
        let before = all.pop_if(|last| last.dispatch_id == brought.dispatch_id);
        let commit = brought.commit.or(before.and_then(|before| before.commit));
        all.push(Brought { commit, ..brought });
        all.drain(..all.len().saturating_sub(MOST));
        let bytes = serde_json::to_vec(&all).map_err(|error| ApplyError::Git(error.to_string()))?;
        home.put(&self.note, &bytes).map_err(|error| ApplyError::Git(error.to_string()))
    }
}

/// Builds the tree that the user's files stand on: each on the newest of these states, the oldest first, that was not undone since. It was
/// if going back to an older one changes nothing in what the user has.
pub(super) fn stood_on(
    own: Own<'_>,
    states: &[String],
    ours: &str,
    paths: &BTreeSet<PathBytes>,
) -> Result<String, ApplyError> {
    let entries = |tree: &str| own.entries(tree, paths).map_err(ApplyError::Git);
    let here = entries(ours)?;
    let newest = states.len().saturating_sub(1);
    let mut stands = vec![newest; here.len()];
    for upper in (1..states.len()).rev() {
        for lower in (0..upper).rev().filter(|lower| states[*lower] != states[upper]) {
            if !stands.contains(&upper) {
                break;
            }
            let (back, conflicts) = merge(own, &states[upper], ours, &states[lower], Renames::Unseen)?;
            for (number, (entry, back)) in here.iter().zip(entries(&back)?).enumerate() {
                if stands[number] == upper && back == *entry && !conflicts.contains(&entry.path) {
                    stands[number] = lower;
                }
            }
        }
    }
    let states: Vec<Vec<Entry>> = states.iter().map(|tree| entries(tree)).collect::<Result<_, _>>()?;
    let chosen = stands.iter().enumerate().map(|(number, &state)| states[state][number].clone());
    own.tree(None, &chosen.collect::<Vec<_>>()).map_err(ApplyError::Git)
}
