//! What questions rest on, compared with what is there now.
//!
//! Nothing had to be written down for it when the question opened: the job has the ground and the bundles by hash, the ledger knows
//! when the asker ran, and the store of secrets when each of them got its value. What cannot be looked at is not said to have
//! changed; nobody is kept from answering by that.

use std::collections::BTreeMap;

use agora_core::answer::{Answerer, Replies};
use agora_core::bundle::BundleKind;
use agora_core::entry::Happening;
use agora_core::event::ResolvedBundle;
use agora_core::ground::Ground;
use agora_core::job::Job;
use agora_core::provider::ledger::{DispatchView, LedgerError, OpenQuestion, ThreadView};
use agora_core::provider::registry::{RegistryKey, Version};
use agora_core::provider::secret::{SecretError, SecretStanding};
use agora_core::record::{AtExpiry, Record};
use agora_core::route::{IfStale, MOST_REFUSALS};
use agora_core::secret::SecretRef;
use agora_core::stale::{Despite, Difference};
use agora_core::state::AskedQuestion;
use agora_core::{ContentHash, Namespace, ThreadId, Timestamp};

use super::answer::Refusal;
use crate::agora::Agora;
use crate::carry::{CarryError, Engine};
use crate::error::Error;

/// What one question rests on.
struct Rested {
    job: Job,
    /// When its thread began: bundles were resolved just before.
    began_at: Timestamp,
    /// When the worker that asked got its secrets.
    ran_at: Timestamp,
}

impl Rested {
    fn new(asker: &DispatchView, began_at: Timestamp) -> Self {
        let ran_at = asker.claim.as_ref().map_or(asker.accepted_at, |claim| claim.at);
        Self { job: asker.job.clone(), began_at, ran_at }
    }
}

/// Looks at what questions rest on; what several rest on is looked at once.
struct Looking<'e> {
    engine: &'e Engine,
    latest: BTreeMap<RegistryKey, Option<Version>>,
    references: BTreeMap<ContentHash, Vec<SecretRef>>,
    standings: BTreeMap<SecretRef, Stands>,
}

/// How a secret stands.
#[derive(Clone, Copy)]
enum Stands {
    As(SecretStanding),
    Missing,
    /// Nobody can tell.
    Unknown,
}

impl Engine {
    /// Returns, for each question, what of all that it rests on is another now.
    async fn differences(&self, all: &[Rested]) -> Vec<Vec<Difference>> {
        let mut looking = Looking::new(self);
        let grounded: Vec<(usize, (ThreadId, Ground))> = all
            .iter()
            .enumerate()
            .filter_map(|(place, rested)| {
                let ground = rested.job.ground.as_deref()?.clone();
                Some((place, (rested.job.thread_id.clone(), ground)))
            })
            .collect();
        let (places, grounds): (Vec<usize>, Vec<(ThreadId, Ground)>) = grounded.into_iter().unzip();
        let mut found: Vec<Vec<Difference>> = all.iter().map(|_| Vec::new()).collect();
        for (place, moved) in places.into_iter().zip(self.world().grounds.moved(&grounds).await) {
            found[place] = moved;
        }
        for (rested, found) in all.iter().zip(&mut found) {
            looking.bundles(rested, found).await;
            looking.secrets(rested, found).await;
        }
        found
    }
}

impl<'e> Looking<'e> {
    fn new(engine: &'e Engine) -> Self {
        let (latest, references, standings) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { engine, latest, references, standings }
    }

    async fn bundles(&mut self, rested: &Rested, found: &mut Vec<Difference>) {
        let resolved = &rested.job.resolved;
        let capabilities = resolved.capabilities.iter().map(|bundle| (BundleKind::Capability, bundle));
        let env = resolved.env.iter().map(|bundle| (BundleKind::Env, bundle));
        let all = [(BundleKind::Subagent, &resolved.subagent)].into_iter().chain(capabilities).chain(env);
        for (kind, bundle) in all {
            let Some(latest) = self.latest(&rested.job.namespace, kind, bundle).await else { continue };
            // Whoever named an old version meant that one; only what came since is news.
            if latest.content_hash != bundle.content_hash && latest.registered_at > rested.began_at {
                found.push(Difference::NewerBundle {
                    kind,
                    name: bundle.name.clone(),
                    was: bundle.content_hash,
                    is: latest.content_hash,
                    registered_at: latest.registered_at,
                });
            }
        }
    }

