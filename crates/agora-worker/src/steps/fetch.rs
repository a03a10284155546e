//! Step 3: fetches every bundle, and checks every byte of it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agora_core::bundle::{Ask, Bundle, BundleBody, Capability, EnvBundle, Manifest, Model, Subagent};
use agora_core::limits::{LONGEST_DISPATCH_SECONDS, MANIFEST_BYTES};
use agora_core::wire::manifest::{BundleAt, DispatchManifest, Location};
use agora_core::{ContentHash, Name};
use sha2::{Digest, Sha256};

use super::assignment::Assignment;
use crate::adapter::Runtime;
use crate::child::Limits;
use crate::fault::{Fault, FetchFault};
use crate::needs_input::resume::Occasion;
use crate::seal::Seal;
use crate::switches::Switches;

/// What is to be done, with everything that it names.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) manifest: DispatchManifest,
    pub(crate) occasion: Occasion,
    pub(crate) seal: Seal,
    pub(crate) subagent: Subagent,
    pub(crate) switches: Switches,
}

impl Task {
    /// Tells whether the agent is taught to ask.
    pub(crate) fn teaches(&self) -> bool {
        !self.switches.no_helper && self.subagent.ask != Ask::Never
    }

    /// Returns the limits for everything behind the wall, but for the time.
    pub(crate) fn limits(&self) -> Limits {
        let limits = &self.manifest.limits;
        Limits { time: None, memory_bytes: limits.memory_bytes, processes: limits.processes }
    }

    /// Returns how long the agent may take: with a person at it, as long as anything may.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(u64::from(match self.occasion {
            Occasion::TakenOver => LONGEST_DISPATCH_SECONDS,
            Occasion::First | Occasion::Answered(_) | Occasion::Continued { .. } => {
                self.manifest.limits.timeout_seconds
            }
        }))
    }

    /// Returns the model that was asked for: the dispatch's, else the subagent's.
    pub(crate) fn model(&self) -> Option<Model> {
        self.manifest.model().or_else(|| self.subagent.model.clone())
    }
}

/// Everything that runs, checked.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) task: Task,
    pub(crate) runtime: Runtime,
    pub(crate) capabilities: Vec<FetchedCapability>,
    pub(crate) env: Vec<EnvBundle>,
    pub(crate) supplied: std::collections::BTreeMap<String, agora_core::wire::bootstrap::Supplied>,
}

/// A capability whose files were checked, and are read again from the same open file.
#[derive(Debug)]
pub(crate) struct FetchedCapability {
    pub(crate) name: Name,
    pub(crate) tree: Capability,
    pub(crate) pack: Arc<File>,
}

impl FetchedCapability {
    /// Reads one of its files, if it has it.
    pub(crate) fn file(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let mut offset = 0;
        for file in self.tree.files() {
            if file.path.as_str() == path {
                let mut bytes = vec![0; usize::try_from(file.size).map_err(io::Error::other)?];
                self.pack.read_exact_at(&mut bytes, offset)?;
                let same = ContentHash::of(&bytes) == file.sha256;
                return if same {
                    Ok(Some(bytes))
                } else {
                    Err(io::Error::other("it is not what was declared"))
                };
            }
            offset += file.size;
        }
        Ok(None)
    }
}

/// Fetches what the assignment names.
pub(crate) fn fetch(assignment: Assignment, runtime: Runtime) -> Result<Fetched, Fault> {
    let Assignment { manifest, occasion, seal, supplied } = assignment;
    let subagent: Subagent = bundle("subagent", &manifest.subagent)?;
    let env =
        manifest.env.iter().map(|at| bundle("env bundle", at)).collect::<Result<Vec<EnvBundle>, _>>()?;
    let capabilities: Vec<_> = manifest.capabilities.iter().map(capability).collect::<Result<_, _>>()?;
    let runtime = match runtime {
        Runtime::External(external) => Runtime::External(external.complete(&capabilities)?),
        Runtime::Claude | Runtime::Codex | Runtime::Command => runtime,
    };
    let switches = Switches::of(&env);
    let task = Task { manifest, occasion, seal, subagent, switches };
    Ok(Fetched { task, runtime, capabilities, env, supplied })
}

