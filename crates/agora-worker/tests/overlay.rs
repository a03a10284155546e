//! Capabilities on real workspaces, friendly and hostile.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]
#![expect(clippy::disallowed_methods, reason = "the time it takes is told, and nothing depends on it")]

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agora_core::ContentHash;
use agora_core::bundle::{Capability, FileEntry, FileMode, Runtime};
use agora_core::overlay::{Conflict, Helper, Layer, Owner, Plan, plan};
use agora_worker::overlay::{Contents, Fingerprint, Laid, Obstacle, OverlayError, lay};
use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

/// Layers with their packs on disk, and a workspace beside them.
struct Bench {
    dir: TempDir,
    layers: Vec<(Owner, Capability, Arc<File>)>,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("workspace")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        Self { dir, layers: Vec::new() }
    }

    /// Adds a capability of files as (path, content); a content that begins with `#!` is executable.
    fn with(mut self, name: &str, files: &[(&str, &[u8])]) -> Self {
        let mut files = files.to_vec();
        files.sort_by_key(|(path, _)| path.parse::<agora_core::BundlePath>().unwrap());
        let entry = |(path, content): &(&str, &[u8])| FileEntry {
            path: path.parse().unwrap(),
            mode: if content.starts_with(b"#!") { FileMode::Executable } else { FileMode::Plain },
            size: content.len() as u64,
            sha256: ContentHash::of(content),
        };
        let tree = Capability::new(files.iter().map(entry).collect()).unwrap();
        let pack = self.dir.path().join(format!("pack-{}", self.layers.len()));
        fs::write(&pack, files.iter().map(|(_, content)| *content).collect::<Vec<_>>().concat()).unwrap();
        self.layers.push((
            Owner::Capability(name.parse().unwrap()),
            tree,
            Arc::new(File::open(pack).unwrap()),
        ));
        self
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.dir.path().join("workspace")
    }

    fn outside(&self) -> std::path::PathBuf {
        self.dir.path().join("outside")
    }

    /// Writes to a layer's pack, behind its manifest's back.
    fn spoil(&self, layer: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let pack = self.dir.path().join(format!("pack-{layer}"));
        let mut bytes = fs::read(&pack).unwrap();
        change(&mut bytes);
        fs::write(pack, bytes).unwrap();
    }

    fn plan(&self) -> Plan {
        let layers: Vec<Layer<'_>> =
            self.layers.iter().map(|(owner, tree, _)| Layer { owner: owner.clone(), tree }).collect();
        plan(&Runtime::ClaudeCode, &layers).unwrap()
    }

    fn lay(&self) -> Result<Laid, OverlayError> {
        let contents: Vec<Contents<'_>> =
            self.layers.iter().map(|(_, _, pack)| Contents::Pack(Arc::clone(pack))).collect();
        lay(&self.workspace(), &self.plan(), &contents)
    }

    fn refused(&self) -> OverlayError {
        let refused = self.lay().unwrap_err();
        assert_eq!(tree_of(&self.outside()), [], "nothing is written outside");
        refused
    }
}