    async fn latest(
        &mut self,
        namespace: &Namespace,
        kind: BundleKind,
        bundle: &ResolvedBundle,
    ) -> Option<Version> {
        let key = RegistryKey { namespace: namespace.clone(), kind, name: bundle.name.clone() };
        if let Some(known) = self.latest.get(&key) {
            return *known;
        }
        let latest = self.engine.world().registry.latest(&key).await.ok().flatten();
        self.latest.insert(key, latest);
        latest
    }

    async fn secrets(&mut self, rested: &Rested, found: &mut Vec<Difference>) {
        let now = self.engine.world().clock.now();
        let mut references: Vec<SecretRef> = Vec::new();
        for bundle in &rested.job.resolved.env {
            references.extend(self.of_env(bundle.content_hash).await);
        }
        references.extend(rested.job.secrets.values().filter_map(|name| name.parse().ok()));
        references.sort();
        references.dedup();
        for reference in references {
            let secret = reference.to_string();
            match self.standing(reference).await {
                Stands::Missing => found.push(Difference::SecretMissing { secret }),
                Stands::As(SecretStanding { expires_at: Some(at), .. }) if at <= now => {
                    found.push(Difference::SecretExpired { secret, at });
                }
                Stands::As(SecretStanding { valued_at: Some(at), .. }) if at > rested.ran_at => {
                    found.push(Difference::SecretRotated { secret, at });
                }
                Stands::As(_) | Stands::Unknown => {}
            }
        }
    }

    async fn of_env(&mut self, hash: ContentHash) -> Vec<SecretRef> {
        if let Some(known) = self.references.get(&hash) {
            return known.clone();
        }
        let references = self.engine.env_secrets(hash).await.unwrap_or_default();
        self.references.insert(hash, references.clone());
        references
    }

    async fn standing(&mut self, reference: SecretRef) -> Stands {
        if let Some(known) = self.standings.get(&reference) {
            return *known;
        }
        let stands = match self.engine.world().vault.standing(&reference).await {
            Ok(Some(standing)) => Stands::As(standing),
            Err(SecretError::NotFound(_)) => Stands::Missing,
            Ok(None) | Err(_) => Stands::Unknown,
        };
        self.standings.insert(reference, stands);
        stands
    }
}

impl Engine {
    /// Tells whether a secret is there, as far as anybody can tell without getting it.
    pub(crate) async fn has_secret(&self, reference: &str) -> bool {
        let Ok(reference) = reference.parse() else { return false };
        match self.world().vault.standing(&reference).await {
            Ok(Some(SecretStanding { expires_at: Some(at), .. })) => at > self.world().clock.now(),
            Err(SecretError::NotFound(_)) => false,
            Ok(_) | Err(_) => true,
        }
    }

    /// Sees that a dispatch could start: every secret that it needs is there, as far as anybody can tell without getting it.
    pub(crate) async fn see_secrets(&self, job: Job) -> Result<(), SecretError> {
        let now = self.world().clock.now();
        let mut found = Vec::new();
        let rested = Rested { job, began_at: now, ran_at: now };
        Looking::new(self).secrets(&rested, &mut found).await;
        keeps_from_starting(&found).map_or(Ok(()), Err)
    }
}

/// Returns why the next dispatch could not start, if a secret that it needs is not to be had: an answer must not be spent on that.
fn keeps_from_starting(differences: &[Difference]) -> Option<SecretError> {
    differences.iter().find_map(|difference| {
        let (secret, at) = match difference {
            Difference::SecretExpired { secret, at } => (secret, Some(*at)),
            Difference::SecretMissing { secret } => (secret, None),
            _ => return None,
        };
        let Ok(SecretRef::Local(name)) = secret.parse() else { return None };
        Some(match at {
            Some(at) => SecretError::Expired { name, at },
            None => SecretError::NotFound(name),
        })
    })
}

