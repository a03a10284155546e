//! From layers to what is laid: the rules.

use std::collections::{BTreeMap, HashMap};

use super::merge::{check_size, unmergeable};
use super::{Conflict, Dropped, Layer, MergeKind, Owner, Part, Placed, Plan, Source};
use crate::bundle::{FileEntry, Runtime};
use crate::path::BundlePath;

/// What happens to files of several layers at one path.
enum Rule<'a> {
    LastWins,
    /// The last layer with anything in this directory brings all of it.
    LastWinsSkill(&'a str),
    Merge(MergeKind),
}

/// A layer's file that asks for its path.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    part: Part,
    entry: &'a FileEntry,
}

impl Candidate<'_> {
    /// Tells whether laying the other one instead takes nothing away.
    fn is_same_as(&self, other: &Self) -> bool {
        (self.entry.sha256, self.entry.mode) == (other.entry.sha256, other.entry.mode)
    }
}

/// Decides what is laid. Depends on nothing but the runtime, the order of the layers and what is in them.
pub fn plan(runtime: &Runtime, layers: &[Layer<'_>]) -> Result<Plan, Conflict> {
    let wanted = by_path(layers);
    let skills = skill_winners(runtime, &wanted);
    let owner = |layer: usize| layers[layer].owner.clone();
    let (mut files, mut dropped) = (Vec::new(), Vec::new());
    for (path, candidates) in &wanted {
        let Some(last) = candidates.last() else { continue };
        let winner_layer = match rule(runtime, path.as_str()) {
            Rule::Merge(kind) if candidates.len() > 1 => {
                files.push(merged(kind, candidates, layers)?);
                continue;
            }
            Rule::LastWinsSkill(skill) => skills.get(skill).copied().unwrap_or(last.part.layer),
            Rule::LastWins | Rule::Merge(_) => last.part.layer,
        };
        let winner = candidates.iter().find(|candidate| candidate.part.layer == winner_layer);
        files.extend(winner.map(|winner| placed(winner, Source::Layer(winner.part))));
        let losers = candidates.iter().filter(|one| !winner.is_some_and(|winner| one.is_same_as(winner)));
        dropped.extend(losers.map(|loser| Dropped {
            path: (*path).clone(),
            winner: owner(winner_layer),
            loser: owner(loser.part.layer),
        }));
    }
    let plan = Plan { owners: layers.iter().map(|layer| layer.owner.clone()).collect(), files, dropped };
    check_collisions(&plan).map(|()| plan)
}

/// Collects who wants each path, in the order of the layers.
fn by_path<'a>(layers: &[Layer<'a>]) -> BTreeMap<&'a BundlePath, Vec<Candidate<'a>>> {
    let mut wanted: BTreeMap<&BundlePath, Vec<Candidate<'_>>> = BTreeMap::new();
    for (layer, Layer { tree, .. }) in layers.iter().enumerate() {
        let mut offset = 0;
        for (file, entry) in tree.files().iter().enumerate() {
            let part = Part { layer, file, offset, size: entry.size, sha256: entry.sha256 };
            wanted.entry(&entry.path).or_default().push(Candidate { part, entry });
            offset += entry.size;
        }
    }
    wanted
}

/// Finds the last layer that has anything of each skill.
fn skill_winners<'a>(
    runtime: &Runtime,
    wanted: &BTreeMap<&'a BundlePath, Vec<Candidate<'_>>>,
) -> HashMap<&'a str, usize> {
    let mut winners = HashMap::new();
    for (path, candidates) in wanted {
        if let (Rule::LastWinsSkill(skill), Some(last)) = (rule(runtime, path.as_str()), candidates.last()) {
            let winner = winners.entry(skill).or_insert(last.part.layer);
            *winner = last.part.layer.max(*winner);
        }
    }
    winners
}

/// The table of exceptions.
fn rule<'a>(runtime: &Runtime, path: &'a str) -> Rule<'a> {
    if let Some(kind) = MergeKind::ALL.into_iter().find(|kind| kind.path() == path)
        && kind.counts_for(runtime)
    {
        return Rule::Merge(kind);
    }
    let skills = match runtime {
        Runtime::ClaudeCode => ".claude/skills/",
        Runtime::Codex => ".agents/skills/",
        Runtime::Command(_) | Runtime::External(_) => return Rule::LastWins,
    };
    match path.strip_prefix(skills).and_then(|rest| rest.split_once('/')) {
        Some((name, _)) => Rule::LastWinsSkill(&path[..skills.len() + name.len()]),
        None => Rule::LastWins,
    }
}

fn merged(kind: MergeKind, candidates: &[Candidate<'_>], layers: &[Layer<'_>]) -> Result<Placed, Conflict> {
    // Sizes are known before contents are: nobody reads what will not be merged.
    let owners: Vec<&Owner> =
        candidates.iter().map(|candidate| &layers[candidate.part.layer].owner).collect();
    for (index, candidate) in candidates.iter().enumerate() {
        check_size(candidate.entry.size).map_err(|fault| unmergeable(kind, &owners, index, fault))?;
    }
    let parts = candidates.iter().map(|candidate| candidate.part).collect();
    Ok(placed(&candidates[candidates.len() - 1], Source::Merged { kind, parts }))
}

fn placed(like: &Candidate<'_>, source: Source) -> Placed {
    Placed { path: like.entry.path.clone(), mode: like.entry.mode, source }
}

/// Refuses files in each other's way, by the same rules as within one capability: a plan means the same everywhere.
fn check_collisions(plan: &Plan) -> Result<(), Conflict> {
    let mut folded: Vec<(String, &Placed)> =
        plan.files.iter().map(|placed| (placed.path.folded(), placed)).collect();
    // Part by part, so that whatever is below a file follows it directly.
    folded.sort_by(|(one, _), (other, _)| one.split('/').cmp(other.split('/')));
    let owner =
        |placed: &Placed| placed.source.parts().last().map_or(Owner::Helper, |part| plan.owner(part).clone());
    for pair in folded.windows(2) {
        let [(path, placed), (next_path, next)] = pair else { continue };
        let (path, rest) = (placed.path.clone(), next_path.strip_prefix(path.as_str()));
        match rest {
            Some("") => {
                let (one_of, other, other_of) = (owner(placed), next.path.clone(), owner(next));
                return Err(Conflict::Case { one: path, one_of, other, other_of });
            }
            Some(rest) if rest.starts_with('/') => {
                let (file_of, below, below_of) = (owner(placed), next.path.clone(), owner(next));
                return Err(Conflict::FileAndDirectory { file: path, file_of, below, below_of });
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
