//! What git ignores is no part of a patch; what it tracks is.

use std::fs;
use std::path::Path;

use agora_worker::patch::Why;
use proptest::prelude::*;

use crate::support::{Patch, Tree, Work, applies, file, git, make, put, read, tree};

/// Judges the patch by what it should give, without what is ignored.
fn gives(work: &Work, shown: &Tree) -> Patch {
    let patch = work.patch(&[]);
    applies(&work.before, shown, &patch.text);
    patch
}

fn add(root: &Path, items: &Tree) {
    for (path, item) in items {
        put(root, path, item);
    }
}

/// What there was before, and then this.
fn and<const N: usize>(work: &Work, items: [(&str, crate::support::Item); N]) -> Tree {
    work.before.clone().into_iter().chain(tree(items)).collect()
}

#[test]
fn rules_of_every_directory_count_without_a_repository() {
    let work = Work::new(&tree([
        (".gitignore", file("# comment\r\n*.log\nbuild/\n/top\n!keep.log\n\n\\#odd\ntrail \n")),
        ("sub/.gitignore", file("!deep.log\n/only\nsecret*\n")),
        ("build/out", file("1")),
        ("x.log", file("1")),
    ]));
    let counted = tree([
        ("keep.log", file("1")),
        ("sub/deep.log", file("1")),
        ("sub/top", file("1")),
        ("only", file("1")),
        ("sub/sub/only", file("1")),
        ("secret", file("1")),
        ("sub/buildx", file("1")),
    ]);
    add(&work.root(), &counted);
    add(
        &work.root(),
        &tree([
            ("build/more", file("2")),
            ("sub/build/x", file("2")),
            ("x.log", file("22")),
            ("sub/y.log", file("2")),
            ("top", file("2")),
            ("sub/only", file("2")),
            ("sub/secrets/x", file("2")),
            ("#odd", file("2")),
            ("trail", file("2")),
        ]),
    );
    let shown: Tree = work.before.clone().into_iter().chain(counted).collect();
    let patch = gives(&work, &shown);
    assert_eq!(patch.summary.left_out, []);
    let ignored: Vec<&[u8]> = work.baseline.ignored().collect();
    assert_eq!(ignored, [&b"build"[..], b"x.log"]);
}

#[test]
fn what_counted_at_the_start_counts_whatever_the_agent_ignores_later() {
    let work = Work::new(&tree([("src/a", file("1\n")), ("src/b", file("1\n")), ("src/c", file("1\n"))]));
    fs::remove_file(work.root().join("src/b")).unwrap();
    add(
        &work.root(),
        &tree([
            (".gitignore", file("src/\n*.tmp\n")),
            ("src/a", file("2\n")),
            ("src/new", file("3\n")),
            ("x.tmp", file("4")),
        ]),
    );
    let mut shown = and(&work, [(".gitignore", file("src/\n*.tmp\n")), ("src/a", file("2\n"))]);
    shown.remove(&b"src/b"[..]);
    gives(&work, &shown);
}

#[test]
fn what_was_ignored_at_the_start_stays_out_and_is_named() {
    let work = Work::new(&tree([
        (".gitignore", file("dist/\n.env\nnew/\n")),
        ("dist/a", file("1")),
        ("dist/b", file("1")),
        (".env", file("1")),
    ]));
    add(&work.root(), &tree([(".gitignore", file("")), ("dist/c", file("2")), ("new/x", file("2"))]));
    let patch = gives(&work, &and(&work, [(".gitignore", file("")), ("new/x", file("2"))]));
    let left_out: Vec<_> = patch.summary.left_out.iter().map(|one| (&*one.path, one.why)).collect();
    assert_eq!(left_out, [(".env", Why::IgnoredBefore), ("dist", Why::IgnoredBefore)]);
}

/// A repository with an index of each version that git writes, also of one that stands on another file.
fn tracked(version: &str, nested: &str, split: bool) {
    let work = Work::prepared(|root| {
        let dir = root.join(nested);
        fs::create_dir_all(&dir).unwrap();
        make(
            &dir,
            &tree([
                ("dist/tracked", file("1\n")),
                ("dist/tracked-too", file("1\n")),
                ("dist/not", file("1\n")),
                ("a.log", file("1\n")),
            ]),
        );
        git(&dir, &["init", "-q"]).unwrap();
        git(&dir, &["update-index", "--index-version", version]).unwrap();
        git(&dir, &["add", "dist/tracked", "dist/tracked-too", "a.log"]).unwrap();
        if split {
            git(&dir, &["config", "splitIndex.maxPercentChange", "100"]).unwrap();
            git(&dir, &["update-index", "--split-index"]).unwrap();
        }
        fs::write(dir.join(".gitignore"), "dist/\n*.log\n").unwrap();
        fs::write(dir.join(".git/info/exclude"), "excluded\n").unwrap();
    });
    let dir = work.root().join(nested);
    add(
        &dir,
        &tree([
            ("dist/tracked", file("2\n")),
            ("dist/not", file("2\n")),
            ("dist/new", file("2\n")),
            ("dist/forced", file("2\n")),
            ("a.log", file("2\n")),
            ("b.log", file("2\n")),
            ("c.log", file("2\n")),
            ("excluded", file("2\n")),
        ]),
    );
    fs::remove_file(dir.join("dist/tracked-too")).unwrap();
    git(&dir, &["add", "-f", "dist/forced", "c.log"]).unwrap();
    let prefix = if nested.is_empty() { String::new() } else { format!("{nested}/") };
    let mut shown = work.before.clone();
    for name in ["dist/tracked", "dist/forced", "a.log", "c.log"] {
        shown.insert(format!("{prefix}{name}").into_bytes(), file("2\n"));
    }
    shown.remove(format!("{prefix}dist/tracked-too").as_bytes());
    gives(&work, &shown);
}

