//! Everything that parses bytes from outside, with a corpus of good and broken inputs and what mutation makes of them: no input
//! panics, hangs or is taken for more than it is.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod parsers;

use std::fs;
use std::path::{Path, PathBuf};

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
    assert!(files(&corpus("bundle")).iter().all(|(_, bytes)| Manifest::decode(bytes).is_ok()));
    assert!(
        files(&corpus("dispatch-manifest")).iter().all(|(_, bytes)| DispatchManifest::decode(bytes).is_ok())
    );
}
