//! Everything that parses bytes from outside, with a corpus of good and broken inputs and what mutation makes of them: no input
//! panics, hangs or is taken for more than it is.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs;
use std::path::Path;

use agora_core::marker::{self, Marker};
use agora_core::wire::line::{EventKey, Line, Said};
use agora_core::wire::manifest::DispatchManifest;
use agora_core::{Manifest, sentinel};
use proptest::prelude::*;
use proptest::sample::Index;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// One thing that can happen to bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Cut(Index),
    Remove(Index, usize),
    /// Repeats a piece where it stands.
    Repeat(Index, usize),
    Insert(Index, Vec<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    let interesting = prop_oneof![
        Just(b"\"".to_vec()),
        Just(b"{".to_vec()),
        Just(b"}".to_vec()),
        Just(b"[".to_vec()),
        Just(b"\\".to_vec()),
        Just(b"\\u0000".to_vec()),
        Just(b"\\ud83d".to_vec()),
        Just(b"null".to_vec()),
        Just(b"-1e999".to_vec()),
        Just(b"18446744073709551616".to_vec()),
        Just(b",".to_vec()),
        Just(b"\xff".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"{{".to_vec()),
        Just(b"../".to_vec()),
        Just(b"AWAITING_USER_INPUT\n".to_vec()),
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        any::<Index>().prop_map(Change::Cut),
        (any::<Index>(), 1_usize..20).prop_map(|(at, size)| Change::Remove(at, size)),
        (any::<Index>(), 1_usize..40).prop_map(|(at, size)| Change::Repeat(at, size)),
        (any::<Index>(), interesting).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match change {
            Change::Set(at, byte) => bytes[at.index(length)] = *byte,
            Change::Cut(at) => bytes.truncate(at.index(length)),
            Change::Remove(at, size) => {
                drop(bytes.drain(at.index(length)..(at.index(length) + size).min(length)));
            }
            Change::Repeat(at, size) => {
                let piece = bytes[at.index(length)..(at.index(length) + size).min(length)].to_vec();
                bytes.splice(at.index(length)..at.index(length), piece);
            }
            Change::Insert(at, piece) => {
                drop(bytes.splice(at.index(length)..at.index(length), piece.clone()));
            }
        }
    }
    bytes
}

fn inputs(name: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let files = corpus(name);
    (any::<Index>(), proptest::collection::vec(change(), 0..6))
        .prop_map(move |(which, changes)| changed(files[which.index(files.len())].clone(), &changes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn sentinels(bytes in inputs("sentinel")) {
        match sentinel::parse(&bytes) {
            // What is asked is kept whole: it reads back, and has a hash that an answer can be given for.
            Ok(question) => {
                let kept = serde_json::from_value(serde_json::to_value(&question).unwrap()).unwrap();
                prop_assert_eq!(&question, &kept);
                prop_assert_eq!(question.hash().unwrap(), kept.hash().unwrap());
            }
            Err(malformed) => prop_assert!(malformed.to_string().len() < 300, "it says what is wrong, and quotes nothing"),
        }
    }

    #[test]
    fn output_markers(bytes in inputs("marker")) {
        let text = String::from_utf8_lossy(&bytes);
        if let Some(Marker::StateFile(paused)) = marker::find(&text) {
            let _ = paused.question(&bytes);
        }
    }

    #[test]
    fn bundles(bytes in inputs("bundle")) {
        if let Ok(manifest) = Manifest::decode(&bytes) {
            let encoded = manifest.encode().unwrap();
            prop_assert_eq!(Manifest::decode(&encoded.bytes).unwrap(), manifest);
        }
    }

    #[test]
    fn dispatch_manifests(bytes in inputs("dispatch-manifest")) {
        if let Ok(manifest) = DispatchManifest::decode(&bytes) {
            prop_assert_eq!(DispatchManifest::decode(&manifest.encode().unwrap()).unwrap(), manifest);
        }
    }

    #[test]
    fn event_lines(bytes in inputs("line")) {
        if let Ok(line) = Line::parse(&String::from_utf8_lossy(&bytes), &EventKey::new([1; 32])) {
            prop_assert!(!matches!(line.said, Said::Event(_) | Said::Report(_)), "nothing here was signed with this key");
        }
    }
}

/// The corpus itself is what its names say.
#[test]
fn the_corpus_is_read_as_its_names_say() {
    let good = |name: &str| {
        sentinel::parse(
            &fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/sentinel").join(name))
                .unwrap(),
        )
    };
    for name in ["one.json", "several.json", "bom.json", "deepest.json"] {
        assert!(good(name).is_ok(), "{name}: {:?}", good(name));
    }
    for name in ["key-twice.json", "too-deep.json", "not-utf8.json", "lone-surrogate.json"] {
        assert!(good(name).is_err(), "{name}");
    }
    assert!(corpus("bundle").iter().all(|bytes| Manifest::decode(bytes).is_ok()));
    assert!(corpus("dispatch-manifest").iter().all(|bytes| DispatchManifest::decode(bytes).is_ok()));
}
