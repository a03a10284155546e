//! Nothing that an agent leaves behind stops, blocks or fools a patch.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use agora_worker::patch::{LeftOut, Why};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Tree, Work, applies, file, link, make, put, tree};

fn left_out(work: &Work) -> Vec<(String, Why)> {
    work.patch(&[]).summary.left_out.into_iter().map(|LeftOut { path, why }| (path, why)).collect()
}

#[test]
fn special_files_are_passed_over_and_named() {
    let before = tree([("a", file("1")), ("was", file("x"))]);
    let work = Work::new(&before);
    let root = work.root();
    fs::remove_file(root.join("was")).unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    mknodat(CWD, root.join("was"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    mknodat(CWD, root.join(".gitignore"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(root.join("socket")).unwrap();
    let patch = work.patch(&[]);
    applies(&before, &tree([("a", file("1"))]), &patch.text);
    let special = |path: &str| (path.to_owned(), Why::Special);
    assert_eq!(left_out(&work), [special(".gitignore"), special("fifo"), special("socket"), special("was")]);
}

#[test]
fn a_special_file_that_was_there_is_in_the_way() {
    let work = Work::prepared(|root| mknodat(CWD, root.join("x"), FileType::Fifo, Mode::RWXU, 0).unwrap());
    fs::remove_file(work.root().join("x")).unwrap();
    put(&work.root(), b"x", &file("1"));
    assert_eq!(left_out(&work), [("x".to_owned(), Why::InTheWay)]);
}

#[test]
fn links_lead_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "not for you").unwrap();
    let before = tree([("d/file", file("mine\n")), ("e/file", file("mine\n"))]);
    let work = Work::new(&before);
    fs::remove_dir_all(work.root().join("d")).unwrap();
    symlink(outside.path(), work.root().join("d")).unwrap();
    symlink(".", work.root().join("loop")).unwrap();
    symlink(outside.path().join("file"), work.root().join(".gitignore")).unwrap();
    symlink(outside.path(), work.root().join(".git")).unwrap();
    let patch = work.judged();
    assert!(!String::from_utf8(patch.text).unwrap().contains("not for you"));
    assert_eq!(patch.summary.files, 4);
}

#[test]
fn names_that_git_refuses_do_not_spoil_the_rest() {
    let before = tree([("fine", file("1\n"))]);
    let work = Work::new(&before);
    let refused = [".GIT/config", "a/.git./x", "git~1", "b/.g\u{200c}it"];
    for name in refused {
        put(&work.root(), name.as_bytes(), &file("x"));
    }
    put(&work.root(), b".gitmodules", &link("x"));
    put(&work.root(), b"fine", &file("2\n"));
    let patch = work.patch(&[]);
    applies(&before, &tree([("fine", file("2\n"))]), &patch.text);
    assert_eq!(left_out(&work).len(), 5);
    assert!(left_out(&work).iter().all(|(_, why)| *why == Why::Refused));
}

#[test]
fn a_file_that_is_too_large_is_left_out_on_either_side() {
    let large = |path: std::path::PathBuf| File::create(path).unwrap().set_len((64 << 20) + 1).unwrap();
    let work = Work::prepared(|root| large(root.join("was")));
    fs::write(work.root().join("was"), "small").unwrap();
    large(work.root().join("is"));
    put(&work.root(), b"z", &file("1"));
    let too_large = |path: &str| (path.to_owned(), Why::TooLarge);
    assert_eq!(left_out(&work), [too_large("is"), too_large("was")]);
    assert_eq!(work.patch(&[]).summary.files, 1);
    // One that grew where it was moved to is not lost.
    let work = Work::new(&tree([("grows", file("1\n2\n")), ("small", file("3\n"))]));
    fs::rename(work.root().join("grows"), work.root().join("is")).unwrap();
    fs::OpenOptions::new().write(true).open(work.root().join("is")).unwrap().set_len((64 << 20) + 1).unwrap();
    fs::remove_file(work.root().join("small")).unwrap();
    assert_eq!(left_out(&work), [("grows".to_owned(), Why::Moved), too_large("is")]);
    assert_eq!(work.patch(&[]).summary.files, 1);
}

#[test]
fn a_path_deeper_than_any_program_opens_ends_the_walk_there() {
    let mut work = Work::new(&tree([("a", file("1"))]));
    // A test cannot read it either, to compare.
    work.frozen = None;
    let name = "d".repeat(200);
    let mut here = File::open(work.root()).unwrap();
    for _ in 0..40 {
        rustix::fs::mkdirat(&here, &name, Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, &name, rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap().into();
    }
    put(&work.root(), b"z", &file("2"));
    let patch = work.patch(&[]);
    assert_eq!(patch.summary.files, 1);
    assert!(matches!(&patch.summary.left_out[..], [LeftOut { why: Why::TooLong, .. }]));
    // Deeper than a path can say, so it is taken apart from the inside.
    let mut path = std::path::PathBuf::from("work");
    path.push(&name);
    let _ = std::process::Command::new("rm").arg("-rf").arg(path).current_dir(work.dir.path()).status();
}

#[test]
fn many_new_files_are_all_there() {
    let work = Work::new(&Tree::new());
    let many: Tree =
        (0..3000).map(|at| (format!("d{}/f{at}", at % 50).into_bytes(), file(format!("{at}\n")))).collect();
    make(&work.root(), &many);
    assert_eq!(work.judged().summary.files, 3000);
}

#[test]
fn a_link_that_leads_to_itself_is_not_in_the_way_of_the_rest() {
    let before = tree([
        ("a", link("./a")),
        ("b", link("d/../c")),
        ("c", link("b")),
        ("d", link("e")),
        ("e/f", file("1")),
    ]);
    let work = Work::new(&before);
    make(
        &work.root(),
        &tree([("a/x", file("1")), ("b/x/y", file("1")), ("d/x", file("1")), ("e/f", file("2"))]),
    );
    let patch = work.patch(&[]);
    applies(&before, &tree([("d/x", file("1")), ("e/f", file("2"))]), &patch.text);
    assert_eq!(left_out(&work), [("a/x".to_owned(), Why::InTheWay), ("b/x/y".to_owned(), Why::InTheWay)]);
}
