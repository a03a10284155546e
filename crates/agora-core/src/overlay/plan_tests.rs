use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::bundle::{Capability, FileMode};
use crate::hash::ContentHash;
use crate::overlay::{Helper, MergeFault};

/// A layer as a test writes it: a name, and files as (path, content).
type Written<'a> = (&'a str, &'a [(&'a str, &'a str)]);

fn entry(path: &str, content: &str) -> FileEntry {
    let mode = if content.starts_with("#!") { FileMode::Executable } else { FileMode::Plain };
    let sha256 = ContentHash::of(content.as_bytes());
    FileEntry { path: path.parse().unwrap(), mode, size: content.len() as u64, sha256 }
}

fn tree(files: &[(&str, &str)]) -> Capability {
    Capability::new(files.iter().map(|(path, content)| entry(path, content)).collect()).unwrap()
}

fn named(name: &str) -> Owner {
    if name == "helper" { Owner::Helper } else { Owner::Capability(name.parse().unwrap()) }
}

fn planned(runtime: &Runtime, written: &[Written<'_>]) -> Result<Plan, Conflict> {
    let trees: Vec<Capability> = written.iter().map(|(_, files)| tree(files)).collect();
    let layers: Vec<Layer<'_>> =
        written.iter().zip(&trees).map(|((name, _), tree)| Layer { owner: named(name), tree }).collect();
    plan(runtime, &layers)
}

/// Writes a plan as lines: `path < owner`, with ` + owner` where it is merged, and `path: loser < winner` for the dropped.
fn told(plan: &Plan) -> Vec<String> {
    let placed = plan.files.iter().map(|placed| {
        let owners: Vec<String> =
            placed.source.parts().iter().map(|part| plan.owner(part).to_string()).collect();
        format!("{} < {}", placed.path, owners.join(" + "))
    });
    let dropped = plan
        .dropped
        .iter()
        .map(|Dropped { path, winner, loser }| format!("{path}: {loser} lost to {winner}"));
    placed.chain(dropped).collect()
}

fn external() -> Runtime {
    Runtime::External("other".parse().unwrap())
}

fn command() -> Runtime {
    Runtime::Command(vec!["true".to_owned()])
}

#[test]
fn the_table_of_rules() {
    use Runtime::{ClaudeCode, Codex};
    let everyone = [ClaudeCode, Codex, command(), external()];
    let (claude, codex) = (&everyone[..1], &everyone[1..2]);
    let (not_claude, not_codex) = (&everyone[1..], [ClaudeCode, command(), external()]);
    // Two layers `a` and `b` with files that are `<path>` alike or `<path>=<content>`, and what comes of them.
    let cases: &[(&[Runtime], &str, &str, &[&str])] = &[
        (&everyone, "x", "y", &["x < a", "y < b"]),
        (&everyone, "x=1", "x=2", &["x < b", "x: a lost to b"]),
        (&everyone, "x=1", "x=1", &["x < b"]),
        (&everyone, "x=1", "x=#!1", &["x < b", "x: a lost to b"]),
        (
            &everyone,
            "agora-channel.json=1",
            "agora-channel.json=2",
            &["agora-channel.json < b", "agora-channel.json: a lost to b"],
        ),
        (
            &everyone,
            "agora-setup.sh=1",
            "agora-setup.sh=2",
            &["agora-setup.sh < b", "agora-setup.sh: a lost to b"],
        ),
        (
            &everyone,
            "agora-notifications.json=1",
            "agora-notifications.json=2",
            &["agora-notifications.json < a + b"],
        ),
        (
            &everyone,
            "sub/agora-notifications.json=1",
            "sub/agora-notifications.json=2",
            &["sub/agora-notifications.json < b", "sub/agora-notifications.json: a lost to b"],
        ),
        (claude, ".claude/settings.json=1", ".claude/settings.json=2", &[".claude/settings.json < a + b"]),
        (
            not_claude,
            ".claude/settings.json=1",
            ".claude/settings.json=2",
            &[".claude/settings.json < b", ".claude/settings.json: a lost to b"],
        ),
        (claude, "agora-plugins.json=1", "agora-plugins.json=2", &["agora-plugins.json < a + b"]),
        (
            not_claude,
            "agora-plugins.json=1",
            "agora-plugins.json=2",
            &["agora-plugins.json < b", "agora-plugins.json: a lost to b"],
        ),
        (
            claude,
            ".claude/settings.local.json=1",
            ".claude/settings.local.json=2",
            &[".claude/settings.local.json < b", ".claude/settings.local.json: a lost to b"],
        ),
        (
            claude,
            ".claude/skills/s/old .claude/skills/t/x",
            ".claude/skills/s/new",
            &[".claude/skills/s/new < b", ".claude/skills/t/x < a", ".claude/skills/s/old: a lost to b"],
        ),
        (
            claude,
            ".claude/skills/s/deep/er/old",
            ".claude/skills/s/new",
            &[".claude/skills/s/new < b", ".claude/skills/s/deep/er/old: a lost to b"],
        ),
        (
            claude,
            ".claude/skills/s/x=1 .claude/skills/s/y=1",
            ".claude/skills/s/x=1 .claude/skills/s/y=2",
            &[".claude/skills/s/x < b", ".claude/skills/s/y < b", ".claude/skills/s/y: a lost to b"],
        ),
        (
            claude,
            ".claude/skills/s/a/b",
            ".claude/skills/s/a",
            &[".claude/skills/s/a < b", ".claude/skills/s/a/b: a lost to b"],
        ),
        (
            claude,
            ".claude/skills/one",
            ".claude/skills/other",
            &[".claude/skills/one < a", ".claude/skills/other < b"],
        ),
        (
            not_claude,
            ".claude/skills/s/old",
            ".claude/skills/s/new",
            &[".claude/skills/s/new < b", ".claude/skills/s/old < a"],
        ),
        (
            codex,
            ".agents/skills/s/old",
            ".agents/skills/s/new",
            &[".agents/skills/s/new < b", ".agents/skills/s/old: a lost to b"],
        ),
        (
            &not_codex,
            ".agents/skills/s/old",
            ".agents/skills/s/new",
            &[".agents/skills/s/new < b", ".agents/skills/s/old < a"],
        ),
    ];
    for (runtimes, a, b, expected) in cases {
        let files = |text: &'static str| -> Vec<(&str, &str)> {
            text.split(' ').map(|file| file.split_once('=').unwrap_or((file, file))).collect()
        };
        for runtime in *runtimes {
            let plan = planned(runtime, &[("a", &files(a)), ("b", &files(b))]).unwrap();
            assert_eq!(told(&plan), *expected, "{a} and {b} for {}", runtime.as_str());
        }
    }
}

