use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::*;
use crate::snapshot::{Cap, SnapshotError, WORKSPACE};

/// What stands at each path: its mode, and what it holds.
fn read(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    fn walk(root: &Path, at: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
        for entry in fs::read_dir(root.join(at)).unwrap() {
            let entry = entry.unwrap();
            let (path, data) = (at.join(entry.file_name()), entry.metadata().unwrap());
            let holds = match (data.is_symlink(), data.is_file()) {
                (true, _) => fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes(),
                (_, true) => fs::read(entry.path()).unwrap(),
                _ => Vec::new(),
            };
            found.insert(path.clone(), (data.permissions().mode() & 0o7777, holds));
            if data.is_dir() {
                walk(root, &path, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, Path::new(""), &mut found);
    found
}

fn put(root: &Path, path: &str, content: &str) {
    fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
    fs::write(root.join(path), content).unwrap();
}

/// A base, and a ground over it in which something is new, changed, gone, and of another kind.
fn ground(dir: &Path) -> Lower {
    let (base, ground) = (dir.join("base"), dir.join("ground"));
    for path in
        ["same", "changed", "gone", "deep/er/file", "dir-to-file/x", "file-to-dir", "many/1", "many/2"]
    {
        put(&base, path, "base");
    }
    put(&ground, "files/changed", "ground");
    put(&ground, "files/new", "ground");
    put(&ground, "files/dir-to-file", "ground");
    put(&ground, "files/file-to-dir/x", "ground");
    fs::write(ground.join("gone"), b"gone\0dir-to-file\0file-to-dir\0").unwrap();
    Lower::new(&ground, Some(base)).unwrap()
}

fn copied(dir: &Path) -> Room {
    let (layers, work) = (dir.join("layers"), dir.join("work"));
    fs::create_dir_all(&layers).unwrap();
    fs::create_dir_all(&work).unwrap();
    Room { how: How::Copied(Copied::make(ground(dir), &layers, &work).unwrap()), frozen: Vec::new() }
}

fn work_on(work: &Path) {
    put(work, "made/by/agent", "agent");
    put(work, "changed", "agent");
    fs::remove_file(work.join("same")).unwrap();
    fs::remove_dir_all(work.join("deep")).unwrap();
    symlink("../outside", work.join("deep")).unwrap();
    fs::remove_dir_all(work.join("many")).unwrap();
    put(work, "many/3", "agent");
    fs::set_permissions(work.join("made/by/agent"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(work.join("empty")).unwrap();
}

#[test]
fn a_ground_is_laid_over_its_base() {
    let dir = tempfile::tempdir().unwrap();
    let _room = copied(dir.path());
    let found = read(&dir.path().join("work"));
    let content =
        |path: &str| found.get(Path::new(path)).map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(content("changed").as_deref(), Some("ground"));
    assert_eq!(content("dir-to-file").as_deref(), Some("ground"));
    assert_eq!(content("file-to-dir/x").as_deref(), Some("ground"));
    assert_eq!((content("same").as_deref(), content("gone")), (Some("base"), None));
}

#[test]
fn what_changed_goes_across_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let mut room = copied(dir.path());
    put(&work, "set-up", "by a script");
    let began = room.freeze().unwrap();
    work_on(&work);
    let then = read(&work);
    let changes = pack(&work, &room.changed_since(&began).unwrap().among, WORKSPACE, Vec::new()).unwrap();
    let origin =
        pack(&began.tree, &room.changed_until(&began).unwrap().among, WORKSPACE, Vec::new()).unwrap();
    assert!(changes.len() < 20_000);

    room.start_over().unwrap();
    assert!(!work.join("set-up").exists() && work.join("same").exists());
    unpack(&*origin, WORKSPACE, &work).unwrap();
    let began_again = room.freeze().unwrap();
    assert!(began_again.tree.join("set-up").exists());
    unpack(&*changes, WORKSPACE, &work).unwrap();
    assert_eq!(read(&work), then);
    let prior = room.freeze().unwrap();
    put(&work, "more", "x");
    let paths = |since: &Frozen| {
        room.changed_since(since).unwrap().among.paths().map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    assert_eq!(paths(&prior), [b"more".to_vec()]);
    assert!(
        paths(&began_again).contains(&b"changed".to_vec()) && !paths(&began_again).contains(&b"new".to_vec())
    );
}

#[test]
fn no_change_hides_behind_its_looks() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let mut room = copied(dir.path());
    let began = room.freeze().unwrap();
    let before = fs::metadata(work.join("same")).unwrap().modified().unwrap();
    fs::write(work.join("same"), "esab").unwrap();
    fs::File::options().write(true).open(work.join("same")).unwrap().set_modified(before).unwrap();
    let changed = room.changed_since(&began).unwrap().among;
    assert!(changed.paths().any(|path| path == b"same"));
    assert_eq!(fs::read(began.tree.join("same")).unwrap(), b"base");
    // Nor behind what was frozen later: a thread that goes on puts its files back before it begins.
    let later = room.freeze().unwrap();
    assert_eq!(fs::read(later.tree.join("same")).unwrap(), b"esab");
    assert!(room.changed_since(&began).unwrap().among.paths().any(|path| path == b"same"));
}

#[test]
fn a_directory_that_went_is_not_looked_for_behind_a_link_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let mut room = copied(dir.path());
    let began = room.freeze().unwrap();
    put(dir.path(), "outside/er/foreign", "x");
    fs::rename(work.join("deep"), work.join("moved")).unwrap();
    symlink("moved", work.join("deep")).unwrap();
    fs::remove_dir_all(work.join("many")).unwrap();
    symlink("../outside", work.join("many")).unwrap();
    let paths = |changed: Changed| changed.among.paths().map(<[u8]>::to_vec).collect::<Vec<_>>();
    let all = [
        &b"deep"[..],
        b"deep/er",
        b"deep/er/file",
        b"many",
        b"many/1",
        b"many/2",
        b"moved",
        b"moved/er",
        b"moved/er/file",
    ];
    assert_eq!(paths(room.changed_since(&began).unwrap()), all);
    let ended = room.freeze().unwrap();
    let until = paths(room.changed_until(&ended).unwrap());
    assert!(all.iter().all(|path| until.iter().any(|until| until == path)), "{until:?}");
}

#[test]
fn a_cap_holds_and_nothing_is_written_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, to) = (dir.path().join("tree"), dir.path().join("to"));
    put(&tree, "a/b", "content");
    let among = Among::new([b"a".to_vec(), b"a/b".to_vec()]);
    let small = Cap { bytes: 3, entries: 10 };
    assert!(matches!(pack(&tree, &among, small, Vec::new()), Err(SnapshotError::TooLarge { .. })));
    let packed = pack(&tree, &among, WORKSPACE, Vec::new()).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(&to).unwrap();
    symlink(&elsewhere, to.join("a")).unwrap();
    unpack(&*packed, WORKSPACE, &to).unwrap();
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(fs::read(to.join("a/b")).unwrap(), b"content");
    assert!(matches!(unpack(&*packed, small, &to), Err(SnapshotError::TooLarge { .. })));
}
