//! The real worker, started as an engine would: bundles as files, a manifest by its hash, one line on standard input.
//!
//! ```text
//!  Dispatch ── run ──▶ Ended ── answered ──▶ Dispatch ── run ──▶ Ended …      each in a directory of its own
//! ```

mod ended;
mod processes;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agora_core::bundle::{Bundle, Capability, EnvBundle, FileEntry, FileMode, RawSubagent, Subagent};
use agora_core::provider::compute::{Compute, Launch};
use agora_core::provider::shelf::Shelf;
use agora_core::secret::{SecretValue, ShortSecrets};
use agora_core::wire::bootstrap::{Bootstrap, ManifestAt, Supplied, ThreadKey};
use agora_core::wire::line::EventKey;
use agora_core::wire::manifest::{BundleAt, DispatchManifest, Essentials, Limits, Location, Verbatim};
use agora_core::wire::receipt::ReceiptSigner;
use agora_core::{ContentHash, Manifest, Timestamp};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

pub use ended::Ended;
pub use processes::Process;

/// What every dispatch of a test has: keys are for tests only.
const EVENT_KEY: [u8; 32] = [7; 32];
const THREAD_KEY: [u8; 32] = [9; 32];
const RECEIPT_KEY: [u8; 32] = [11; 32];

/// A dispatch that is being put together.
#[derive(Debug)]
pub struct Dispatch {
    worker: PathBuf,
    root: TempDir,
    pub manifest: DispatchManifest,
    adapter: String,
    secrets: BTreeMap<String, Supplied>,
    environment: Vec<(OsString, OsString)>,
    /// A program that runs the worker, with its arguments: it may make it somebody else, or take something from it.
    through: Vec<OsString>,
    /// Whether the worker gets the key that checks receipts.
    pub with_receipt_key: bool,
}

impl Dispatch {
    /// Starts with a subagent: `Dispatch::of(env!("CARGO_BIN_EXE_agora-worker"), json!({…}))`.
    pub fn of(worker: &str, subagent: Value) -> Self {
        Self::below(&std::env::temp_dir(), worker, subagent)
    }

    /// The same, with everything that it makes below a directory.
    pub fn below(directory: &Path, worker: &str, subagent: Value) -> Self {
        let root = tempfile::Builder::new().prefix("agora-worker-test").tempdir_in(directory).unwrap();
        let raw: RawSubagent = serde_json::from_value(subagent).unwrap();
        let subagent = Subagent::new(raw).unwrap();
        let adapter = subagent.runtime.as_str().to_owned();
        let stored =
            store(root.path(), "subagent", &Manifest::new(Bundle::Subagent(Box::new(subagent))), None);
        let limits = Limits { timeout_seconds: 120, memory_bytes: None, processes: None, budget: None };
        let manifest = DispatchManifest::new(Essentials {
            namespace: "default".parse().unwrap(),
            dispatch_id: "d_1".parse().unwrap(),
            thread_id: "t_1".parse().unwrap(),
            subagent: stored,
            input: Map::new(),
            limits,
        });
        let environment = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
        Self {
            worker: worker.into(),
            root,
            manifest,
            adapter,
            secrets: BTreeMap::new(),
            environment,
            through: Vec::new(),
            with_receipt_key: true,
        }
    }

    /// Runs a shell script as the agent.
    pub fn script(worker: &str, script: &str) -> Self {
        Self::of(worker, json!({"runtime": "command", "command": ["/bin/sh", "-c", script]}))
    }

    #[must_use]
    pub fn input(mut self, input: Value) -> Self {
        self.manifest.input = Verbatim(input);
        self
    }

    /// Adds a capability; a path that ends with `*` is executable.
    #[must_use]
    pub fn capability(mut self, name: &str, files: &[(&str, &str)]) -> Self {
        let files: BTreeMap<String, (FileMode, &[u8])> = files
            .iter()
            .map(|(path, content)| match path.strip_suffix('*') {
                Some(path) => (path.to_owned(), (FileMode::Executable, content.as_bytes())),
                None => ((*path).to_owned(), (FileMode::Plain, content.as_bytes())),
            })
            .collect();
        let entry = |(path, (mode, content)): (&String, &(FileMode, &[u8]))| FileEntry {
            path: path.parse().unwrap(),
            mode: *mode,
            size: content.len() as u64,
            sha256: ContentHash::of(content),
        };
        let tree = Capability::new(files.iter().map(entry).collect()).unwrap();
        let pack: Vec<u8> =
            tree.files().iter().flat_map(|file| files[file.path.as_str()].1).copied().collect();
        let manifest = Manifest::new(Bundle::Capability(tree));
        self.manifest.capabilities.push(store(self.root.path(), name, &manifest, Some(&pack)));
        self
    }

    /// Adds an env bundle of visible values.
    #[must_use]
    pub fn env(self, values: &[(&str, &str)]) -> Self {
        self.env_with_secrets(values, &[])
    }

    /// Adds an env bundle of visible values, and of secrets by their references.
    #[must_use]
    pub fn env_with_secrets(mut self, values: &[(&str, &str)], secrets: &[(&str, &str)]) -> Self {
        let values =
            values.iter().map(|(name, value)| (name.parse().unwrap(), (*value).to_owned())).collect();
        let secrets =
            secrets.iter().map(|(name, text)| (name.parse().unwrap(), text.parse().unwrap())).collect();
        let bundle = EnvBundle::new(values, secrets).unwrap();
        let name = format!("env{}", self.manifest.env.len());
        self.manifest.env.push(store(self.root.path(), &name, &Manifest::new(Bundle::Env(bundle)), None));
        self
    }

