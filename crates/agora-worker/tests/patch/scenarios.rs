//! One kind of change after the other.

use std::fs;

use crate::support::{Patch, Tree, Work, file, git, link, make, program, read, tree};

fn judged(before: Tree, after: Tree) -> Patch {
    let work = Work::new(&before);
    make(&work.root(), &after);
    let patch = work.judged();
    assert_eq!(patch.summary.left_out, []);
    patch
}

fn text(patch: &Patch) -> &str {
    str::from_utf8(&patch.text).unwrap()
}

#[test]
fn nothing_changed_is_no_patch() {
    let all = tree([("a", file("x")), ("b/c", program("y")), ("l", link("a"))]);
    assert!(judged(all.clone(), all).text.is_empty());
}

#[test]
fn a_file_that_was_only_touched_is_no_patch() {
    let work = Work::new(&tree([("a", file("x\n"))]));
    fs::write(work.root().join("a"), "x\n").unwrap();
    assert!(work.judged().text.is_empty());
}

#[test]
fn a_change_is_written_as_git_writes_it() {
    let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
    let new = old.replace("\n10\n", "\nten\n").replace("\n20\n", "\n20");
    let patch = judged(tree([("d/f", file(&old))]), tree([("d/f", file(&new))]));
    let expected = "\
diff --git a/d/f b/d/f
index 0ff3bbb9c8bba2291654cd64067fa417ff54c508..f2b6fc7a1a94e1ab5dcbdb8fba9ebab4f8a5dd62 100644
--- a/d/f
+++ b/d/f
@@ -7,7 +7,7 @@
 7
 8
 9
-10
+ten
 11
 12
 13
@@ -17,4 +17,4 @@
 17
 18
 19
-20
+20
\\ No newline at end of file
";
    let without_ids = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("index ")).map(str::to_owned).collect()
    };
    assert_eq!(without_ids(text(&patch)), without_ids(expected));
    assert_eq!((patch.summary.files, patch.summary.insertions, patch.summary.deletions), (1, 2, 2));
}

#[test]
fn ids_are_those_of_git() {
    let work = Work::new(&tree([("a", file("old\n"))]));
    make(&work.root(), &tree([("a", file("new\n"))]));
    let id = |name: &str| git(&work.root(), &["hash-object", name]).unwrap().trim().to_owned();
    let new = id("a");
    let patch = work.judged();
    make(&work.root(), &tree([("a", file("old\n"))]));
    assert!(text(&patch).contains(&format!("index {}..{new} 100644\n", id("a"))));
}

#[test]
fn files_come_and_go() {
    let patch = judged(
        tree([("gone", file("1\n2\n")), ("empty", file("")), ("d/e/f", file("x"))]),
        tree([("new/deep/file", program("#!/bin/sh\n")), ("none", file(""))]),
    );
    assert_eq!((patch.summary.files, patch.summary.insertions, patch.summary.deletions), (5, 1, 3));
}

#[test]
fn modes_change_alone_and_with_content() {
    let patch = judged(
        tree([("a", file("x\n")), ("b", program("y\n"))]),
        tree([("a", program("x\n")), ("b", file("z\n"))]),
    );
    assert!(text(&patch).contains("old mode 100644\nnew mode 100755\n"));
}

#[test]
fn links_are_kept_as_links_and_never_followed() {
    let work =
        Work::new(&tree([("to", link("/etc/passwd")), ("same", link("nowhere")), ("other", link("x"))]));
    make(
        &work.root(),
        &tree([
            ("to", link("/etc/group")),
            ("same", link("nowhere")),
            ("new", link("a\nb")),
            ("f/up", link("..")),
        ]),
    );
    let patch = work.judged();
    assert!(!text(&patch).contains("root:") && !text(&patch).contains("nowhere"));
    assert_eq!(patch.summary.files, 4);
}

#[test]
fn a_path_changes_what_it_is() {
    judged(
        tree([
            ("a", file("x\n")),
            ("b", link("x")),
            ("c/d", file("1\n")),
            ("e", file("2")),
            ("g", link("c")),
        ]),
        tree([
            ("a", link("x")),
            ("b", file("x\n")),
            ("c", file("1 and more\n")),
            ("e/f", file("3")),
            ("g/h", file("4")),
        ]),
    );
}

#[test]
fn a_file_that_moved_is_a_rename_and_nothing_else() {
    let long = "line\n".repeat(1000);
    let patch = judged(
        tree([("src/a.rs", file(&long)), ("src/b.rs", file("b")), ("bin/run", program("\0\x01\x02"))]),
        tree([("lib/a.rs", program(&long)), ("lib/b.rs", file("b")), ("bin/go", program("\0\x01\x02"))]),
    );
    assert_eq!(text(&patch).matches("rename from ").count(), 3);
    assert!(text(&patch).contains("rename from src/a.rs\nrename to lib/a.rs\n"));
    assert!(patch.text.len() < 1000);
    assert_eq!((patch.summary.files, patch.summary.insertions, patch.summary.deletions), (3, 0, 0));
}

#[test]
fn renames_and_directories_that_become_files_go_together() {
    judged(
        tree([
            ("a/x", file("1")),
            ("b", file("2")),
            ("c", file("3")),
            ("s", file("swap")),
            ("t", file("pws")),
        ]),
        tree([
            ("a", file("1")),
            ("b/y", file("2")),
            ("d", file("3")),
            ("s", file("pws")),
            ("t", file("swap")),
        ]),
    );
    // A file goes out of a directory, and another takes the directory's name.
    judged(
        tree([("a/x", file("one")), ("c", file("other"))]),
        tree([("b", file("one")), ("a", file("other"))]),
    );
}

