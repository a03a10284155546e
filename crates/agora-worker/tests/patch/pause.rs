//! A baseline that goes across pauses.

use std::fs;

use agora_worker::patch::{Baseline, CarriedError, Known, PatchError, Why};
use proptest::prelude::*;

use crate::support::{Patch, Tree, Work, applies, file, link, make, patch, program, put, read, tree};

fn carried(baseline: &Baseline, work: &Work) -> Vec<u8> {
    let mut out = Vec::new();
    baseline.carry(&work.root(), &mut out).unwrap();
    out
}

/// Puts the workspace of a dispatch back elsewhere, with the baseline of the thread.
fn resumed(thread: &Baseline, work: &Work) -> (Work, Baseline) {
    let carried = carried(thread, work);
    let next = Work::new(&read(&work.root()));
    let thread = next.baseline.resume(&mut &*carried).unwrap();
    (next, thread)
}

fn whole(thread: &Baseline, work: &Work) -> Patch {
    patch(thread, &work.root(), &[])
}

#[test]
fn the_thread_is_the_sum_of_its_dispatches() {
    let begin = tree([
        ("changed", file("1\n")),
        ("deleted", file("1\n")),
        ("back", file("1\n")),
        ("moved", program("#!moved\n")),
        ("kind", file("1\n")),
        ("same", file("1\n")),
        ("link", link("a")),
    ]);
    let first = Work::new(&begin);
    let root = first.root();
    make(
        &root,
        &tree([
            ("changed", file("2\n")),
            ("moved-once", program("#!moved\n")),
            ("kind", link("same")),
            ("same", file("1\n")),
            ("link", link("b")),
            ("added", file("2\n")),
            ("short-lived", file("2\n")),
        ]),
    );
    let (second, thread) = resumed(&first.baseline, &first);
    let after = tree([
        ("changed", file("3\n")),
        ("back", file("1\n")),
        ("moved-twice", program("#!moved\n")),
        ("kind", file("3\n")),
        ("same", program("1\n")),
        ("link", link("a")),
        ("added", file("3\n")),
    ]);
    make(&second.root(), &after);
    second.judged();
    let text = whole(&thread, &second);
    applies(&begin, &after, &text.text);
    let text = String::from_utf8(text.text).unwrap();
    assert!(text.contains("rename from moved\nrename to moved-twice\n"), "{text}");
    for untouched in ["back", "link", "short-lived", "moved-once"] {
        assert!(!text.contains(&format!("a/{untouched} ")), "{text}");
    }

    // And once more, without any work in between.
    let (third, thread) = resumed(&thread, &second);
    assert!(third.judged().text.is_empty());
    applies(&begin, &after, &whole(&thread, &third).text);
}

#[test]
fn only_what_changed_is_carried() {
    let large = vec![b'x'; 1 << 20];
    let work = Work::new(&tree([("large", file(&large)), ("small", file("1"))]));
    fs::write(work.root().join("large"), &large).unwrap();
    put(&work.root(), b"small", &file("2"));
    assert!(carried(&work.baseline, &work).len() < 200);
}

#[test]
fn what_is_ignored_at_the_pause_still_counts_if_it_counted_before() {
    let begin = tree([("kept", file("1\n")), ("edited", file("1\n"))]);
    let first = Work::new(&begin);
    put(&first.root(), b".gitignore", &file("kept\nedited\n"));
    put(&first.root(), b"edited", &file("2\n"));
    let (second, thread) = resumed(&first.baseline, &first);
    assert!(second.judged().text.is_empty());
    put(&second.root(), b"kept", &file("3\n"));
    let after =
        tree([("kept", file("3\n")), ("edited", file("2\n")), (".gitignore", file("kept\nedited\n"))]);
    applies(&begin, &after, &whole(&thread, &second).text);
}

#[test]
fn what_was_ignored_when_the_thread_began_stays_out() {
    let begin = tree([(".gitignore", file("dist\n")), ("dist/x", file("1"))]);
    let first = Work::new(&begin);
    put(&first.root(), b".gitignore", &file(""));
    let (second, thread) = resumed(&first.baseline, &first);
    let patch = whole(&thread, &second);
    applies(&begin, &tree([(".gitignore", file("")), ("dist/x", file("1"))]), &patch.text);
    assert_eq!(patch.summary.left_out[0].why, Why::IgnoredBefore);
}

#[test]
fn what_the_worker_lays_out_after_a_pause_is_nobodys_work() {
    let begin = tree([("mine", file("1\n"))]);
    let first = Work::new(&begin);
    put(&first.root(), b"mine", &file("2\n"));
    let carried = carried(&first.baseline, &first);
    let second = Work::new(&tree([("mine", file("2\n")), (".claude/new-skill", file("x"))]));
    let thread = second.baseline.resume(&mut &*carried).unwrap();
    let text = String::from_utf8(whole(&thread, &second).text).unwrap();
    assert!(text.contains("mine") && !text.contains("skill"), "{text}");
}

#[test]
fn what_is_not_a_carried_baseline_is_refused() {
    let work = Work::new(&tree([("a", file("1")), ("b", link("x"))]));
    make(&work.root(), &tree([("c", file("2"))]));
    let good = carried(&work.baseline, &work);
    let refused = |bytes: &[u8]| match work.baseline.resume(&mut &*bytes) {
        Err(PatchError::Carried { source }) => source,
        other => panic!("{other:?}"),
    };
    for len in 0..good.len() {
        assert!(matches!(refused(&good[..len]), CarriedError::Read { .. }), "{len}");
    }
    let head = &good[..12];
    let with = |record: &[u8]| refused(&[head, record, b"\0"].concat());
    for path in [&b"../x"[..], b"/x", b"a//b", b"x/", b".", b"", b"a\0b", b"x/.git/hooks"] {
        let record = [&b"\x01"[..], &(path.len() as u16).to_be_bytes(), path].concat();
        assert!(matches!(with(&record), CarriedError::Path), "{path:?}");
    }
    assert!(matches!(with(b"\x02\0\x01x\0\xff\xff\xff\xff\xff\xff\xff\xff"), CarriedError::TooLarge));
    assert!(matches!(with(b"\x02\0\x01x\x02\0\0\0\0\0\0\0\0"), CarriedError::Unknown));
    assert!(matches!(with(b"\x01\xff\xff"), CarriedError::TooLarge));
    assert!(matches!(with(b"\x09"), CarriedError::Unknown));
    assert!(matches!(refused(b"agora-carry\x02\0"), CarriedError::Unknown));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_do_harm(
        tail in prop::collection::vec(prop_oneof![3 => 0_u8..6, 1 => any::<u8>()], 0..200),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let current = Baseline::take(dir.path(), crate::support::spool(), &Known::default()).unwrap();
        let bytes = [&b"agora-carry\x01"[..], &tail].concat();
        if let Ok(thread) = current.resume(&mut &*bytes) {
            let mut out = Vec::new();
            thread.patch(dir.path(), &crate::support::redactor(&[]), &mut out).unwrap();
        }
    }
}

#[test]
fn an_empty_thread_goes_on_as_one() {
    let first = Work::new(&Tree::new());
    let (second, thread) = resumed(&first.baseline, &first);
    put(&second.root(), b"a", &file("1"));
    applies(&Tree::new(), &tree([("a", file("1"))]), &whole(&thread, &second).text);
}
