//! Everything that parses bytes from outside, with a corpus of good and broken inputs and what mutation makes of them: no input
//! panics, hangs or is taken for more than it is.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod parsers;

use std::fs;
use std::path::{Path, PathBuf};

use agora_core::protocol::{Checkpoint, Response, StateFile, TaskMetadata};
use agora_core::wire::manifest::DispatchManifest;
use agora_core::{Manifest, sentinel};
use agora_testkit::corpus::{files, inputs};
use proptest::prelude::*;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn sentinels(bytes in inputs(&corpus("sentinel"))) {
        parsers::sentinel(&bytes);
    }

    #[test]
    fn output_markers(bytes in inputs(&corpus("marker"))) {
        parsers::output_marker(&bytes);
    }

    #[test]
    fn protocols(bytes in inputs(&corpus("protocol"))) {
        parsers::protocol(&bytes);
    }

    #[test]
    fn bundles(bytes in inputs(&corpus("bundle"))) {
        parsers::bundle(&bytes);
    }

    #[test]
    fn dispatch_manifests(bytes in inputs(&corpus("dispatch-manifest"))) {
        parsers::dispatch_manifest(&bytes);
    }

    #[test]
    fn event_lines(bytes in inputs(&corpus("line"))) {
        parsers::event_line(&bytes);
    }
}

/// The corpus itself is what its names say.
#[test]
fn the_corpus_is_read_as_its_names_say() {
    let good = |name: &str| sentinel::parse(&fs::read(corpus("sentinel").join(name)).unwrap());
    for name in ["one.json", "several.json", "bom.json", "deepest.json"] {
        assert!(good(name).is_ok(), "{name}: {:?}", good(name));
    }
    for name in ["key-twice.json", "too-deep.json", "not-utf8.json", "lone-surrogate.json"] {
        assert!(good(name).is_err(), "{name}");
    }
    let read = |name: &str| fs::read_to_string(corpus("protocol").join(name)).unwrap();
    assert!(Checkpoint::parse(&read("checkpoint.md")).unwrap().decision().is_some());
    assert!(TaskMetadata::parse(read("metadata.json").as_bytes()).unwrap().waiting().is_some());
    assert!(TaskMetadata::parse(read("metadata-answered.json").as_bytes()).unwrap().waiting().is_none());
    assert!(StateFile::parse(read("state-file.json").as_bytes()).unwrap().question().unwrap().is_some());
    assert!(Response::parse(&read("response.txt")).unwrap().unwrap().state_file().is_some());
    assert!(files(&corpus("bundle")).iter().all(|(_, bytes)| Manifest::decode(bytes).is_ok()));
    assert!(
        files(&corpus("dispatch-manifest")).iter().all(|(_, bytes)| DispatchManifest::decode(bytes).is_ok())
    );
}
