//! Modes under a strict umask. Alone in its process, since a umask is the whole process's.

use std::fs;
use std::os::unix::fs::MetadataExt;

use agora_core::ContentHash;
use agora_core::bundle::{Capability, FileEntry, FileMode, Runtime};
use agora_core::overlay::{Layer, Owner, plan};
use agora_worker::overlay::{Contents, lay};
use rustix::fs::Mode;

#[test]
fn modes_do_not_depend_on_the_umask() {
    let file = |path: &str, mode| FileEntry {
        path: path.parse().unwrap(),
        mode,
        size: 1,
        sha256: ContentHash::of(b"x"),
    };
    let files = vec![file("dir/run", FileMode::Executable), file("plain", FileMode::Plain)];
    let tree = Capability::new(files).unwrap();
    let layer = Layer { owner: Owner::Capability("a".parse().unwrap()), tree: &tree };
    let plan = plan(&Runtime::Codex, &[layer]).unwrap();
    for umask in [0o077, 0o000] {
        let dir = tempfile::tempdir().unwrap();
        rustix::process::umask(Mode::from_raw_mode(umask));
        lay(dir.path(), &plan, &[Contents::Memory(b"xx")]).unwrap();
        let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().mode() & 0o7777;
        assert_eq!((mode("dir"), mode("dir/run"), mode("plain")), (0o755, 0o755, 0o644), "{umask:o}");
    }
}
