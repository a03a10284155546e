//! What is known is not read again, and what a baseline and a patch cost.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use agora_worker::patch::{Baseline, Fingerprint, Known, KnownFile};

use crate::support::{patch, redactor, spool};

const FILES: usize = 1000;
const SIZE: usize = 40 * 1024 * 1024 / FILES;

/// Writes the files one by one, as the overlay does, and tells what is known of them.
fn lay(root: &Path, pack: &Arc<File>, bytes: &[u8]) -> Known {
    let mut known = Known::default();
    for (at, content) in bytes.chunks_exact(SIZE).enumerate() {
        let path = format!("d{}/f{at}", at % 20);
        fs::create_dir_all(root.join(&path).parent().unwrap()).unwrap();
        let mut file = File::create(root.join(&path)).unwrap();
        file.write_all(content).unwrap();
        let fingerprint = Fingerprint::of(&rustix::fs::fstat(&file).unwrap());
        let (offset, len) = ((at * SIZE) as u64, SIZE as u64);
        known.add(path, KnownFile { pack: Arc::clone(pack), offset, len, sha256: [0; 32], fingerprint });
    }
    known
}

#[test]
fn a_thousand_files_of_forty_mebibytes() {
    let bytes: Vec<u8> = (0..FILES * SIZE).map(|at| b"abcdefg hijklmn\n"[(at * at / 7) % 16]).collect();
    let (dir, mut pack) = (tempfile::tempdir().unwrap(), spool());
    pack.write_all(&bytes).unwrap();
    let pack = Arc::new(pack);

    let start = Instant::now();
    let known = lay(dir.path(), &pack, &bytes);
    let laid = start.elapsed();
    let start = Instant::now();
    let kept = spool();
    let spooled = kept.try_clone().unwrap();
    let baseline = Baseline::take(dir.path(), kept, &known).unwrap();
    let taken = start.elapsed();
    let start = Instant::now();
    let summary = baseline.patch(dir.path(), &redactor(&[]), &mut Vec::new()).unwrap();
    let unchanged = start.elapsed();
    assert_eq!((summary.files, baseline.files()), (0, FILES));
    let copied = spooled.metadata().unwrap().len();
    assert!(copied < (FILES * SIZE / 2) as u64, "{copied} bytes were copied although a pack has them");

    for at in 0..20 {
        let path = dir.path().join(format!("d{at}/f{at}"));
        let changed = [&fs::read(&path).unwrap()[..], b"more\n"].concat();
        fs::write(path, changed).unwrap();
    }
    let start = Instant::now();
    let summary = baseline.patch(dir.path(), &redactor(&["hunter2!"]), &mut Vec::new()).unwrap();
    let changed = start.elapsed();
    assert_eq!(summary.files, 20);
    let start = Instant::now();
    Baseline::take(dir.path(), spool(), &Known::default()).unwrap();
    let unknown = start.elapsed();
    println!(
        "written {laid:?}, baseline {taken:?} ({copied} bytes copied), patch of nothing {unchanged:?}, of 20 files \
         {changed:?}, baseline with nothing known {unknown:?}"
    );
}

/// Says of a file that it was written from a pack, which in truth holds something else.
fn lie(root: &Path, path: &str, said: &str, known: &mut Known) {
    let mut pack = spool();
    pack.write_all(said.as_bytes()).unwrap();
    let file = File::open(root.join(path)).unwrap();
    let fingerprint = Fingerprint::of(&rustix::fs::fstat(&file).unwrap());
    let (pack, len) = (Arc::new(pack), said.len() as u64);
    known.add(path, KnownFile { pack, offset: 0, len, sha256: [0; 32], fingerprint });
}

#[test]
fn a_file_is_read_unless_it_is_certainly_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut known = Known::default();
    for name in ["same", "changed", "last"] {
        fs::write(dir.path().join(name), "real\n").unwrap();
        lie(dir.path(), name, "pack\n", &mut known);
    }
    fs::write(dir.path().join("changed"), "other\n").unwrap();
    fs::write(dir.path().join("later"), "real\n").unwrap();
    // One more makes the others settled; nothing was written after it.
    let none = Fingerprint { dev: 0, ino: 0, size: 0, mtime_ns: 0, ctime_ns: i128::MAX };
    let far = KnownFile { pack: Arc::new(spool()), offset: 0, len: 0, sha256: [0; 32], fingerprint: none };
    known.add("none", far);
    let baseline = Baseline::take(dir.path(), spool(), &known).unwrap();
    for name in ["same", "changed", "last", "later"] {
        fs::write(dir.path().join(name), "now\n").unwrap();
    }
    let text = String::from_utf8(patch(&baseline, dir.path(), &[]).text).unwrap();
    let originals: Vec<&str> =
        text.lines().filter(|line| line.starts_with('-') && !line.starts_with("---")).collect();
    assert_eq!(originals, ["-other", "-pack", "-real", "-pack"]);
}

#[test]
fn a_file_of_the_last_tick_is_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "real\n").unwrap();
    let mut known = Known::default();
    lie(dir.path(), "a", "pack\n", &mut known);
    let baseline = Baseline::take(dir.path(), spool(), &known).unwrap();
    fs::write(dir.path().join("a"), "now\n").unwrap();
    let text = String::from_utf8(patch(&baseline, dir.path(), &[]).text).unwrap();
    assert!(text.contains("-real\n"), "{text}");
}

#[test]
fn a_change_in_the_same_tick_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..300 {
        let content = |what: char| format!("{what}{round}");
        fs::write(dir.path().join("a"), content('a')).unwrap();
        let baseline = Baseline::take(dir.path(), spool(), &Known::default()).unwrap();
        fs::write(dir.path().join("a"), content('b')).unwrap();
        assert_eq!(patch(&baseline, dir.path(), &[]).summary.files, 1, "{round}");
    }
}
