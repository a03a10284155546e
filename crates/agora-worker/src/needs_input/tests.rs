use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

use super::*;

const GOOD: &str = r#"{"question":"A or B?"}"#;

fn workspace() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("work");
    fs::create_dir_all(root.join(".agora")).unwrap();
    (dir, root)
}

/// Whatever stands at the sentinel's place is told by its kind, and nothing of it is opened.
#[test]
fn what_is_no_regular_file_is_never_followed_or_waited_on() {
    let (dir, root) = workspace();
    let secret = dir.path().join("secret.json");
    fs::write(&secret, r#"{"question":"hunter2"}"#).unwrap();
    let path = root.join(sentinel::PATH);
    let cases: [(&str, &dyn Fn()); 6] = [
        ("a symbolic link", &|| symlink(&secret, &path).unwrap()),
        ("a symbolic link", &|| symlink("nowhere", &path).unwrap()),
        ("a symbolic link", &|| symlink("/dev/zero", &path).unwrap()),
        ("a directory", &|| fs::create_dir(&path).unwrap()),
        ("a FIFO", &|| mkfifoat(CWD, &path, Mode::RWXU).unwrap()),
        ("a socket", &|| drop(std::os::unix::net::UnixListener::bind(&path).unwrap())),
    ];
    for (expected, make) in cases {
        make();
        let error = read_sentinel(&root).unwrap_err();
        assert!(matches!(error, Unreadable::NotAFile(what) if what == expected), "{error}");
        assert!(!error.to_string().contains("hunter2"));
        archive::remove(&path).unwrap();
        assert!(read_sentinel(&root).unwrap().is_none());
    }
    assert!(secret.exists(), "a link was removed, not what it points to");
}

#[test]
fn a_linked_directory_on_the_way_is_not_followed() {
    let (dir, root) = workspace();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("needs_input.json"), GOOD).unwrap();
    fs::remove_dir(root.join(DIR)).unwrap();
    symlink(&elsewhere, root.join(DIR)).unwrap();
    assert!(matches!(read_sentinel(&root), Err(Unreadable::NotAFile("below a symbolic link"))));
    clear(&root).unwrap();
    assert!(read_sentinel(&root).unwrap().is_none());
    assert!(elsewhere.join("needs_input.json").exists());
}

#[test]
fn agoras_directory_may_have_become_something_else() {
    let (_dir, root) = workspace();
    let place = root.join(DIR);
    fs::remove_dir(&place).unwrap();
    fs::write(&place, GOOD).unwrap();
    let said = "`.agora/needs_input.json` is below a file, not a regular file";
    assert_eq!(read_sentinel(&root).unwrap_err().to_string(), said);
    fs::remove_file(&place).unwrap();
    mkfifoat(CWD, &place, Mode::RWXU).unwrap();
    assert!(matches!(
        read_sentinel(&root),
        Err(Unreadable::NotAFile("below something that is no directory"))
    ));
}

#[test]
fn the_cap_counts_to_the_byte() {
    let (_dir, root) = workspace();
    let path = root.join(sentinel::PATH);
    let filler = |size: usize| format!("{GOOD}{}", " ".repeat(size - GOOD.len()));
    fs::write(&path, filler(1_048_576)).unwrap();
    assert!(read_sentinel(&root).unwrap().is_some());
    fs::write(&path, filler(1_048_577)).unwrap();
    let error = read_sentinel(&root).unwrap_err();
    assert!(matches!(error, Unreadable::Malformed(Malformed::TooLarge(1_048_577))), "{error}");
}

#[test]
fn only_files_of_the_workspace_are_read() {
    let (dir, root) = workspace();
    fs::write(dir.path().join("x"), "outside").unwrap();
    fs::write(root.join("x"), "inside").unwrap();
    let read = |path: &str| file::read(&root, Path::new(path), 100).unwrap();
    assert_eq!(read("x"), Found::Bytes(b"inside".to_vec()));
    assert_eq!(read("./x"), Found::NotAFile("outside the workspace"));
    for path in ["../x", "/etc/passwd", "a/../../x"] {
        assert!(!matches!(read(path), Found::Bytes(_)), "{path}");
    }
    assert_eq!(read("nothing/x"), Found::Nothing);
    assert_eq!(read("x/y"), Found::NotAFile("below a file"));
    assert_eq!(read(""), Found::NotAFile("a directory"));
}

#[test]
fn what_was_there_before_asks_nothing() {
    let (_dir, root) = workspace();
    for name in ["needs_input.json", "resume.json", "input.json"] {
        fs::write(root.join(DIR).join(name), GOOD).unwrap();
    }
    fs::create_dir_all(root.join(DIR).join("control/terminate")).unwrap();
    fs::create_dir_all(root.join(DIR).join("outputs")).unwrap();
    clear(&root).unwrap();
    let left: Vec<_> =
        fs::read_dir(root.join(DIR)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["outputs"], "what the thread has put out so far stays");
    let bare = tempfile::tempdir().unwrap();
    clear(&bare.path().join("not/yet/there")).unwrap();
    assert!(bare.path().join("not/yet/there/.agora").is_dir());
}
