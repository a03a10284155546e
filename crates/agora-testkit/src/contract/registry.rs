use std::sync::Arc;
use std::thread;

use agora_core::bundle::BundleKind;
use agora_core::provider::registry::{Registry, RegistryError, RegistryKey, Version};
use agora_core::{ContentHash, Namespace, Timestamp};

fn key(namespace: &str, kind: BundleKind, name: &str) -> RegistryKey {
    RegistryKey { namespace: namespace.parse().unwrap(), kind, name: name.parse().unwrap() }
}

fn version(seq: u64, content: &str) -> Version {
    let registered_at = Timestamp::from_millis(1_763_233_200_000 + i64::try_from(seq).unwrap());
    Version { seq, content_hash: ContentHash::of(content.as_bytes()), registered_at }
}

/// Every `Registry` passes this. `run` drives a future on a thread of its own.
pub async fn registry(
    registry: Arc<dyn Registry>,
    run: fn(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>),
) {
    let namespace = Namespace::default();
    let planner = key("default", BundleKind::Subagent, "planner");

    assert_eq!(registry.latest(&planner).await.unwrap(), None);
    assert_eq!(registry.versions(&planner).await.unwrap(), []);
    assert_eq!(registry.names(&namespace, BundleKind::Subagent).await.unwrap(), []);

    registry.append(&planner, version(1, "a")).await.unwrap();
    registry.append(&planner, version(2, "b")).await.unwrap();
    registry.append(&planner, version(3, "a")).await.unwrap();
    assert_eq!(registry.latest(&planner).await.unwrap(), Some(version(3, "a")));
    assert_eq!(
        registry.versions(&planner).await.unwrap(),
        [version(1, "a"), version(2, "b"), version(3, "a")]
    );

    for stale in [1, 2, 3, 5] {
        let refused = registry.append(&planner, version(stale, "c")).await.expect_err("not the next version");
        assert!(matches!(refused, RegistryError::Moved), "{refused:?}");
    }
    assert_eq!(registry.versions(&planner).await.unwrap().len(), 3, "what was refused left nothing");

    // Another kind, namespace or name is another list; a name may be the beginning of another.
    let others = [
        key("default", BundleKind::Capability, "planner"),
        key("other", BundleKind::Subagent, "planner"),
        key("default", BundleKind::Subagent, "plan"),
        key("default", BundleKind::Subagent, "planner.v2"),
    ];
    for other in &others {
        assert_eq!(registry.latest(other).await.unwrap(), None, "{other:?}");
        registry.append(other, version(1, "x")).await.unwrap();
    }
    let names = registry.names(&namespace, BundleKind::Subagent).await.unwrap();
    let expected: Vec<_> =
        [("plan", version(1, "x")), ("planner", version(3, "a")), ("planner.v2", version(1, "x"))]
            .map(|(name, version)| (name.parse().unwrap(), version))
            .to_vec();
    assert_eq!(names, expected);
    assert_eq!(
        registry.names(&namespace, BundleKind::Subagent).await.unwrap(),
        expected,
        "listing again is the same"
    );
    registry.append(&planner, version(4, "d")).await.unwrap();
    let names = registry.names(&namespace, BundleKind::Subagent).await.unwrap();
    assert_eq!(names[1].1, version(4, "d"), "a list shows what was just registered");

    race(&registry, run);
    let contested = registry.versions(&key("default", BundleKind::Env, "contested")).await.unwrap();
    let sequence: Vec<u64> = contested.iter().map(|version| version.seq).collect();
    assert_eq!(
        sequence,
        (1..=40).collect::<Vec<_>>(),
        "each writer's ten versions are there, once, in one order"
    );
    let mut hashes: Vec<_> = contested.iter().map(|version| version.content_hash).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 40);
}

/// Lets four writers add ten versions each to one name.
fn race(registry: &Arc<dyn Registry>, run: fn(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>)) {
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let registry = Arc::clone(registry);
            thread::spawn(move || {
                run(Box::pin(async move {
                    let key = key("default", BundleKind::Env, "contested");
                    let mut written = 0;
                    while written < 10 {
                        let latest = registry.latest(&key).await.unwrap();
                        let next = version(
                            latest.map_or(1, |latest| latest.seq + 1),
                            &format!("{writer} {written}"),
                        );
                        match registry.append(&key, next).await {
                            Ok(()) => written += 1,
                            Err(RegistryError::Moved) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }));
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
}