#[test]
fn each_loser_is_told_of_the_one_that_is_laid() {
    let files = |content| [("x", content)];
    let plan = planned(
        &Runtime::Codex,
        &[("a", &files("1")), ("b", &files("2")), ("c", &files("3")), ("d", &files("2"))],
    );
    assert_eq!(told(&plan.unwrap()), ["x < d", "x: a lost to d", "x: c lost to d"]);
    let back = planned(
        &Runtime::ClaudeCode,
        &[
            ("a", &[(".claude/skills/s/x", "1"), (".claude/skills/s/y", "1")]),
            ("b", &[(".claude/skills/s/y", "2")]),
            ("a", &[(".claude/skills/s/x", "1")]),
        ],
    );
    assert_eq!(
        told(&back.unwrap()),
        [".claude/skills/s/x < a", ".claude/skills/s/y: a lost to a", ".claude/skills/s/y: b lost to a"]
    );
}

#[test]
fn a_capability_with_the_helpers_skill_replaces_it() {
    let helper = Helper::new("ask like this", &Runtime::ClaudeCode).unwrap();
    let own = tree(&[(".claude/skills/agora-needs-input/OWN.md", "ask like that")]);
    let layers =
        [Layer { owner: Owner::Helper, tree: &helper.tree }, Layer { owner: named("house"), tree: &own }];
    assert_eq!(
        told(&plan(&Runtime::ClaudeCode, &layers).unwrap()),
        [
            ".agents/skills/agora-needs-input/SKILL.md < agora-needs-input",
            ".claude/skills/agora-needs-input/OWN.md < house",
            ".claude/skills/agora-needs-input/SKILL.md: agora-needs-input lost to house",
        ]
    );
    let line = serde_json::to_string(&plan(&Runtime::ClaudeCode, &layers).unwrap().dropped[0]).unwrap();
    assert_eq!(
        line,
        r#"{"path":".claude/skills/agora-needs-input/SKILL.md","winner":"house","loser":"agora-needs-input"}"#
    );
}