    /// Hands a secret over by its name.
    #[must_use]
    pub fn secret(mut self, name: &str, value: &str) -> Self {
        let value = SecretValue::new(value.to_owned(), ShortSecrets::Allow).unwrap();
        self.secrets.insert(name.to_owned(), Supplied::Value(value));
        self
    }

    /// Says why a secret could not be had.
    #[must_use]
    pub fn no_secret(mut self, name: &str, supplied: Supplied) -> Self {
        self.secrets.insert(name.to_owned(), supplied);
        self
    }

    /// Puts a program in front of everything else in the worker's PATH.
    #[must_use]
    pub fn program(self, name: &str, program: &Path) -> Self {
        let bin = self.root.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
        self.variable("PATH", path)
    }

    /// Sets a variable of the worker's own.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Lets another program run the worker.
    #[must_use]
    pub fn through(mut self, program: &[&str]) -> Self {
        self.through = program.iter().map(OsString::from).collect();
        self
    }

    #[must_use]
    pub fn adapter(mut self, word: &str) -> Self {
        word.clone_into(&mut self.adapter);
        self
    }

    /// Changes the manifest.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut DispatchManifest)) -> Self {
        change(&mut self.manifest);
        self
    }

    /// Returns where everything of the test is: the dispatch's directory, and what it was put together from.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the dispatch's directory: `in`, `work`, `out` and the agent's homes are below it.
    pub fn dir(&self) -> PathBuf {
        self.root.path().join("dispatch")
    }

    pub fn work(&self) -> PathBuf {
        self.dir().join("work")
    }

    /// Writes a file into the workspace before the worker starts.
    #[must_use]
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Returns where a bundle is stored, to damage it.
    pub fn stored(&self, name: &str) -> PathBuf {
        self.root.path().join("store").join(name)
    }

    /// Starts the worker and hands it its line.
    pub fn start(&self) -> Child {
        let mut child = self.command().spawn().unwrap();
        let line = self.bootstrap().to_line();
        child.stdin.take().unwrap().write_all(line.expose().as_bytes()).unwrap();
        child
    }

    /// Prepares the worker: its environment is what an engine gives it, and nothing else.
    pub fn command(&self) -> Command {
        let mut words = self.through.iter().map(OsString::as_os_str).chain([self.worker.as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .env("AGORA_DISPATCH_ID", self.manifest.dispatch_id.as_str())
            .env("AGORA_DISPATCH_DIR", self.dir())
            .env("AGORA_ADAPTER", &self.adapter)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Writes the manifest, and returns the line that names it.
    pub fn bootstrap(&self) -> Bootstrap {
        let bytes = self.manifest.encode().unwrap();
        let path = self.root.path().join("manifest.json");
        fs::write(&path, &bytes).unwrap();
        fs::create_dir_all(self.dir()).unwrap();
        self.bootstrap_for(ManifestAt {
            location: Location::file(&path).unwrap(),
            hash: ContentHash::of(&bytes),
        })
    }

    /// Puts it on a shelf, and returns what a compute starts its worker with.
    pub async fn launch(&self, compute: &dyn Compute, shelf: &dyn Shelf) -> Launch {
        let manifest = shelf.stage(&self.manifest, &compute.sight()).await.unwrap();
        Launch {
            dispatch_id: self.manifest.dispatch_id.clone(),
            thread_id: self.manifest.thread_id.clone(),
            runtime: self.adapter.clone(),
            image: None,
            limits: self.manifest.limits.clone(),
            bootstrap: self.bootstrap_for(manifest).to_line(),
            terminal: None,
        }
    }

    fn bootstrap_for(&self, manifest: ManifestAt) -> Bootstrap {
        Bootstrap {
            manifest,
            event_key: EventKey::new(EVENT_KEY),
            receipt_key: self.with_receipt_key.then(|| ReceiptSigner::new(&RECEIPT_KEY).public_key()),
            thread_key: ThreadKey::new(THREAD_KEY),
            secrets: self.secrets.clone(),
        }
    }

    /// Runs the worker to its end.
    pub fn run(self) -> Ended {
        let child = self.start();
        self.wait(child)
    }

    /// Waits for a worker that was started.
    pub fn wait(self, child: Child) -> Ended {
        Ended::new(self, child.wait_with_output().unwrap())
    }
}

/// Writes a bundle below the root, and says where it is.
fn store(root: &Path, name: &str, manifest: &Manifest, pack: Option<&[u8]>) -> BundleAt {
    let dir = root.join("store");
    fs::create_dir_all(&dir).unwrap();
    let encoded = manifest.encode().unwrap();
    fs::write(dir.join(name), &encoded.bytes).unwrap();
    let pack = pack.map(|pack| {
        let path = dir.join(format!("{name}.pack"));
        fs::write(&path, pack).unwrap();
        Location::file(&path).unwrap()
    });
    BundleAt {
        name: name.parse().unwrap(),
        content_hash: encoded.hash,
        registered_at: Timestamp::from_millis(1_763_233_200_000),
        manifest: Location::file(&dir.join(name)).unwrap(),
        pack,
    }
}
