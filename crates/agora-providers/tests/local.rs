//! The local directory keeps every contract, survives a crash at every step, and says what is damaged.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use agora_core::blobs::{Blobs, Pack, ReadError};
use agora_core::bundle::{Bundle, BundleKind, Capability, EnvBundle, FileEntry, FileMode, Manifest};
use agora_core::catalogue::{Catalogue, Change};
use agora_core::provider::blob::{BlobKey, BlobStore, StoreError};
use agora_core::provider::registry::{Registry, RegistryError, RegistryKey, Version};
use agora_core::provider::secret::{SecretError, SecretStore};
use agora_core::secret::{SecretValue, ShortSecrets};
use agora_core::{ContentHash, Namespace, Timestamp};
use agora_providers::Home;
use agora_providers::blob::LocalBlobs;
use agora_providers::registry::LocalRegistry;
use agora_providers::secret::LocalSecrets;
use agora_testkit::cli::files_below;
use agora_testkit::clock::SetClock;
use agora_testkit::contract;
use agora_testkit::disk::{Fault, FaultyDisk};
use tempfile::TempDir;

fn run(future: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future);
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn key(name: &str) -> RegistryKey {
    RegistryKey { namespace: Namespace::default(), kind: BundleKind::Env, name: name.parse().unwrap() }
}

fn version(seq: u64) -> Version {
    let registered_at = Timestamp::from_millis(1_763_233_200_000);
    Version { seq, content_hash: ContentHash::of(seq.to_string().as_bytes()), registered_at }
}

#[test]
fn local_blobs_meet_the_contract() {
    let dir = TempDir::new().unwrap();
    block(contract::blob_store(&LocalBlobs::new(Home::new(dir.path().join("new/home")))));
}

#[test]
fn the_local_registry_meets_the_contract() {
    let dir = TempDir::new().unwrap();
    block(contract::registry(Arc::new(LocalRegistry::new(Home::new(dir.path()))), run));
}

/// A runtime of several threads hands file work over; one of one thread does it in place. Both keep the contract.
#[test]
fn the_contracts_hold_on_a_runtime_of_several_threads() {
    let several = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let dir = TempDir::new().unwrap();
    let home = Home::new(dir.path());
    several.block_on(contract::blob_store(&LocalBlobs::new(home.clone())));
    several.block_on(contract::registry(Arc::new(LocalRegistry::new(home.clone())), run));
    let clock = Arc::new(SetClock::at("2026-11-15T12:00:00Z"));
    several.block_on(contract::secret_store(&LocalSecrets::new(home, Arc::clone(&clock) as _), &clock));
}

#[test]
fn local_secrets_meet_the_contract() {
    let dir = TempDir::new().unwrap();
    let clock = Arc::new(SetClock::at("2026-11-15T12:00:00Z"));
    let secrets = LocalSecrets::new(Home::new(dir.path()), Arc::clone(&clock) as _);
    block(contract::secret_store(&secrets, &clock));
}

/// Does something to a home whose disk fails at each operation in turn, and looks at what is left each time.
fn at_every_step(
    fault: Fault,
    prepare: impl Fn(&Home),
    act: impl Fn(&Home) -> bool,
    check: impl Fn(&Home, bool),
) {
    for step in 0.. {
        let dir = TempDir::new().unwrap();
        prepare(&Home::new(dir.path().join("home")));
        let disk = Arc::new(FaultyDisk::new(fault, step));
        let done = act(&Home::on_disk(dir.path().join("home"), Arc::clone(&disk) as _));
        if !disk.struck() {
            assert!(done, "without a fault it succeeds");
            assert!(step > 2, "the fault was tried at {step} steps");
            return;
        }
        check(&Home::new(dir.path().join("home")), done);
    }
}

#[test]
fn a_crash_at_any_step_of_registering_leaves_the_old_or_the_new_state() {
    for (fault, existing) in [(Fault::Crash, 0), (Fault::Crash, 2), (Fault::Full, 0), (Fault::Full, 2)] {
        let append =
            |home: &Home, seq| block(LocalRegistry::new(home.clone()).append(&key("n"), version(seq)));
        at_every_step(
            fault,
            |home| (1..=existing).for_each(|seq| append(home, seq).unwrap()),
            |home| append(home, existing + 1).is_ok(),
            |home, done| {
                let registry = LocalRegistry::new(home.clone());
                let versions = block(registry.versions(&key("n"))).expect("the registry is readable");
                let latest = block(registry.latest(&key("n"))).unwrap();
                assert_eq!(versions.last().copied(), latest);
                let old: Vec<Version> = (1..=existing).map(version).collect();
                let new: Vec<Version> = (1..=existing + 1).map(version).collect();
                assert!(versions == new || (versions == old && !done), "{versions:?}");
                // The next writer goes on from whichever it is.
                let next = versions.len() as u64 + 1;
                append(home, next).unwrap();
                assert_eq!(block(registry.versions(&key("n"))).unwrap().len() as u64, next);
                let names = block(registry.names(&Namespace::default(), BundleKind::Env)).unwrap();
                assert_eq!(names, [("n".parse().unwrap(), version(next))]);
            },
        );
    }
}