/// Lists all files and links below a directory with their modes and contents.
fn tree_of(root: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                open.push(path);
            } else {
                let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.push((name, metadata.mode() & 0o7777, content));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn winners_and_merged_files_are_laid_with_their_modes() {
    let large = vec![7; 3 * 1024 * 1024 + 5];
    let bench = Bench::new()
        .with("a", &[("x", b"old"), ("deep/er/y", b"y"), (".claude/settings.json", br#"{"a":[1],"b":"x"}"#)])
        .with("b", &[("x", b"#!new"), ("large", &large), ("empty", b"")])
        .with("c", &[(".claude/settings.json", br#"{"a":[2,1]}"#), ("deep/z", b"z")]);
    let laid = bench.lay().unwrap();
    assert_eq!(
        tree_of(&bench.workspace()),
        [
            (".claude/settings.json".to_owned(), 0o644, b"{\"a\":[1,2],\"b\":\"x\"}\n".to_vec()),
            ("deep/er/y".to_owned(), 0o644, b"y".to_vec()),
            ("deep/z".to_owned(), 0o644, b"z".to_vec()),
            ("empty".to_owned(), 0o644, Vec::new()),
            ("large".to_owned(), 0o644, large),
            ("x".to_owned(), 0o755, b"#!new".to_vec()),
        ]
    );
    let paths: Vec<&str> = laid.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["deep/er/y", "deep/z", "empty", "large", "x"], "all but the merged one");
}

#[test]
fn what_is_returned_leads_to_the_same_bytes() {
    use std::os::unix::fs::FileExt;
    let bench = Bench::new().with("a", &[("x", b"one"), ("y/z", b"#!two"), ("zz", b"three")]);
    for file in bench.lay().unwrap().files {
        let place = bench.workspace().join(file.path.as_str());
        let mut slice = vec![0; usize::try_from(file.len).unwrap()];
        file.pack.read_exact_at(&mut slice, file.offset).unwrap();
        assert_eq!(slice, fs::read(&place).unwrap());
        assert_eq!(ContentHash::of(&slice), file.sha256);
        assert_eq!(Fingerprint::from(&fs::symlink_metadata(&place).unwrap()), file.fingerprint);
        fs::write(&place, "changed since").unwrap();
        assert_ne!(Fingerprint::from(&fs::symlink_metadata(&place).unwrap()), file.fingerprint);
    }
}

#[test]
fn the_helper_comes_from_memory_and_is_replaced_by_a_capability() {
    let helper = Helper::new("ask like this", &Runtime::ClaudeCode).unwrap();
    let bench = Bench::new().with("own", &[(".claude/skills/agora-needs-input/SKILL.md", b"ask like that")]);
    let (owner, tree, pack) = &bench.layers[0];
    let layers = [Layer { owner: Owner::Helper, tree: &helper.tree }, Layer { owner: owner.clone(), tree }];
    let plan = plan(&Runtime::ClaudeCode, &layers).unwrap();
    let contents = [Contents::Memory(&helper.pack), Contents::Pack(Arc::clone(pack))];
    let laid = lay(&bench.workspace(), &plan, &contents).unwrap();
    assert_eq!(
        tree_of(&bench.workspace()),
        [
            (".agents/skills/agora-needs-input/SKILL.md".to_owned(), 0o644, b"ask like this".to_vec()),
            (".claude/skills/agora-needs-input/SKILL.md".to_owned(), 0o644, b"ask like that".to_vec()),
        ]
    );
    assert_eq!(laid.files.len(), 1);
}

#[test]
fn links_files_and_pipes_where_a_directory_belongs_are_in_the_way() {
    let put: [fn(&Bench, &Path); 4] = [
        |bench, place| symlink(bench.outside(), place).unwrap(),
        |_, place| symlink("nowhere", place).unwrap(),
        |_, place| fs::write(place, "file").unwrap(),
        |_, place| mkfifoat(CWD, place, Mode::RWXU).unwrap(),
    ];
    for put in put {
        for at in ["in", "in/side"] {
            let bench = Bench::new().with("a", &[("in/side/x", b"x")]);
            let place = bench.workspace().join(at);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            put(&bench, &place);
            let before = place.symlink_metadata().unwrap().file_type();
            let refused = bench.refused();
            assert!(
                matches!(&refused, OverlayError::InTheWay { at: told, found: Obstacle::NoDirectory, .. } if told == at),
                "{refused}"
            );
            assert_eq!(place.symlink_metadata().unwrap().file_type(), before);
        }
    }
}

#[test]
fn whatever_is_at_the_path_itself_is_replaced_and_not_written_through() {
    let put: [fn(&Bench, &Path); 6] = [
        |bench, place| {
            fs::write(bench.outside().join("target"), "precious").unwrap();
            symlink(bench.outside().join("target"), place).unwrap();
        },
        |bench, place| symlink(bench.outside().join("dangling"), place).unwrap(),
        |bench, place| symlink(bench.outside(), place).unwrap(),
        |bench, place| {
            fs::write(bench.outside().join("target"), "precious").unwrap();
            fs::hard_link(bench.outside().join("target"), place).unwrap();
        },
        |_, place| {
            fs::write(place, "longer than what comes").unwrap();
            fs::set_permissions(place, fs::Permissions::from_mode(0o400)).unwrap();
        },
        |_, place| mkfifoat(CWD, place, Mode::RWXU).unwrap(),
    ];
    for put in put {
        let bench = Bench::new().with("a", &[("dir/x", b"x")]);
        fs::create_dir(bench.workspace().join("dir")).unwrap();
        put(&bench, &bench.workspace().join("dir/x"));
        let outside = tree_of(&bench.outside());
        bench.lay().unwrap();
        assert_eq!(tree_of(&bench.workspace()), [("dir/x".to_owned(), 0o644, b"x".to_vec())]);
        assert_eq!(tree_of(&bench.outside()), outside);
    }
}

#[test]
fn a_directory_at_the_path_is_in_the_way_even_when_it_is_empty() {
    let bench = Bench::new().with("a", &[("dir/x", b"x")]);
    fs::create_dir_all(bench.workspace().join("dir/x")).unwrap();
    let refused = bench.refused();
    assert!(matches!(refused, OverlayError::InTheWay { found: Obstacle::Directory, .. }), "{refused}");
    assert_eq!(refused.to_string(), "`dir/x` cannot be laid: `dir/x` of the workspace is a directory");
}

#[test]
fn one_wrong_byte_or_a_short_pack_is_a_mismatch_and_leaves_no_such_file() {
    let large = vec![7; 1024 * 1024];
    let spoil: [fn(&mut Vec<u8>); 3] =
        [|pack| *pack.last_mut().unwrap() ^= 1, |pack| pack.truncate(pack.len() - 1), |pack| pack.clear()];
    for spoil in spoil {
        let bench = Bench::new().with("good", &[("a", b"a")]).with("bad", &[("x", &large), ("y", b"y")]);
        bench.spoil(1, |pack| {
            pack.truncate(large.len());
            spoil(pack);
        });
        let refused = bench.refused();
        let OverlayError::HashMismatch { path, owner } = &refused else { panic!("{refused}") };
        assert_eq!((path.as_str(), owner.to_string().as_str()), ("x", "bad"));
        assert_eq!(tree_of(&bench.workspace()), [("a".to_owned(), 0o644, b"a".to_vec())]);
    }
}

#[test]
fn of_many_faults_the_first_is_told_whoever_is_faster() {
    let names: Vec<String> = (0..500).map(|file| format!("dir{}/file{file:03}", file / 100)).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"x".as_slice())).collect();
    for wrong in [0, 123, 499] {
        let bench = Bench::new().with("a", &files);
        bench.spoil(0, |pack| pack[wrong..].fill(b'y'));
        let refused = bench.refused();
        let OverlayError::HashMismatch { path, .. } = &refused else { panic!("{refused}") };
        assert_eq!(path.as_str(), names[wrong]);
        let laid = tree_of(&bench.workspace());
        assert!(laid.len() >= wrong && laid.iter().all(|(_, _, content)| content == b"x"));
    }
}

#[test]
fn the_deepest_path_that_a_capability_may_have_is_laid() {
    let deepest = format!("{}x", "d/".repeat(511));
    let bench = Bench::new().with("a", &[(&deepest, b"x")]);
    bench.lay().unwrap();
    assert_eq!(tree_of(&bench.workspace()), [(deepest, 0o644, b"x".to_vec())]);
}

#[test]
fn the_loser_of_a_pack_need_not_be_right() {
    let bench = Bench::new().with("a", &[("x", b"old")]).with("b", &[("x", b"new")]);
    bench.spoil(0, |pack| pack.clear());
    bench.lay().unwrap();
    assert_eq!(tree_of(&bench.workspace()), [("x".to_owned(), 0o644, b"new".to_vec())]);
}

#[test]
fn files_that_cannot_be_merged_change_nothing() {
    let settings = ".claude/settings.json";
    let files: [&[u8]; 2] = [br#"{"a":"x"}"#, br#"{"a":["x"]}"#];
    let bench =
        Bench::new().with("a", &[(settings, files[0]), (".a", b"")]).with("b", &[(settings, files[1])]);
    let refused = bench.refused();
    assert!(matches!(refused, OverlayError::Conflict(Conflict::Types { .. })), "{refused}");
    assert_eq!(tree_of(&bench.workspace()), []);

    let bench = Bench::new().with("a", &[(settings, files[0])]).with("b", &[(settings, files[0])]);
    bench.spoil(1, |pack| *pack = br#"{"b":"x"}"#.to_vec());
    let refused = bench.refused();
    assert!(matches!(refused, OverlayError::HashMismatch { .. }), "parts are checked before they are merged");
    assert_eq!(tree_of(&bench.workspace()), []);
}

#[test]
fn a_workspace_that_is_not_there_is_no_conflict() {
    let bench = Bench::new().with("a", &[("x", b"x")]);
    fs::remove_dir(bench.workspace()).unwrap();
    assert!(matches!(bench.lay(), Err(OverlayError::Root(_))));
}

/// Prints how long laying takes beside writing the same files once. Run with `--nocapture`.
#[test]
fn a_thousand_files_and_how_long_they_take() {
    let content: Vec<u8> = (0..40 * 1024_u32).map(|place| (place * 31 % 251) as u8).collect();
    let names: Vec<String> =
        (0..1000).map(|file| format!("dir{:02}/sub{}/file{file}", file % 40, file % 7)).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), content.as_slice())).collect();
    let (mut laying, mut writing) = (Duration::MAX, Duration::MAX);
    // All are kept to the end: ext4 is slow to make files where others were just deleted.
    let benches = [(); 3].map(|()| Bench::new().with("large", &files));
    for bench in &benches {
        let start = Instant::now();
        let laid = bench.lay().unwrap();
        laying = laying.min(start.elapsed());
        assert_eq!(laid.files.len(), 1000);

        let start = Instant::now();
        for (name, content) in &files {
            let place = bench.outside().join(name);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, content).unwrap();
        }
        writing = writing.min(start.elapsed());
        assert_eq!(tree_of(&bench.workspace()), tree_of(&bench.outside()));
    }
    println!("1,000 files, 40 MiB: laid in {laying:?}; written once in {writing:?}");
}
