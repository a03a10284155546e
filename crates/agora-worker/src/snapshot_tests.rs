use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use tar::{Builder, EntryType, Header};

use super::*;

fn packed(root: &Path, cap: Cap) -> Result<Vec<u8>, SnapshotError> {
    pack(&Root::open(root).unwrap(), cap, &|_, _| true, Vec::new())
}

fn tree(root: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let data = fs::symlink_metadata(&path).unwrap();
            let content = if data.is_symlink() {
                fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if data.is_dir() {
                dirs.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            found.push((path.strip_prefix(root).unwrap().to_owned(), data.mode(), content));
        }
    }
    found.sort();
    found
}

#[test]
fn a_tree_comes_back_with_links_modes_and_empty_directories() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = one.path();
    fs::create_dir_all(root.join("a/empty")).unwrap();
    fs::create_dir_all(root.join(".git/objects")).unwrap();
    fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(root.join("a/run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("a/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"odd \xff\n name")), [0, 255, 10]).unwrap();
    let long = "d".repeat(120);
    fs::create_dir_all(root.join(&long).join(&long)).unwrap();
    fs::write(root.join(&long).join(&long).join("f"), "deep").unwrap();
    symlink("/etc/passwd", root.join("outside")).unwrap();
    symlink("nowhere", root.join("a/dangling")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    fs::create_dir(root.join("closed")).unwrap();
    fs::write(root.join("closed/in"), "x").unwrap();
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();

    let packed = packed(root, WORKSPACE).unwrap();
    unpack(packed.as_slice(), WORKSPACE, other.path()).unwrap();
    let mut expected = tree_without_pipe(root);
    expected.sort();
    assert_eq!(tree(other.path()), expected);
}

fn tree_without_pipe(root: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    fs::remove_file(root.join("pipe")).unwrap();
    tree(root)
}

#[test]
fn what_is_too_much_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("big"), vec![0; 1000]).unwrap();
    let cap = Cap { bytes: 999, entries: 10 };
    let refused = packed(dir.path(), cap);
    assert!(matches!(refused, Err(SnapshotError::TooLarge { .. })));
    let packed = packed(dir.path(), Cap { bytes: 1000, entries: 1 }).unwrap();
    let other = tempfile::tempdir().unwrap();
    assert!(matches!(unpack(packed.as_slice(), cap, other.path()), Err(SnapshotError::TooLarge { .. })));
}

#[test]
fn a_path_that_is_too_deep_is_named_in_few_words() {
    let keep = tempfile::tempdir().unwrap();
    let mode = rustix::fs::Mode::RWXU;
    let open = |dir: &std::os::fd::OwnedFd, name: &str| {
        rustix::fs::mkdirat(dir, name, mode).unwrap();
        rustix::fs::openat(dir, name, rustix::fs::OFlags::DIRECTORY, mode).unwrap()
    };
    let name = "deep\n\u{1b}[31m-ä-".repeat(15);
    let mut dir = std::os::fd::OwnedFd::from(fs::File::open(keep.path()).unwrap());
    for _ in 0..25 {
        dir = open(&dir, &name);
    }
    let message = packed(keep.path(), WORKSPACE).unwrap_err().to_string();
    assert!(message.chars().count() < 150 && message.contains('…'), "{message}");
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

/// Archives that no `pack` would write: each must be refused, and nothing written outside.
#[test]
fn a_forged_archive_writes_nothing_outside() {
    let outside = tempfile::tempdir().unwrap();
    let forged = |build: &dyn Fn(&mut Builder<Vec<u8>>)| {
        let mut builder = Builder::new(Vec::new());
        build(&mut builder);
        builder.into_inner().unwrap()
    };
    let header = |kind, size| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        header
    };
    let escaping = forged(&|builder| {
        let mut header = header(EntryType::Regular, 1);
        header.as_gnu_mut().unwrap().name[..5].copy_from_slice(b"../x\0");
        header.set_cksum();
        builder.append(&header, &b"x"[..]).unwrap();
    });
    let through_link = forged(&|builder| {
        let mut link = header(EntryType::Symlink, 0);
        builder.append_link(&mut link, "d", outside.path()).unwrap();
        builder.append_data(&mut header(EntryType::Regular, 1), "d/x", &b"x"[..]).unwrap();
    });
    let device = forged(&|builder| {
        builder.append_data(&mut header(EntryType::Char, 0), "dev", io::empty()).unwrap();
    });
    let hard_link = forged(&|builder| {
        builder.append_link(&mut header(EntryType::Link, 0), "h", "/etc/passwd").unwrap();
    });
    for archive in [escaping, through_link, device, hard_link, vec![0xff; 2048]] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        assert!(unpack(archive.as_slice(), WORKSPACE, &root).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(!dir.path().join("x").exists());
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic_or_escape(bytes: Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let _ = unpack(bytes.as_slice(), SESSION, dir.path());
    }
}
