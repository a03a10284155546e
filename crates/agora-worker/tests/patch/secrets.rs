//! No secret gets into a patch, and what is shown still applies.

use agora_worker::patch::{LeftOut, Why};
use agora_worker::redact::MARK;
use proptest::prelude::*;

use crate::support::{Patch, Tree, Work, applies, file, link, make, redactor, tree};

const SECRET: &str = "hunter2-hunter2";

/// Changes `before` into `after`; the patch must hold no secret and give `shown`.
fn judged(before: &Tree, after: &Tree, shown: &Tree) -> Patch {
    let work = Work::new(before);
    make(&work.root(), after);
    let patch = work.patch(&[SECRET]);
    assert!(!redactor(&[SECRET]).holds(&patch.text), "{}", String::from_utf8_lossy(&patch.text));
    applies(before, shown, &patch.text);
    patch
}

fn left_out(path: &str) -> LeftOut {
    LeftOut { path: path.to_owned(), why: Why::Secret }
}

#[test]
fn new_text_is_hidden_and_listed() {
    let with = |value: &str| {
        tree([("new", file(format!("key = {value}\n"))), ("a", file(format!("1\n{value}\n2\n")))])
    };
    let patch = judged(&tree([("a", file("1\n2\n"))]), &with(SECRET), &with(MARK));
    assert_eq!(patch.summary.redacted_files, ["a", "new"]);
    assert_eq!(patch.summary.left_out, []);
}

#[test]
fn a_secret_that_is_removed_leaves_the_file_out() {
    let before = tree([("a", file(format!("1\n{SECRET}\n2\n"))), ("b", file(SECRET)), ("c", file("x\n"))]);
    let shown = tree([("a", file(format!("1\n{SECRET}\n2\n"))), ("b", file(SECRET)), ("c", file("y\n"))]);
    let patch = judged(&before, &tree([("a", file("1\n2\n")), ("c", file("y\n"))]), &shown);
    assert_eq!(patch.summary.redacted_files, ["a", "b"]);
    assert_eq!(patch.summary.left_out, [left_out("a"), left_out("b")]);
}

#[test]
fn a_secret_nearby_leaves_the_file_out_and_one_far_away_does_not() {
    let text = |near: &str, far: &str| format!("{SECRET}\n1\n{near}\n{}{far}\n", "line\n".repeat(20));
    let before = tree([("near", file(text("x", "y"))), ("far", file(text("x", "y")))]);
    let after = tree([("near", file(text("changed", "y"))), ("far", file(text("x", "changed")))]);
    let shown = tree([("near", file(text("x", "y"))), ("far", file(text("x", "changed")))]);
    let patch = judged(&before, &after, &shown);
    assert_eq!(patch.summary.left_out, [left_out("near")]);
    assert_eq!(patch.summary.redacted_files, ["near"]);
}

#[test]
fn a_secret_that_comes_beside_one_that_stays_is_hidden_alone() {
    let text = |last: &str| format!("{SECRET}\n{}{last}\n", "line\n".repeat(20));
    let patch = judged(
        &tree([("a", file(text("end")))]),
        &tree([("a", file(text(&format!("more {SECRET}"))))]),
        &tree([("a", file(text(&format!("more {MARK}"))))]),
    );
    assert_eq!((patch.summary.redacted_files, patch.summary.left_out), (vec!["a".to_owned()], vec![]));
}

#[test]
fn nothing_of_a_secret_of_several_lines_is_shown() {
    let key = "-----BEGIN KEY-----\nabcdefgh\nijklmnop\nqrstuvwx\nyz012345\n-----END KEY-----\n";
    let work = Work::new(&tree([("old", file(format!("{key}tail\n"))), ("half", file(&key[..40]))]));
    make(
        &work.root(),
        &tree([
            ("old", file(format!("{key}other tail\n"))),
            ("half", file(key)),
            ("new", file(format!("a\n{key}b\n"))),
        ]),
    );
    let patch = work.patch(&[key]);
    let text = String::from_utf8(patch.text).unwrap();
    assert!(!text.contains("yz012345") && !text.contains("END KEY"), "{text}");
    assert!(text.contains(&format!("+a\n+{MARK}b\n")), "{text}");
    assert_eq!(patch.summary.left_out, [left_out("old")]);
    assert_eq!(patch.summary.redacted_files, ["half", "new", "old"]);
}

