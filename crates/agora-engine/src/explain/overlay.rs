//! What a subagent's capabilities make of a workspace.

use std::collections::{BTreeSet, HashMap};

use agora_core::bundle::{Capability, Runtime};
use agora_core::overlay::{Conflict, Dropped, Helper, Layer, Owner, Part, Plan, Source, merge, plan};
use agora_core::{BundlePath, ContentHash};
use serde::{Serialize, Serializer};

use crate::agora::{Agora, Found};
use crate::error::Error;

/// Which files are laid over the workspace, and which are not.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedOverlay {
    /// Ordered by path. As JSON only their number: a capability lists its own.
    #[serde(rename = "files", serialize_with = "count")]
    pub laid: Vec<LaidFrom>,
    pub dropped: Vec<Dropped>,
    /// The laid ones that are made of several.
    pub merged: Vec<LaidFrom>,
    /// Why nothing can be laid: a dispatch would fail with `overlay-conflict`.
    pub conflict: Option<String>,
}

/// A file, and whose it is. A merged one is of several, in their order.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaidFrom {
    pub path: BundlePath,
    pub from: Vec<Owner>,
}

/// Whether the adapter brings its own skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelperSkill {
    Installed,
    /// By the switch in the env bundle.
    Disabled,
}

fn count<S: Serializer>(files: &[LaidFrom], serializer: S) -> Result<S::Ok, S::Error> {
    files.len().serialize(serializer)
}

impl Agora {
    pub(super) async fn explain_overlay(
        &self,
        runtime: &Runtime,
        helper: HelperSkill,
        capabilities: &[Found<Capability>],
    ) -> Result<ExplainedOverlay, Error> {
        // Its words are the adapter's; who wins depends on its paths alone.
        let skill = Helper::new("", runtime).ok().filter(|_| helper == HelperSkill::Installed);
        let helper = skill.iter().map(|skill| (Layer { owner: Owner::Helper, tree: &skill.tree }, None));
        let declared = capabilities.iter().map(|found| {
            let layer = Layer { owner: Owner::Capability(found.name.clone()), tree: &found.body };
            (layer, Some(found.version.content_hash))
        });
        let (layers, packs): (Vec<Layer<'_>>, Vec<Option<ContentHash>>) = helper.chain(declared).unzip();
        let plan = match plan(runtime, &layers) {
            Ok(plan) => plan,
            Err(conflict) => return Ok(ExplainedOverlay::impossible(&conflict)),
        };
        let contents = self.merged_contents(&plan, &layers, &packs).await?;
        let conflict = merge_conflict(&plan, &contents).map(|conflict| conflict.to_string());
        Ok(ExplainedOverlay { conflict, ..ExplainedOverlay::of(&plan) })
    }

    /// Reads what is merged. One pack is in memory at a time, and only when something of it is needed.
    async fn merged_contents(
        &self,
        plan: &Plan,
        layers: &[Layer<'_>],
        packs: &[Option<ContentHash>],
    ) -> Result<HashMap<(usize, usize), Vec<u8>>, Error> {
        let needed: BTreeSet<(usize, usize)> =
            plan.merged().flat_map(|(_, parts)| parts).map(place).collect();
        let mut contents = HashMap::new();
        for (layer, (Layer { tree, .. }, pack)) in layers.iter().zip(packs).enumerate() {
            let Some(hash) = pack.filter(|_| needed.iter().any(|(needed, _)| *needed == layer)) else {
                continue;
            };
            let pack = self.catalogue().blobs().read_pack(hash, tree).await.map_err(Error::Read)?;
            let files = pack.contents(tree).enumerate();
            contents.extend(
                files
                    .map(|(file, bytes)| ((layer, file), bytes))
                    .filter(|(place, _)| needed.contains(place))
                    .map(|(place, bytes)| (place, bytes.to_vec())),
            );
        }
        Ok(contents)
    }
}

fn place(part: &Part) -> (usize, usize) {
    (part.layer, part.file)
}

/// Merges as the worker would, and keeps only what went wrong.
fn merge_conflict(plan: &Plan, contents: &HashMap<(usize, usize), Vec<u8>>) -> Option<Conflict> {
    plan.merged().find_map(|(kind, parts)| {
        let bytes = |part: &Part| contents.get(&place(part)).map(Vec::as_slice).unwrap_or_default();
        let owned: Vec<(&Owner, &[u8])> = parts.iter().map(|part| (plan.owner(part), bytes(part))).collect();
        merge(kind, &owned).err()
    })
}

impl ExplainedOverlay {
    fn impossible(conflict: &Conflict) -> Self {
        let conflict = Some(conflict.to_string());
        Self { laid: Vec::new(), dropped: Vec::new(), merged: Vec::new(), conflict }
    }

    fn of(plan: &Plan) -> Self {
        let laid_from = |placed: &agora_core::overlay::Placed| LaidFrom {
            path: placed.path.clone(),
            from: placed.source.parts().iter().map(|part| plan.owner(part).clone()).collect(),
        };
        let merged = plan.files.iter().filter(|placed| matches!(placed.source, Source::Merged { .. }));
        Self {
            laid: plan.files.iter().map(laid_from).collect(),
            dropped: plan.dropped.clone(),
            merged: merged.map(laid_from).collect(),
            conflict: None,
        }
    }
}