#[test]
fn a_crash_at_any_step_of_storing_leaves_all_or_nothing() {
    let blob = BlobKey::Blob(ContentHash::of(b"hello"));
    for fault in [Fault::Crash, Fault::Full] {
        let put = |home: &Home| block(LocalBlobs::new(home.clone()).put(blob, b"hello".to_vec()));
        at_every_step(
            fault,
            |_| {},
            |home| put(home).is_ok(),
            |home, done| {
                match block(LocalBlobs::new(home.clone()).get(blob, 100)) {
                    Ok(bytes) => assert_eq!(bytes, b"hello"),
                    Err(StoreError::NotFound(_)) => assert!(!done),
                    Err(error) => panic!("{error:?}"),
                }
                put(home).expect("it can be stored afterwards");
                if fault == Fault::Full {
                    assert!(
                        fs::read_dir(home.root().join("tmp")).unwrap().next().is_none(),
                        "nothing is left over"
                    );
                }
            },
        );
    }
}

#[test]
fn a_crash_at_any_step_of_rotating_leaves_the_old_or_the_new_secret() {
    let name = "auth/claude".parse().unwrap();
    let value = |text: &str| SecretValue::new(text.to_owned(), ShortSecrets::Refuse).unwrap();
    let secrets =
        |home: &Home| LocalSecrets::new(home.clone(), Arc::new(SetClock::at("2026-11-15T12:00:00Z")));
    for (fault, before) in
        [(Fault::Crash, Some("old-value")), (Fault::Full, Some("old-value")), (Fault::Crash, None)]
    {
        at_every_step(
            fault,
            |home| {
                if let Some(before) = before {
                    block(secrets(home).put(&name, &value(before), None)).unwrap();
                }
            },
            |home| block(secrets(home).put(&name, &value("new-value"), None)).is_ok(),
            |home, done| {
                match block(secrets(home).get(&name)) {
                    Ok(found) => {
                        assert!(found.expose() == "new-value" || (!done && Some(found.expose()) == before));
                    }
                    Err(SecretError::NotFound(_)) => assert!(!done && before.is_none()),
                    Err(error) => panic!("{error:?}"),
                }
                block(secrets(home).put(&name, &value("third-value"), None)).unwrap();
                assert_eq!(block(secrets(home).get(&name)).unwrap().expose(), "third-value");
            },
        );
    }
}

