//! From a job to a worker that runs: the manifest with every place in it, the secrets, the start.

use std::collections::BTreeMap;

use agora_core::blobs::ReadError;
use agora_core::bundle::{BundleBody, EnvBundle};
use agora_core::event::ResolvedBundle;
use agora_core::job::Job;
use agora_core::provider::Unavailable;
use agora_core::provider::blob::BlobKey;
use agora_core::provider::compute::{ComputeError, Launch};
use agora_core::provider::ledger::{DispatchView, ThreadView};
use agora_core::provider::shelf::Clearing;
use agora_core::reason::{Failure, FailureCode};
use agora_core::secret::SecretRef;
use agora_core::wire::bootstrap::{Bootstrap, Supplied};
use agora_core::wire::line::{Line, Said};
use agora_core::wire::manifest::{
    BundleAt, Continuation, DispatchManifest, Essentials, Prior, PriorSession, SealedAt, Verbatim,
};
use agora_core::wire::report::{Report, Usage};
use agora_core::{ContentHash, DispatchId};

use super::{CarryError, Engine, Tries};
use crate::error::chain;
use crate::world::Target;

/// What the worker leaves of a thread beside the workspace, by the names of its files.
const BASELINE: &str = "baseline.sealed";
const SESSION: &str = "session.sealed";

impl Engine {
    /// Starts the worker of a dispatch that is ours to start. What keeps it from starting ends the dispatch.
    pub(super) async fn launch(
        &self,
        view: &ThreadView,
        dispatch: &DispatchView,
        target: &Target,
        tries: &mut Tries,
    ) -> Result<(), CarryError> {
        *tries = Tries::Used;
        let job = &dispatch.job;
        let mut manifest = self.manifest(view, job).await?;
        manifest.wall.clone_from(&target.wall);
        let at =
            self.world.shelf.stage(&manifest, &target.compute.sight()).await.map_err(CarryError::Shelf)?;
        let secrets = match self.secrets(job).await {
            Ok(secrets) => secrets,
            Err(error) => return self.fail(view, dispatch, unreadable(&error)).await,
        };
        let bootstrap = Bootstrap {
            manifest: at,
            event_key: self.world.keys.event_key(&job.dispatch_id),
            receipt_key: Some(self.world.keys.receipt_signer().public_key()),
            thread_key: self.world.keys.thread_key(&job.thread_id, &job.salt),
            secrets,
        };
        let launch = Launch {
            dispatch_id: job.dispatch_id.clone(),
            thread_id: job.thread_id.clone(),
            runtime: job.runtime.clone(),
            image: job.image.clone(),
            limits: job.limits.clone(),
            bootstrap: bootstrap.to_line(),
            terminal: self.terminals().remove(&job.dispatch_id),
        };
        match target.compute.start(launch).await {
            Ok(()) => Ok(()),
            // Somebody else has: there is a worker to follow, or an end, and then nobody needs what was staged.
            Err(ComputeError::StartedAlready) => self.unstage(job).await,
            Err(error) => self.fail(view, dispatch, Failure::new(error.code(), chain(&error))).await,
        }
    }

    async fn unstage(&self, job: &Job) -> Result<(), CarryError> {
        if self.papers(&job.dispatch_id).await?.state.is_live() {
            return Ok(());
        }
        let cleared = self.world.shelf.clear(&job.dispatch_id, Clearing::Workspace).await;
        cleared.map_err(CarryError::Shelf)
    }

    async fn manifest(&self, view: &ThreadView, job: &Job) -> Result<DispatchManifest, CarryError> {
        let at = |bundle: &ResolvedBundle| self.bundle_at(bundle, None);
        let with_files =
            |bundle: &ResolvedBundle| self.bundle_at(bundle, Some(BlobKey::Pack(bundle.content_hash)));
        let mut manifest = DispatchManifest::new(Essentials {
            namespace: job.namespace.clone(),
            dispatch_id: job.dispatch_id.clone(),
            thread_id: job.thread_id.clone(),
            subagent: at(&job.resolved.subagent).map_err(CarryError::Shelf)?,
            input: serde_json::Map::new(),
            limits: job.limits.clone(),
        });
        let capabilities = job.resolved.capabilities.iter().map(with_files);
        manifest.capabilities = capabilities.collect::<Result<_, _>>().map_err(CarryError::Shelf)?;
        manifest.env =
            job.resolved.env.iter().map(at).collect::<Result<_, _>>().map_err(CarryError::Shelf)?;
        manifest.model.clone_from(&job.model);
        manifest.input.clone_from(&job.input);
        manifest.partial_state = partial_state(view, job);
        manifest.continuation.clone_from(&job.continuation);
        manifest.prior = self.prior(view, job).await?;
        manifest.secrets.clone_from(&job.secrets);
        manifest.login = job.login;
        if let Some(ground) = &job.ground {
            manifest.workspace = Some(self.world.grounds.locate(ground, job).map_err(CarryError::Shelf)?);
        }
        Ok(manifest)
    }

    fn bundle_at(&self, bundle: &ResolvedBundle, pack: Option<BlobKey>) -> Result<BundleAt, Unavailable> {
        Ok(BundleAt {
            name: bundle.name.clone(),
            content_hash: bundle.content_hash,
            registered_at: bundle.registered_at,
            manifest: self.world.shelf.stored(BlobKey::Blob(bundle.content_hash))?,
            pack: pack.map(|pack| self.world.shelf.stored(pack)).transpose()?,
        })
    }

