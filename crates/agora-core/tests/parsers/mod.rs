//! What holds of each parser, whatever it is given. The fuzzer says the same.

use agora_core::protocol::{self, Checkpoint, Marker, Response, StateFile, TaskMetadata};
use agora_core::wire::line::{EventKey, Line, Said};
use agora_core::wire::manifest::DispatchManifest;
use agora_core::{Manifest, sentinel};

pub(crate) fn sentinel(bytes: &[u8]) {
    match sentinel::parse(bytes) {
        // What is asked is kept whole: it reads back, and has a hash that an answer can be given for.
        Ok(question) => {
            let kept = serde_json::from_value(serde_json::to_value(&question).unwrap()).unwrap();
            assert_eq!(question, kept);
            assert_eq!(question.hash().unwrap(), kept.hash().unwrap());
        }
        Err(malformed) => {
            assert!(malformed.to_string().len() < 300, "it says what is wrong, and quotes nothing");
        }
    }
}

pub(crate) fn output_marker(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(Marker::StateFile(paused)) = protocol::find(&text) {
        let _ = paused.question(bytes);
    }
}

/// What is read in any form of the user input protocol is written so that it reads back.
pub(crate) fn protocol(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(checkpoint) = Checkpoint::parse(&text) {
        assert_eq!(Checkpoint::parse(&checkpoint.produce()), Ok(checkpoint));
    }
    if let Ok(metadata) = TaskMetadata::parse(bytes) {
        assert_eq!(TaskMetadata::from_fields(metadata.produce()), Ok(metadata));
    }
    if let Ok(file) = StateFile::parse(bytes) {
        assert_eq!(StateFile::parse(file.produce().as_bytes()), Ok(file));
    }
    if let Some(Ok(response)) = Response::parse(&text) {
        assert_eq!(Response::parse(&response.produce()), Some(Ok(response)));
    }
}

pub(crate) fn bundle(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        let encoded = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(&encoded.bytes).unwrap(), manifest);
    }
}

pub(crate) fn dispatch_manifest(bytes: &[u8]) {
    if let Ok(manifest) = DispatchManifest::decode(bytes) {
        assert_eq!(DispatchManifest::decode(&manifest.encode().unwrap()).unwrap(), manifest);
    }
}

pub(crate) fn event_line(bytes: &[u8]) {
    if let Ok(line) = Line::parse(&String::from_utf8_lossy(bytes), &EventKey::new([1; 32])) {
        assert!(!matches!(line.said, Said::Event(_) | Said::Report(_)), "nothing was signed with this key");
    }
}
