//! Every crate keeps to its charter: who may use whom, and how much the worker may bring along.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The table of `CONTRIBUTING.md`. A new crate, or a new arrow, needs a reason and a line here.
const CHARTERS: &[(&str, &[&str])] = &[
    ("agora-core", &[]),
    ("agora-providers", &["agora-core"]),
    ("agora-worker", &["agora-core"]),
    ("agora-engine", &["agora-core", "agora-providers"]),
    ("agora", &["agora-core", "agora-providers", "agora-worker", "agora-engine"]),
    ("agora-testkit", &["agora-core", "agora-providers", "agora-worker", "agora-engine", "agora"]),
    ("xtask", &["agora-core", "agora-providers", "agora-worker", "agora-engine", "agora", "agora-testkit"]),
];

/// The worker stands beside untrusted code; what it links is what an agent could try to break.
const WORKER_PACKAGES: usize = 150;

/// Crates that do I/O: core must not reach them.
const OUTSIDE: &[&str] = &["tokio", "rustix", "mio", "reqwest", "rusqlite", "tempfile", "getrandom"];

#[expect(clippy::disallowed_methods, reason = "the test asks cargo about the workspace")]
fn metadata() -> Value {
    let cargo =
        Command::new(env!("CARGO")).args(["metadata", "--format-version", "1", "--locked"]).output().unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    serde_json::from_slice(&cargo.stdout).unwrap()
}

/// Returns what each package links when it ships: normal dependencies only, by package id.
fn shipped(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let is_normal = |dependency: &&Value| {
        dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null())
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let dependencies =
                node["deps"].as_array().unwrap().iter().filter(is_normal).map(|dep| text(&dep["pkg"]));
            (text(&node["id"]), dependencies.collect())
        })
        .collect()
}

fn closure(graph: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(package) = next.pop() {
        if seen.insert(package.clone()) {
            next.extend(graph[&package].iter().cloned());
        }
    }
    seen
}

#[test]
fn every_crate_keeps_to_its_charter() {
    let metadata = metadata();
    let graph = shipped(&metadata);
    let names: BTreeMap<String, String> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            (package["id"].as_str().unwrap().to_owned(), package["name"].as_str().unwrap().to_owned())
        })
        .collect();
    let members: BTreeSet<String> = metadata["workspace_members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap().to_owned())
        .collect();

    let found: BTreeSet<&str> = members.iter().map(|id| names[id].as_str()).collect();
    let chartered: BTreeSet<&str> = CHARTERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, chartered, "every crate has a charter, and every charter a crate");

    for id in &members {
        let name = names[id].as_str();
        let (_, allowed) = CHARTERS.iter().find(|(chartered, _)| *chartered == name).unwrap();
        for used in graph[id].intersection(&members).map(|id| names[id].as_str()) {
            assert!(allowed.contains(&used), "{name} may not use {used}");
        }
        let reached: BTreeSet<&str> = closure(&graph, id).iter().map(|id| names[id].as_str()).collect();
        if name == "agora-core" {
            let outside: Vec<_> = OUTSIDE.iter().filter(|package| reached.contains(*package)).collect();
            assert!(outside.is_empty(), "core has no I/O, but reaches {outside:?}");
        }
        if name == "agora-worker" {
            assert!(reached.len() < WORKER_PACKAGES, "the worker links {} packages", reached.len());
        }
    }
}