#[test]
fn what_git_tracks_counts_although_it_is_ignored() {
    for version in ["2", "3", "4"] {
        for split in [false, true] {
            tracked(version, "", split);
        }
    }
    tracked("2", "nested/repository", false);
    tracked("4", "nested/repository", true);
}

#[test]
fn a_git_file_is_followed_below_the_root_and_nowhere_else() {
    let outside = tempfile::tempdir().unwrap();
    let outside_path = outside.path().join("git");
    let prepare = |target: &str, real: &Path| {
        let (target, real) = (target.to_owned(), real.to_owned());
        Work::prepared(move |root| {
            let real = root.join(real);
            fs::create_dir_all(real.parent().unwrap()).unwrap();
            make(root, &tree([(".gitignore", file("*.log\n")), ("work/a.log", file("1\n"))]));
            git(root, &["init", "-q", "--separate-git-dir", real.to_str().unwrap(), "work"]).unwrap();
            git(&root.join("work"), &["add", "-f", "a.log"]).unwrap();
            fs::write(root.join("work/.git"), format!("gitdir: {target}\n")).unwrap();
        })
    };
    let inside = prepare("../store/.git", Path::new("store/.git"));
    let beyond = prepare(outside_path.to_str().unwrap(), &outside_path);
    for (work, counts) in [(inside, true), (beyond, false)] {
        add(&work.root(), &tree([("work/a.log", file("2\n"))]));
        assert_eq!(work.patch(&[]).summary.files, u64::from(counts));
    }
}

#[test]
fn what_the_agent_writes_as_an_index_does_no_harm() {
    let work = Work::new(&tree([(".gitignore", file("*.log\n")), ("a", file("1"))]));
    let indexes = [&b""[..], b"DIRC", b"DIRC\0\0\0\x02\xff\xff\xff\xff", &[0xff; 4096]];
    for index in indexes {
        fs::create_dir_all(work.root().join(".git")).unwrap();
        fs::write(work.root().join(".git/index"), index).unwrap();
        add(&work.root(), &tree([("x.log", file("1")), ("a", file("2"))]));
        assert_eq!(work.patch(&[]).summary.files, 1);
        make(&work.root(), &work.before);
    }
    assert_eq!(read(&work.root()), work.before);
}

/// Lines of a `.gitignore` from pieces that mean something.
fn rules() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "ab",
        "/",
        "*",
        "**",
        "**/",
        "/**",
        "?",
        "[ab]",
        "[!a]",
        "[^-b]",
        "[a-b]",
        "[]a]",
        "[[:alpha:]]",
        "[",
        "]",
        "{a,b}",
        "\\",
        "\\*",
        " ",
        "!",
        "#",
        ".x",
        "*.x",
        "/*",
        "***",
    ]);
    let line = prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat());
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// What git would list as new is what the patch has.
    #[test]
    fn the_rules_mean_what_they_mean_to_git(top in rules(), inner in rules()) {
        let work = Work::new(&Tree::new());
        git(&work.root(), &["init", "-q"]).unwrap();
        for one in ["a", "b", "ab", "a.x", "[", "*", "{a,b}", "-"] {
            for two in ["a", "b.x", "ab/a", "ab/b/a.x", "b a", "\\", "#", "!"] {
                put(&work.root(), format!("{one}/{two}").as_bytes(), &file("x\n"));
            }
            put(&work.root(), format!("{one}.f").as_bytes(), &file("x\n"));
        }
        put(&work.root(), b".gitignore", &file(top));
        put(&work.root(), b"a/.gitignore", &file(inner));
        let listed = git(&work.root(), &["ls-files", "-z", "--others", "--exclude-standard"]).unwrap();
        let expected: Vec<&str> = listed.split_terminator('\0').collect();

        let patch = work.patch(&[]);
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(copy.path().join("copy")).unwrap();
        fs::write(copy.path().join("patch"), &patch.text).unwrap();
        if !patch.text.is_empty() {
            git(&copy.path().join("copy"), &["apply", "../patch"]).unwrap();
        }
        let shown = read(&copy.path().join("copy"));
        let shown: Vec<&str> = shown.keys().map(|path| str::from_utf8(path).unwrap()).collect();
        prop_assert_eq!(shown, expected);
    }
}