#[test]
fn one_of_several_copies_moved() {
    judged(
        tree([("a/same", file("same")), ("b/same", file("same")), ("c/other", file("same"))]),
        tree([("c/other", file("same")), ("z/same", file("same")), ("y", file("same")), ("x", file("same"))]),
    );
}

#[test]
fn binary_content_in_all_ways() {
    let noise = |seed: u32, len: u32| -> Vec<u8> {
        (0..len).map(|at| ((at ^ seed).wrapping_mul(2_654_435_761) >> 11) as u8).collect()
    };
    judged(
        tree([("change", file(noise(1, 9000))), ("gone", file(noise(2, 53))), ("text", file("was text\n"))]),
        tree([("change", file(noise(3, 9001))), ("new", program(noise(4, 104))), ("text", file(b"\0"))]),
    );
    // Every length of the last line, and a content that compresses well.
    let many = (1..=120).map(|len| (format!("f{len}").into_bytes(), file(noise(len, len)))).collect();
    judged(Tree::new(), many);
    judged(tree([("zeros", file(vec![0; 3_000_000]))]), tree([("zeros", file(vec![0; 3_000_001]))]));
}

#[test]
fn odd_lines_survive() {
    let odd = [
        "a\r\nb\r\n",
        "a\rb",
        "\n\n\n",
        "no end",
        "\u{feff}bom\n",
        "\\ No newline\n",
        "--- a/x\n+++ b/x\n",
        "@@ -1 +1 @@\n",
    ];
    for (at, old) in odd.iter().enumerate() {
        let new = odd[(at + 1) % odd.len()];
        judged(tree([("f", file(old))]), tree([("f", file(new))]));
        judged(
            tree([("f", file(old))]),
            tree([("f", file([old.as_bytes(), new.as_bytes(), b"\xff\xfe\n"].concat()))]),
        );
    }
}

#[test]
fn odd_names_survive() {
    let names = [
        " ",
        "a b",
        "a ",
        " a",
        "\"",
        "a\"b",
        "back\\slash",
        "tab\there",
        "new\nline",
        "\x01",
        "ä",
        "日本",
        "a c/d e",
        "a/dev/null",
        "x b/x",
        "-",
        "--",
        "{a,b}",
        "*",
        "#",
        "'",
        "a\tb c",
        "\u{7f}",
        "\u{85}",
    ];
    let with = |content: &str| -> Tree {
        names.iter().map(|name| (name.as_bytes().to_vec(), file(content))).collect()
    };
    judged(Tree::new(), with("new\n"));
    judged(Tree::new(), with(""));
    judged(with("old\n"), with("new\n"));
    judged(with("\0old"), with("\0new"));
    judged(with("old\n"), Tree::new());
    let raw = Tree::from([(b"\xff\xfe".to_vec(), file("x\n")), (b"d\x80/\xc3".to_vec(), link("\u{80}"))]);
    judged(Tree::new(), raw.clone());
    let moved = names.iter().map(|name| (format!("to/{name}").into_bytes(), file(name))).collect();
    let unmoved = names.iter().map(|name| (name.as_bytes().to_vec(), file(name))).collect();
    judged(unmoved, moved);
    judged(raw, Tree::new());
}

#[test]
fn a_text_with_too_many_lines_is_written_as_one_piece() {
    let many = "\n".repeat(600_000);
    let patch = judged(tree([("many", file(&many))]), tree([("many", file(format!("{many}x")))]));
    assert!(text(&patch).contains("GIT binary patch"));
}

#[test]
fn a_nested_repository_is_files_without_its_git() {
    let work = Work::prepared(|root| {
        make(root, &tree([("top", file("1\n")), ("sub/file", file("2\n")), ("sub/deep/more", file("3\n"))]));
        git(root, &["init", "-q"]).unwrap();
        git(&root.join("sub"), &["init", "-q"]).unwrap();
        git(&root.join("sub"), &["add", "."]).unwrap();
        git(&root.join("sub"), &["commit", "-qm", "one"]).unwrap();
    });
    make(&work.root(), &tree([("top", file("1\n")), ("sub/file", file("two\n")), ("sub/new", file("4\n"))]));
    git(&work.root().join("sub"), &["commit", "-qam", "two"]).unwrap();
    git(&work.root(), &["init", "-q", "another"]).unwrap();
    fs::write(work.root().join("another/file"), "5\n").unwrap();
    let patch = work.judged();
    assert!(!text(&patch).contains(".git"));
    assert_eq!(patch.summary.files, 4);
}

#[test]
fn it_applies_to_a_commit_three_ways() {
    let before = tree([
        ("a", file("1\n2\n3\n")),
        ("bin", file(b"\0\x01")),
        ("gone", file("x\n")),
        ("old", file("moved")),
    ]);
    let work = Work::new(&before);
    make(
        &work.root(),
        &tree([
            ("a", file("1\ntwo\n3\n")),
            ("bin", file(b"\0\x02")),
            ("new", program("y\n")),
            ("now", file("moved")),
        ]),
    );
    let patch = work.judged();
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("repository");
    fs::create_dir(&copy).unwrap();
    make(&copy, &before);
    for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-qm", "base"]] {
        git(&copy, arguments).unwrap();
    }
    fs::write(dir.path().join("patch"), &patch.text).unwrap();
    git(&copy, &["apply", "--3way", "../patch"]).unwrap();
    assert_eq!(read(&copy), read(&work.root()));
}

#[test]
fn agoras_own_files_are_no_part_of_it() {
    let work = Work::new(&tree([("a", file("1")), (".agora/resume.json", file("{}"))]));
    make(&work.root(), &tree([("a", file("1")), ("sub/.agora/x", file("2"))]));
    fs::write(work.root().join(".agora/needs_input.json"), "{}").unwrap();
    let patch = work.judged();
    assert_eq!(patch.summary.files, 1);
}
