//! The library as an embedder uses it.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agora_core::bundle::{RawSubagent, Subagent};
use agora_core::catalogue::Change;
use agora_core::provider::secret::SecretStore;
use agora_core::secret::ShortSecrets;
use agora_engine::{Agora, BundleKind, EnvOptions, Error, ErrorKind, Name, Namespace, Outside, SecretSource};
use agora_providers::Home;
use agora_providers::secret::LocalSecrets;
use agora_testkit::clock::SetClock;
use tempfile::TempDir;

struct NobodyThere;

impl Outside for NobodyThere {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "MY_KEY").then(|| "the-value-of-my-key".to_owned())
    }

    fn standard_input(&self) -> io::Result<String> {
        Err(io::Error::other("closed"))
    }

    fn ask(&self, _: &str) -> io::Result<String> {
        Err(io::Error::other("nobody is there"))
    }
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn open(dir: &Path, clock: &Arc<SetClock>) -> Agora {
    Agora::with(Home::new(dir), Namespace::default(), Arc::clone(clock) as _)
}

#[test]
fn a_value_is_not_handed_out_after_its_time_to_live() {
    let dir = TempDir::new().unwrap();
    let clock = Arc::new(SetClock::at("2026-11-15T12:00:00Z"));
    let options = EnvOptions {
        outside: &NobodyThere,
        short: ShortSecrets::Refuse,
        time_to_live: Some(Duration::from_secs(3600)),
        allowed: &[],
    };
    let secrets = [("KEY".parse().unwrap(), SecretSource::parse("env:MY_KEY").unwrap())].into();
    block(open(dir.path(), &clock).register_env(&name("e"), [].into(), secrets, options)).unwrap();
    let store = LocalSecrets::new(Home::new(dir.path()), Arc::clone(&clock) as _);
    let place = "env/default/e/KEY".parse().unwrap();
    assert_eq!(block(store.get(&place)).unwrap().expose(), "the-value-of-my-key");
    clock.set("2026-11-15T13:00:00Z");
    assert!(block(store.get(&place)).is_err());
}

#[test]
fn a_directory_that_changes_between_plan_and_apply_is_not_registered() {
    let (dir, project) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let agora = open(dir.path(), &Arc::new(SetClock::at("2026-11-15T12:00:00Z")));
    let skill = project.path().join(".claude/skills/pdf");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "one").unwrap();
    let plan = block(agora.plan_sync(project.path(), &[])).unwrap();
    fs::write(skill.join("SKILL.md"), "two").unwrap();
    let error = block(agora.apply(plan, &[])).unwrap_err();
    assert!(matches!(error, Error::ChangedMeanwhile { .. }), "{error:?}");
    assert!(block(agora.list(BundleKind::Capability)).unwrap().is_empty());
}

#[test]
fn an_error_says_who_has_to_do_something_about_it() {
    let dir = TempDir::new().unwrap();
    let agora = open(dir.path(), &Arc::new(SetClock::at("2026-11-15T12:00:00Z")));
    let raw = RawSubagent { system_prompt: Some("x".to_owned()), ..RawSubagent::default() };
    let registered = block(agora.register_subagent(&name("s"), raw, &[])).unwrap();
    assert_eq!(registered.change, Change::New);
    let unknown = block(agora.get::<Subagent>(&name("t").into())).unwrap_err();
    assert_eq!((unknown.kind(), unknown.code()), (ErrorKind::Request, "unknown-name"));
    fs::remove_dir_all(dir.path().join("blobs")).unwrap();
    let missing = block(agora.get::<Subagent>(&name("s").into())).unwrap_err();
    assert_eq!((missing.kind(), missing.code()), (ErrorKind::Outside, "bundle-missing"));
}