#[test]
fn binary_files_links_and_names_with_secrets_are_left_out() {
    let before = tree([("bin", file(b"\0old"))]);
    let name = format!("d/{SECRET}/x");
    let after = Tree::from([
        (b"bin".to_vec(), file(format!("\0{SECRET}"))),
        (b"link".to_vec(), link(SECRET)),
        (name.into_bytes(), file("content")),
        (b"z".to_vec(), file("fine\n")),
    ]);
    let shown = tree([("bin", file(b"\0old")), ("z", file("fine\n"))]);
    let patch = judged(&before, &after, &shown);
    let hidden = format!("d/{MARK}/x");
    assert_eq!(patch.summary.left_out, [left_out("bin"), left_out(&hidden), left_out("link")]);
    assert_eq!(patch.summary.redacted_files, ["bin", &hidden, "link"]);
}

#[test]
fn what_needs_a_path_that_stays_is_left_out_with_it() {
    let before = tree([("a/x", file(SECRET)), ("b", file(SECRET)), ("c", file(SECRET)), ("d", file("1"))]);
    let after = tree([("a", file("new")), ("b/y", file("new")), ("c", link("d")), ("d", file("2"))]);
    let mut shown = before.clone();
    shown.insert(b"d".to_vec(), file("2"));
    let patch = judged(&before, &after, &shown);
    let whys: Vec<_> = patch.summary.left_out.iter().map(|one| (&*one.path, one.why)).collect();
    let expected = [
        ("a", Why::InTheWay),
        ("a/x", Why::Secret),
        ("b", Why::Secret),
        ("b/y", Why::InTheWay),
        ("c", Why::Secret),
    ];
    assert_eq!(whys, expected);
}

#[test]
fn a_file_with_a_secret_can_move_because_nothing_of_it_is_shown() {
    let patch = judged(
        &tree([("a", file(format!("{SECRET}\n"))), ("m", file(SECRET))]),
        &tree([("b", file(format!("{SECRET}\n"))), ("m", crate::support::program(SECRET))]),
        &tree([("b", file(format!("{SECRET}\n"))), ("m", crate::support::program(SECRET))]),
    );
    assert_eq!(patch.summary.redacted_files, [""; 0]);
}