#[test]
fn files_in_each_others_way_are_conflicts_from_both_sides() {
    let path = |text: &str| text.parse::<BundlePath>().unwrap();
    let (file, below): (Written<'_>, Written<'_>) =
        (("a", &[("docs", "x"), ("docs-old", "x")]), ("b", &[("docs.md", "y"), ("docs/in/y", "y")]));
    for written in [[file, below], [below, file]] {
        let expected = Conflict::FileAndDirectory {
            file: path("docs"),
            file_of: named("a"),
            below: path("docs/in/y"),
            below_of: named("b"),
        };
        assert_eq!(planned(&Runtime::Codex, &written), Err(expected));
    }
    let case = planned(&Runtime::Codex, &[("a", &[("Read.me", "x")]), ("b", &[("READ.me", "x")])]);
    let expected = Conflict::Case {
        one: path("READ.me"),
        one_of: named("b"),
        other: path("Read.me"),
        other_of: named("a"),
    };
    assert_eq!(case, Err(expected));
    let message = planned(&Runtime::Codex, &[file, below]).unwrap_err().to_string();
    assert_eq!(message, "`docs` is a file in `a`, but the directory of `docs/in/y` in `b`");
}

#[test]
fn what_is_too_large_to_merge_is_known_before_it_is_read() {
    let large =
        Capability::new(vec![FileEntry { size: 1024 * 1024 + 1, ..entry(".claude/settings.json", "") }])
            .unwrap();
    let small = tree(&[(".claude/settings.json", "{}")]);
    let layers = [Layer { owner: named("a"), tree: &small }, Layer { owner: named("b"), tree: &large }];
    let expected = Conflict::Unmergeable {
        path: ".claude/settings.json",
        owner: named("b"),
        other: named("a"),
        fault: MergeFault::TooLarge(1024 * 1024 + 1),
    };
    assert_eq!(plan(&Runtime::ClaudeCode, &layers), Err(expected));
    assert!(plan(&Runtime::ClaudeCode, &layers[1..]).is_ok(), "alone it is a file like any other");
    assert!(plan(&Runtime::Codex, &layers).is_ok());
}

/// Paths that the rules know, and neighbours that they must not take for them.
const PATHS: &[&str] = &[
    "a",
    "b",
    "a/b",
    "a/c",
    "A",
    "agora-setup.sh",
    "agora-channel.json",
    "agora-notifications.json",
    "agora-plugins.json",
    ".claude/settings.json",
    ".claude/skills/s",
    ".claude/skills/s/x",
    ".claude/skills/s/y",
    ".claude/skills/s/y/z",
    ".claude/skills/t/x",
    ".agents/skills/s/x",
    ".agents/skills/s/y",
];

type Files = Vec<(&'static str, u8)>;

fn capability() -> impl Strategy<Value = (Files, Files)> {
    proptest::collection::btree_map(proptest::sample::select(PATHS), 0_u8..3, 1..8)
        .prop_map(|files| files.into_iter().collect::<Files>())
        .prop_filter("files in each other's way", |files| built(files).is_some())
        .prop_flat_map(|files| (Just(files.clone()), Just(files).prop_shuffle()))
}

fn built(files: &[(&str, u8)]) -> Option<Capability> {
    Capability::new(files.iter().map(|(path, content)| entry(path, &content.to_string())).collect()).ok()
}

fn runtime() -> impl Strategy<Value = Runtime> {
    proptest::sample::select(vec![Runtime::ClaudeCode, Runtime::Codex, command(), external()])
}

/// Makes the trees layers of the owners `l0`, `l1`, ….
fn layers(trees: &[Capability]) -> Vec<Layer<'_>> {
    let owner = |index: usize| named(&format!("l{index}"));
    trees.iter().enumerate().map(|(index, tree)| Layer { owner: owner(index), tree }).collect()
}