    /// Returns what the thread goes on with: what the last of its dispatches left that left something, and what all of them used.
    pub(crate) async fn prior(&self, view: &ThreadView, job: &Job) -> Result<Prior, CarryError> {
        let mut prior = Prior::default();
        let mut tip = job.ground.as_ref().and_then(|ground| ground.head.clone());
        for (id, _) in view.thread.dispatches().iter().filter(|(id, _)| *id != job.dispatch_id) {
            let papers = self.papers(id).await?;
            let Some(report) = papers.report.as_ref().and_then(|text| self.read_report(id, text)) else {
                continue;
            };
            // A runtime that counts nothing has used its time all the same.
            let time = || Usage { duration_ms: papers.duration_ms.unwrap_or_default(), ..Usage::default() };
            let used = report.usage.clone().unwrap_or_else(time);
            prior.usage = std::mem::take(&mut prior.usage).plus(&used);
            // One that never ran, or whose worker was lost, left nothing: what was left before it holds.
            if report.leaves_workspace() {
                tip = report.commits.as_ref().map(|commits| commits.head.clone()).or(tip);
            } else if did_something(&report, tip.as_deref()) {
                prior.lacks = Some(id.clone());
            }
            if report.leaves_workspace() || report.session.is_some() {
                prior = self.leavings(id, report, prior).map_err(CarryError::Shelf)?;
            }
        }
        Ok(prior)
    }

    fn leavings(&self, id: &DispatchId, report: Report, prior: Prior) -> Result<Prior, Unavailable> {
        let sealed = |name: &str| -> Result<Option<SealedAt>, Unavailable> {
            let Some(kept) = report.artifacts.iter().find(|artifact| artifact.path == name) else {
                return Ok(None);
            };
            let sha256: ContentHash = kept.sha256;
            Ok(Some(SealedAt { location: self.world.shelf.left(id, name)?, sha256 }))
        };
        let session = report.session.clone().zip(sealed(SESSION)?);
        let session = session.map(|(mark, files)| PriorSession { mark, files });
        if !report.leaves_workspace() {
            return Ok(Prior { session, ..prior });
        }
        Ok(Prior { workspace: sealed(Report::WORKSPACE)?, baseline: sealed(BASELINE)?, session, ..prior })
    }

    /// Returns what a worker reported, if it did and signed it.
    pub(crate) async fn report_of(&self, dispatch: &DispatchId) -> Result<Option<Report>, CarryError> {
        let text = self.papers(dispatch).await?.report;
        Ok(text.and_then(|text| self.read_report(dispatch, &text)))
    }

    /// Reads what a worker reported, if it signed it.
    pub(crate) fn read_report(&self, dispatch: &DispatchId, text: &str) -> Option<Report> {
        let line = Line::parse(text.trim_end(), &self.world.keys.event_key(dispatch)).ok()?;
        match line.said {
            Said::Report(report) if report.dispatch_id == *dispatch => Some(*report),
            _ => None,
        }
    }

    /// Gets every secret that the dispatch refers to, or why one cannot be had: the worker says which variable is without.
    async fn secrets(&self, job: &Job) -> Result<BTreeMap<String, Supplied>, ReadError> {
        let mut references: Vec<SecretRef> = Vec::new();
        for bundle in &job.resolved.env {
            references.extend(self.env_secrets(bundle.content_hash).await?);
        }
        references.extend(job.secrets.values().filter_map(|name| name.parse().ok()));
        references.sort();
        references.dedup();
        let mut supplied = BTreeMap::new();
        for reference in references {
            supplied.insert(reference.to_string(), self.world.vault.supply(&reference).await);
        }
        Ok(supplied)
    }

    /// Returns the secrets that an env bundle refers to.
    pub(crate) async fn env_secrets(&self, env: ContentHash) -> Result<Vec<SecretRef>, ReadError> {
        let env = self.env_bundle(env).await?;
        Ok(env.iter().flat_map(|env| env.secrets().values().cloned()).collect())
    }

    pub(crate) async fn env_bundle(&self, env: ContentHash) -> Result<Option<EnvBundle>, ReadError> {
        Ok(EnvBundle::from_bundle(self.world.blobs.read(env).await?))
    }
}

/// Tells whether a dispatch changed anything, or committed beyond what stood there before.
fn did_something(report: &Report, tip: Option<&str>) -> bool {
    let own = report.patch_since_pause.as_ref().or(report.patch.as_ref());
    let commits = report.commits.as_ref();
    own.is_some_and(|own| own.files > 0) || commits.is_some_and(|own| Some(&*own.head) != tip)
}

/// Returns what was worked out before. A thread that goes on without an answer has the notes that the agent left with a question, the
/// last that had any; those of a question that was answered come with it.
fn partial_state(view: &ThreadView, job: &Job) -> Verbatim {
    let notes = || view.thread.questions().iter().rev().map(|asked| asked.question.partial_state());
    let left = match &job.continuation {
        Some(Continuation::Continued { .. } | Continuation::TakenOver { .. }) => {
            notes().find(|notes| !notes.is_null())
        }
        Some(Continuation::Answered(_)) | None => None,
    };
    left.map_or_else(|| job.partial_state.clone(), |notes| Verbatim(notes.clone()))
}

/// An env bundle that cannot be read is the worker's to tell: it would not start without it either.
fn unreadable(error: &ReadError) -> Failure {
    let code = match error {
        ReadError::Store { .. } => FailureCode::BundleUnreachable,
        ReadError::Manifest { .. } => FailureCode::BundleMalformed,
    };
    Failure::new(code, chain(error))
}