impl Agora {
    /// Returns, for each of some open questions, what of all that it rests on has changed since: the source of its workspace, newer
    /// bundles, secrets. Whoever answers should see it.
    pub async fn stale(&self, open: &[OpenQuestion]) -> Result<Vec<Vec<Difference>>, Error> {
        let engine = self.engine()?;
        let mut rested = Vec::with_capacity(open.len());
        for question in open {
            let began_at = engine.view(&question.thread_id).await.map_err(Error::Carry)?.began_at;
            let asker = engine.papers(&question.dispatch_id).await.map_err(Error::Carry)?;
            rested.push(Rested::new(&asker, began_at));
        }
        Ok(engine.differences(&rested).await)
    }
}

/// An answer that is about to count.
pub(crate) struct Submission<'a> {
    pub(crate) answers: &'a Replies,
    pub(crate) by: &'a Answerer,
    /// What the answerer knows of what has changed.
    pub(crate) despite: Despite,
}

impl Engine {
    /// Returns what of all that a thread's last dispatch rests on is another now.
    pub(crate) async fn stale_since(&self, asker: &DispatchView, began_at: Timestamp) -> Vec<Difference> {
        self.differences(&[Rested::new(asker, began_at)]).await.pop().unwrap_or_default()
    }

    /// Weighs what a question rests on before an answer to it counts, and returns what has changed, where it goes on all the same.
    /// `None`: something was recorded meanwhile; look again.
    pub(crate) async fn weigh(
        &self,
        view: &ThreadView,
        asked: &AskedQuestion,
        asker: &DispatchView,
        submission: &Submission<'_>,
    ) -> Result<Option<Vec<Difference>>, Error> {
        let stale = self.stale_since(asker, view.began_at).await;
        let question_id = asked.id.clone();
        if let Some(why) = keeps_from_starting(&stale) {
            return Err(Error::Answer(Refusal::CannotStart { question_id, why }));
        }
        let refusal = match asked.terms.if_stale {
            _ if stale.is_empty() => return Ok(Some(stale)),
            IfStale::Show => return Ok(Some(stale)),
            IfStale::AskAgain if submission.despite.accepts(&stale) => return Ok(Some(stale)),
            IfStale::AskAgain => Refusal::Changed { question_id, stale: stale.clone() },
            IfStale::Fail => Refusal::Stale { question_id, stale: stale.clone() },
        };
        let what = refused(asked, submission, &refusal, stale);
        if !what.is_empty() {
            match self.append(view, what, Vec::new()).await {
                Ok(()) => {}
                Err(LedgerError::Moved { .. }) => return Ok(None),
                Err(error) => return Err(Error::Carry(CarryError::Ledger(error))),
            }
        }
        if matches!(refusal, Refusal::Stale { .. }) {
            self.close(&view.thread_id).await.map_err(Error::Carry)?;
        }
        Err(Error::Answer(refusal))
    }
}

/// Returns what is recorded of an answer that does not count: the answer itself is not lost.
fn refused(
    asked: &AskedQuestion,
    submission: &Submission<'_>,
    refusal: &Refusal,
    stale: Vec<Difference>,
) -> Vec<Happening> {
    let mut what: Vec<Happening> = Vec::new();
    if asked.progress.refusals < MOST_REFUSALS {
        what.push(
            Record::AnswerRefused {
                question_id: asked.id.clone(),
                by: submission.by.clone(),
                why: refusal.to_string(),
                answers: Some(submission.answers.clone()),
                stale: stale.clone(),
            }
            .into(),
        );
    }
    if matches!(refusal, Refusal::Stale { .. }) {
        let (question_id, at_expiry) = (asked.id.clone(), AtExpiry::Stale(stale));
        what.push(Record::QuestionExpired { question_id, at_expiry }.into());
    }
    what
}
