use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

#[expect(
    clippy::disallowed_methods,
    reason = "a real git makes the packs, which testkit's programs are no part of"
)]
fn git(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments).current_dir(dir);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a repository whose objects are differences to each other, and returns its one pack. `None` without git.
fn packed(format: &str) -> Option<(tempfile::TempDir, Vec<u8>)> {
    let paths = ["/usr/bin/git", "/usr/local/bin/git"];
    if !paths.iter().any(|path| Path::new(path).exists()) {
        agora_testkit::part::skipped("there is no git");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q", &format!("--object-format={format}")]);
    let lines: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    for change in ["first", "second", "third"] {
        fs::write(dir.path().join("large"), format!("{change}\n{lines}{change}\n")).unwrap();
        fs::write(dir.path().join(change), change).unwrap();
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-qm", change]);
    }
    git(dir.path(), &["tag", "-am", "a tag", "tagged"]);
    git(dir.path(), &["gc", "-q"]);
    let packs = fs::read_dir(dir.path().join(".git/objects/pack")).unwrap();
    let pack = packs
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "pack"));
    let bytes = fs::read(pack.unwrap()).unwrap();
    Some((dir, bytes))
}

#[test]
fn every_object_of_a_real_pack_is_read_with_its_name() {
    for (format, names) in [("sha1", Names::Sha1), ("sha256", Names::Sha256)] {
        let Some((dir, pack)) = packed(format) else { return };
        let mut ids: Vec<String> =
            objects(&pack, names).unwrap().into_iter().map(|object| object.id).collect();
        ids.sort();
        let listed = git(dir.path(), &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
        assert_eq!(ids, listed.lines().collect::<Vec<_>>(), "{format}");
    }
}

#[test]
fn a_pack_that_lies_is_refused() {
    let head = |count: u32| [&b"PACK"[..], &2_u32.to_be_bytes(), &count.to_be_bytes()].concat();
    let read = |bytes: Vec<u8>| objects(&bytes, Names::Sha1);
    assert_eq!(read(head(0)), Ok(Vec::new()));
    assert_eq!(read(head(1)), Err(Unread::Malformed));
    assert_eq!(read(head(u32::MAX)), Err(Unread::TooLarge));
    // A blob that says it has very many bytes.
    let huge = [0xb0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert_eq!(read([head(1), huge.to_vec()].concat()), Err(Unread::TooLarge));
    // A difference to itself, and one to what is not there.
    let deflated = miniz_oxide::deflate::compress_to_vec_zlib(&[0, 0], 6);
    let to_itself = [head(1), vec![0x62, 0x00], deflated.clone()].concat();
    assert_eq!(read(to_itself), Err(Unread::Malformed));
    let to_nobody = [head(1), vec![0x72], vec![7; 20], deflated].concat();
    assert_eq!(read(to_nobody), Err(Unread::Malformed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_that_is_done_to_a_pack_breaks_the_reader(at in 0_usize..6000, byte: u8, cut in 0_usize..6000) {
        static PACK: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| packed("sha1").map(|(_, pack)| pack).unwrap_or_default());
        let mut pack = PACK.clone();
        if let Some(place) = pack.get_mut(at) {
            *place = byte;
        }
        pack.truncate(pack.len().saturating_sub(cut));
        let _ = objects(&pack, Names::Sha1);
    }
}