#[test]
fn a_file_stays_if_its_new_place_is_not_in_the_patch_as_it_is() {
    let text = "one\ntwo\nthree\nfour\n";
    let with = |more: &str| file(format!("{text}{more}"));
    let secret = || with(SECRET);
    let name = format!("d/{SECRET}");
    let old = || ("old", file(text));
    // What was, what is, what of it the patch gives, and which files stay.
    type Case<'a> = (Tree, Tree, Tree, &'a [&'a str]);
    let cases: [Case<'_>; 9] = [
        (tree([old()]), tree([("new", secret())]), tree([old(), ("new", with(MARK))]), &["old"]),
        (tree([old()]), tree([(&name, file(text))]), tree([old()]), &["old"]),
        (
            tree([("old", file(b"\0one binary line"))]),
            tree([("new", file(format!("\0one binary line, {SECRET}")))]),
            tree([("old", file(b"\0one binary line"))]),
            &["old"],
        ),
        // Over another one.
        (
            tree([old(), ("there", file("x\n"))]),
            tree([("there", secret())]),
            tree([old(), ("there", with(MARK))]),
            &["old"],
        ),
        // One that was like it before is not where it went.
        (
            tree([old(), ("there", with("x"))]),
            tree([("there", secret())]),
            tree([("there", with(MARK))]),
            &[],
        ),
        // Where it makes room for itself, and for others.
        (tree([old()]), tree([("old/x", secret()), ("old/y", file("y"))]), tree([old()]), &["old"]),
        (tree([("d/x", file(text))]), tree([("d", secret())]), tree([("d/x", file(text))]), &["d/x"]),
        // One goes and is no more, one is moved and shown, and one is not.
        (
            tree([("gone", file("gone\n")), old(), ("shown", file("shown\n"))]),
            tree([("new", secret()), ("there", file("shown\n"))]),
            tree([old(), ("new", with(MARK)), ("there", file("shown\n"))]),
            &["old"],
        ),
        (
            tree([("l", link("a long way"))]),
            tree([(&name, link("a long way"))]),
            tree([("l", link("a long way"))]),
            &["l"],
        ),
    ];
    for (before, after, shown, stay) in &cases {
        let patch = judged(before, after, shown);
        let stays = patch.summary.left_out.iter().filter(|one| one.why == Why::Moved);
        assert_eq!(stays.map(|one| &*one.path).collect::<Vec<_>>(), *stay, "{after:?}");
    }
}

#[test]
fn a_file_that_differs_by_nothing_but_a_secret_is_left_out() {
    let before = tree([("a", file(format!("{MARK}\n")))]);
    let patch = judged(&before, &tree([("a", file(format!("{SECRET}\n")))]), &before);
    assert_eq!(patch.summary.left_out, [left_out("a")]);
}

#[test]
fn a_large_text_is_hidden_too() {
    let text = |value: &str| format!("{}{value}", "\n".repeat(600_000));
    judged(&Tree::new(), &tree([("a", file(text(SECRET)))]), &tree([("a", file(text(MARK)))]));
    let before = tree([("a", file(text(SECRET)))]);
    let patch = judged(&before, &tree([("a", file(text("gone")))]), &before);
    assert_eq!(patch.summary.left_out, [left_out("a")]);
}

/// Texts of few lines, some of which hold a secret.
fn texts() -> impl Strategy<Value = Tree> {
    let line = prop::sample::select(vec![
        "a\n",
        "b\n",
        "c\n",
        "d\n",
        "hunter2-hunter2\n",
        "x hunter2-hunter2 y\n",
        "aHVudGVyMi1odW50ZXIy\n",
    ]);
    let text = prop::collection::vec(line, 0..24).prop_map(|lines| file(lines.concat()));
    let name = prop::sample::select(vec!["a", "b", "d/e", "d"]);
    prop::collection::vec((name, text), 1..4).prop_map(|items| {
        let mut tree = Tree::new();
        for (name, item) in items {
            let clash = |other: &Vec<u8>| other.starts_with(b"d") && name.starts_with('d');
            tree.retain(|other, _| !clash(other));
            tree.insert(name.as_bytes().to_vec(), item);
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whatever is not listed comes out as it is; no secret is anywhere.
    #[test]
    fn no_secret_is_shown_and_the_rest_is_right(before in texts(), after in texts()) {
        let work = Work::new(&before);
        make(&work.root(), &after);
        let patch = work.patch(&[SECRET]);
        prop_assert!(!redactor(&[SECRET]).holds(&patch.text));
        let listed = |path: &Vec<u8>| patch.summary.redacted_files.iter().any(|listed| listed.as_bytes() == &**path)
            || patch.summary.left_out.iter().any(|one| one.path.as_bytes() == &**path);
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        make(&copy, &before);
        if !patch.text.is_empty() {
            std::fs::write(dir.path().join("patch"), &patch.text).unwrap();
            prop_assert_eq!(crate::support::git(&copy, &["apply", "../patch"]), Ok(String::new()));
        }
        let result = crate::support::read(&copy);
        for path in before.keys().chain(after.keys()).filter(|path| !listed(path)) {
            prop_assert_eq!(result.get(path), after.get(path));
        }
    }
}