/// Lays the layers one after another, as a person would with `rm -r` and `cp`. Merged files are lists of layers.
fn laid_by_hand(runtime: &Runtime, layers: &[Files]) -> BTreeMap<String, Vec<(usize, u8)>> {
    let skills = match runtime {
        Runtime::ClaudeCode => Some(".claude/skills/"),
        Runtime::Codex => Some(".agents/skills/"),
        _ => None,
    };
    let merged: &[&str] = match runtime {
        Runtime::ClaudeCode => &[".claude/settings.json", "agora-plugins.json", "agora-notifications.json"],
        _ => &["agora-notifications.json"],
    };
    let mut workspace: BTreeMap<String, Vec<(usize, u8)>> = BTreeMap::new();
    for (layer, files) in layers.iter().enumerate() {
        for (path, _) in files {
            if let Some((name, _)) = skills.and_then(|skills| path.strip_prefix(skills)?.split_once('/')) {
                let skill = format!("{}{name}/", skills.unwrap());
                workspace.retain(|path, _| !path.starts_with(&skill));
            }
        }
        for (path, content) in files {
            let slot = workspace.entry((*path).to_owned()).or_default();
            if !merged.contains(path) {
                slot.clear();
            }
            slot.push((layer, *content));
        }
    }
    workspace
}

proptest! {
    #[test]
    fn a_plan_is_what_laying_one_after_another_gives(
        runtime in runtime(),
        written in proptest::collection::vec(capability(), 0..5),
    ) {
        let (files, shuffled): (Vec<Files>, Vec<Files>) = written.into_iter().unzip();
        let trees: Vec<Capability> = files.iter().map(|files| built(files).unwrap()).collect();
        let others: Vec<Capability> = shuffled.iter().map(|files| built(files).unwrap()).collect();
        let found = plan(&runtime, &layers(&trees));
        prop_assert_eq!(&found, &plan(&runtime, &layers(&others)), "the order of files in a layer counts for nothing");

        let by_hand = laid_by_hand(&runtime, &files);
        let paths: Vec<FileEntry> = by_hand.keys().map(|path| entry(path, "")).collect();
        let can_be = paths.is_empty() || Capability::new(paths).is_ok();
        prop_assert_eq!(found.is_ok(), can_be, "{:?}", found);
        let Ok(plan) = found else { return Ok(()) };
        let laid: BTreeMap<String, Vec<(usize, u8)>> = plan.files.iter().map(|placed| {
            let content = |part: &Part| files[part.layer].iter().find(|(path, _)| *path == placed.path.as_str()).unwrap().1;
            (placed.path.to_string(), placed.source.parts().iter().map(|part| (part.layer, content(part))).collect())
        }).collect();
        prop_assert_eq!(laid, by_hand);
        prop_assert!(plan.files.windows(2).all(|pair| pair[0].path < pair[1].path), "no path twice, all in order");

        check_that_nothing_is_forgotten(&plan, &trees)?;
    }
}

/// Every file of every layer is laid, merged, dropped, or just like the one that is laid; and only one of them.
fn check_that_nothing_is_forgotten(plan: &Plan, trees: &[Capability]) -> Result<(), TestCaseError> {
    let used: BTreeSet<(usize, usize)> = plan
        .files
        .iter()
        .flat_map(|placed| placed.source.parts())
        .map(|part| (part.layer, part.file))
        .collect();
    let mut dropped = 0;
    for (layer, tree) in trees.iter().enumerate() {
        let mut offset = 0;
        for (file, entry) in tree.files().iter().enumerate() {
            let laid = plan.files.iter().find(|placed| placed.path == entry.path);
            let part = Part { layer, file, offset, size: entry.size, sha256: entry.sha256 };
            offset += entry.size;
            let lost = plan
                .dropped
                .iter()
                .filter(|lost| lost.path == entry.path && lost.loser == plan.owners[layer]);
            let lost = lost.count();
            let same = laid.is_some_and(|laid| {
                matches!(laid.source, Source::Layer(part) if (part.sha256, laid.mode) == (entry.sha256, entry.mode))
            });
            let is_used = used.contains(&(layer, file));
            prop_assert_eq!(lost, usize::from(!is_used && !same), "{} of layer {}", entry.path, layer);
            if is_used {
                prop_assert!(laid.is_some_and(|laid| laid.source.parts().contains(&part)));
            }
            dropped += lost;
        }
    }
    prop_assert_eq!(dropped, plan.dropped.len());
    Ok(())
}