fn damaged_file(error: &RegistryError) -> &str {
    match error {
        RegistryError::Damaged { file, .. } => file,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_registry_file_cut_in_half_is_named_and_nothing_is_added_to_it() {
    let dir = TempDir::new().unwrap();
    let registry = LocalRegistry::new(Home::new(dir.path()));
    for seq in 1..=4 {
        block(registry.append(&key("n"), version(seq))).unwrap();
    }
    block(registry.append(&key("other"), version(1))).unwrap();
    let base = dir.path().join("registry/default/env");
    let (list, head) = (base.join("versions/n"), base.join("heads/n"));
    let halve = |path: &Path| {
        let whole = fs::read(path).unwrap();
        fs::write(path, &whole[..whole.len() / 2]).unwrap();
        whole
    };

    let whole = halve(&list);
    let half = fs::read(&list).unwrap();
    for error in [
        block(registry.versions(&key("n"))).unwrap_err(),
        block(registry.append(&key("n"), version(5))).unwrap_err(),
    ] {
        assert_eq!(damaged_file(&error), list.to_str().unwrap());
        assert!(error.to_string().contains("cut short"), "{error}");
    }
    assert_eq!(fs::read(&list).unwrap(), half, "what is left is not touched");
    fs::write(&list, whole).unwrap();
    block(registry.append(&key("n"), version(5))).expect("put back, it goes on");

    let whole = halve(&head);
    assert_eq!(damaged_file(&block(registry.latest(&key("n"))).unwrap_err()), head.to_str().unwrap());
    assert_eq!(
        damaged_file(&block(registry.append(&key("n"), version(6))).unwrap_err()),
        head.to_str().unwrap()
    );
    assert!(block(registry.latest(&key("other"))).is_ok(), "other names are not affected");
    fs::write(&head, whole).unwrap();
    assert_eq!(block(registry.versions(&key("n"))).unwrap().len(), 5);
}

#[test]
fn a_copy_of_the_heads_that_is_stale_or_damaged_is_never_believed() {
    let dir = TempDir::new().unwrap();
    let registry = LocalRegistry::new(Home::new(dir.path()));
    let names = || block(registry.names(&Namespace::default(), BundleKind::Env)).unwrap();
    let catalogue = dir.path().join("registry/default/env/catalogue");
    for seq in 1..=50 {
        block(registry.append(&key("n"), version(seq))).unwrap();
        assert_eq!(names()[0].1, version(seq), "whatever was copied before");
        assert_eq!(names()[0].1, version(seq));
    }
    assert!(catalogue.exists());
    for garbage in ["", "nonsense\n", "1 sha256:00\nx\n"] {
        fs::write(&catalogue, garbage).unwrap();
        assert_eq!(names()[0].1, version(50));
    }
    fs::remove_file(&catalogue).unwrap();
    assert_eq!(names()[0].1, version(50), "it may be deleted at any time");
}

fn capability(files: &[(&str, &str)]) -> (Capability, Vec<u8>) {
    let entry = |(path, content): &(&str, &str)| FileEntry {
        path: path.parse().unwrap(),
        mode: FileMode::Plain,
        size: content.len() as u64,
        sha256: ContentHash::of(content.as_bytes()),
    };
    let bytes = files.iter().flat_map(|(_, content)| content.bytes()).collect();
    (Capability::new(files.iter().map(entry).collect()).unwrap(), bytes)
}

#[test]
fn what_can_be_made_again_may_be_removed() {
    let dir = TempDir::new().unwrap();
    let registry = LocalRegistry::new(Home::new(dir.path()));
    block(registry.append(&key("n"), version(1))).unwrap();
    fs::remove_dir_all(dir.path().join("tmp")).unwrap();
    block(registry.append(&key("n"), version(2))).unwrap();
    assert_eq!(block(registry.names(&Namespace::default(), BundleKind::Env)).unwrap().len(), 1);
}

#[test]
fn the_next_write_sweeps_what_processes_that_died_left() {
    let dir = TempDir::new().unwrap();
    let home = Home::new(dir.path());
    home.prepare().unwrap();
    let (old, young) = (dir.path().join("tmp/old"), dir.path().join("tmp/young"));
    fs::write(&young, "x").unwrap();
    let hours_ago =
        fs::metadata(&young).unwrap().modified().unwrap() - std::time::Duration::from_secs(2 * 3600);
    fs::File::create(&old).unwrap().set_modified(hours_ago).unwrap();
    block(LocalRegistry::new(home).append(&key("n"), version(1))).unwrap();
    assert_eq!((old.exists(), young.exists()), (false, true));
    assert_eq!(
        fs::read_dir(dir.path().join("tmp")).unwrap().count(),
        1,
        "the sweep leaves nothing of its own"
    );
}

#[test]
fn one_wrapper_notices_every_altered_byte() {
    let dir = TempDir::new().unwrap();
    let blobs = Blobs::new(Arc::new(LocalBlobs::new(Home::new(dir.path()))));
    let (capability, bytes) = capability(&[("a", "alpha"), ("b", "beta")]);
    let manifest = Manifest::new(Bundle::Capability(capability.clone())).encode().unwrap();
    let pack = Pack::check(&capability, bytes).unwrap();
    block(blobs.write_manifest(&manifest)).unwrap();
    block(blobs.write_pack(manifest.hash, pack.clone())).unwrap();
    assert_eq!(block(blobs.read(manifest.hash)).unwrap(), Bundle::Capability(capability.clone()));
    let read = block(blobs.read_pack(manifest.hash, &capability)).unwrap();
    assert_eq!(read.contents(&capability).collect::<Vec<_>>(), [b"alpha".as_slice(), b"beta".as_slice()]);

    for (path, whole) in files_below(dir.path()).into_iter().filter(|(path, _)| !path.ends_with("format")) {
        let flipped = |place: usize| {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            bytes
        };
        let alterations = [
            flipped(0),
            flipped(whole.len() - 1),
            whole[..whole.len() - 1].to_vec(),
            [&whole[..], b"x"].concat(),
        ];
        for altered in alterations {
            fs::write(&path, altered).unwrap();
            let manifest_read = block(blobs.read(manifest.hash));
            let pack_read = block(blobs.read_pack(manifest.hash, &capability));
            let noticed =
                matches!(manifest_read, Err(ReadError::Store { source: StoreError::Altered(_), .. }))
                    || matches!(pack_read, Err(ReadError::Store { source: StoreError::Altered(_), .. }));
            assert!(noticed, "{}", path.display());
        }
        // Storing the same again mends it.
        block(blobs.write_manifest(&manifest)).unwrap();
        block(blobs.write_pack(manifest.hash, pack.clone())).unwrap();
        assert!(
            block(blobs.read(manifest.hash)).is_ok()
                && block(blobs.read_pack(manifest.hash, &capability)).is_ok()
        );
    }
}

#[test]
fn registering_again_rolls_back_and_references_find_the_right_version() {
    let dir = TempDir::new().unwrap();
    let home = Home::new(dir.path());
    let clock = Arc::new(SetClock::at("2026-11-15T12:00:00Z"));
    let blobs = Blobs::new(Arc::new(LocalBlobs::new(home.clone())));
    let registry = Arc::new(LocalRegistry::new(home));
    let catalogue = Catalogue::new(registry, blobs, Arc::clone(&clock) as _, Namespace::default());
    let env = |value: &str| {
        let values = [("K".parse().unwrap(), value.to_owned())].into();
        Manifest::new(Bundle::Env(EnvBundle::new(values, [].into()).unwrap())).encode().unwrap()
    };
    let name = "e".parse().unwrap();
    let register =
        |value: &str| block(catalogue.store_and_register(BundleKind::Env, &name, &env(value))).unwrap();
    let resolve = |reference: &str| block(catalogue.resolve(BundleKind::Env, &reference.parse().unwrap()));

    assert_eq!(register("first").change, Change::New);
    assert_eq!(register("first").change, Change::Unchanged);
    clock.set("2026-11-15T13:00:00Z");
    assert_eq!(register("second").change, Change::Changed);
    // The clock is set back: the order of the versions stays the order of their times.
    clock.set("2026-11-15T11:00:00Z");
    let back = register("first");
    assert_eq!((back.change, back.version.seq), (Change::Changed, 3));
    assert_eq!(back.version.registered_at.to_string(), "2026-11-15T13:00:00.000Z");

    let (first, second) = (env("first").hash, env("second").hash);
    assert_eq!(resolve("e").unwrap().content_hash, first);
    assert_eq!(resolve(&format!("e@sha256:{}", &second.digits()[..12])).unwrap().content_hash, second);
    assert_eq!(resolve("e@2026-11-15T12:30:00Z").unwrap().seq, 1);
    assert_eq!(resolve("e@2026-11-15T13:00:00Z").unwrap().seq, 3);
    assert!(resolve("e@2026-11-15T11:59:59Z").is_err());
    assert!(resolve("f").is_err() && resolve("e@sha256:000000000000").is_err());
}

#[test]
fn the_key_is_for_its_owner_only_and_nothing_at_rest_shows_a_value() {
    let dir = TempDir::new().unwrap();
    let secrets = LocalSecrets::new(Home::new(dir.path()), Arc::new(SetClock::at("2026-11-15T12:00:00Z")));
    let (one, two) = ("a/one".parse().unwrap(), "a/two".parse().unwrap());
    let value = SecretValue::new("correct horse battery".to_owned(), ShortSecrets::Refuse).unwrap();
    block(secrets.put(&one, &value, None)).unwrap();
    block(secrets.put(&two, &value, None)).unwrap();
    let shows =
        |content: &[u8]| content.windows(7).any(|window| window == b"correct" || window == b"battery");
    assert!(files_below(dir.path()).iter().all(|(_, content)| !shows(content)));

    let key = dir.path().join("keys/secrets.key");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&key), mode(key.parent().unwrap())), (0o600, 0o700));

    fs::copy(dir.path().join("secrets/+a/one.sealed"), dir.path().join("secrets/+a/two.sealed")).unwrap();
    assert!(
        matches!(block(secrets.get(&two)), Err(SecretError::Sealed(_))),
        "one cannot stand in for another"
    );

    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(block(secrets.get(&one)), Err(SecretError::KeyExposed { mode: 0o640, .. })));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, "not a key\n").unwrap();
    assert!(matches!(block(secrets.get(&one)), Err(SecretError::KeyDamaged { .. })));
    fs::remove_file(&key).unwrap();
    block(secrets.put(&two, &value, None)).unwrap();
    assert!(
        matches!(block(secrets.get(&one)), Err(SecretError::Sealed(_))),
        "another key opens nothing of the old"
    );
}