fn bundle<T: BundleBody>(kind: &'static str, at: &BundleAt) -> Result<T, Fault> {
    let name = at.name.to_string();
    let bytes = read(&format!("the {kind} `{name}`"), &at.manifest, at.content_hash, MANIFEST_BYTES)?;
    let bundle: Bundle = match Manifest::decode(&bytes) {
        Ok(manifest) => manifest.into_bundle(),
        Err(source) => return Err(Fault::Bundle { kind, name, source }),
    };
    T::from_bundle(bundle).ok_or(Fault::OtherKind { kind, name })
}

fn capability(at: &BundleAt) -> Result<FetchedCapability, Fault> {
    let tree: Capability = bundle("capability", at)?;
    let what = format!("the files of the capability `{}`", at.name);
    let unreachable = |source| FetchFault::Unreachable { what: what.clone(), path: PathBuf::new(), source };
    let location = at.pack.as_ref().ok_or_else(|| unreachable(io::ErrorKind::NotFound.into()))?;
    let pack = open(&what, location)?;
    let same = check_pack(&pack, &tree).map_err(|source| FetchFault::Unreachable {
        what: what.clone(),
        path: path(location).to_owned(),
        source,
    })?;
    if !same {
        return Err(FetchFault::Mismatch { what }.into());
    }
    Ok(FetchedCapability { name: at.name.clone(), tree, pack: Arc::new(pack) })
}

/// Tells whether a pack is exactly the files of a tree. Read in pieces: it may have 50 MiB.
fn check_pack(mut pack: &File, tree: &Capability) -> io::Result<bool> {
    let mut buffer = vec![0; 256 * 1024];
    for file in tree.files() {
        let (mut hash, mut left) = (Sha256::new(), file.size);
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let count = pack.read(&mut buffer[..wanted])?;
            if count == 0 {
                return Ok(false);
            }
            hash.update(&buffer[..count]);
            left -= count as u64;
        }
        if ContentHash::from_digest(hash.finalize().into()) != file.sha256 {
            return Ok(false);
        }
    }
    Ok(pack.read(&mut buffer[..1])? == 0)
}

/// Reads bytes whose hash is known.
pub(crate) fn read(
    what: &str,
    location: &Location,
    hash: ContentHash,
    cap: u64,
) -> Result<Vec<u8>, FetchFault> {
    let file = open(what, location)?;
    let mut bytes = Vec::new();
    let source =
        |source| FetchFault::Unreachable { what: what.to_owned(), path: path(location).to_owned(), source };
    file.take(cap + 1).read_to_end(&mut bytes).map_err(source)?;
    if bytes.len() as u64 > cap {
        return Err(FetchFault::TooLarge { what: what.to_owned(), cap });
    }
    if ContentHash::of(&bytes) == hash {
        Ok(bytes)
    } else {
        Err(FetchFault::Mismatch { what: what.to_owned() })
    }
}

/// Opens a file of the engine's. Not a FIFO: a mistake must not make us wait for ever.
pub(crate) fn open(what: &str, location: &Location) -> Result<File, FetchFault> {
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let opened = File::options().read(true).custom_flags(nonblock).open(path(location)).and_then(|file| {
        let is_file = file.metadata()?.is_file();
        if is_file { Ok(file) } else { Err(io::Error::other("it is not a file")) }
    });
    opened.map_err(|source| FetchFault::Unreachable {
        what: what.to_owned(),
        path: path(location).to_owned(),
        source,
    })
}

fn path(location: &Location) -> &Path {
    match location {
        Location::File(path) => path,
    }
}
