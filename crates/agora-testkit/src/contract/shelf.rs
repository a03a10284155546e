use agora_core::provider::blob::BlobKey;
use agora_core::provider::compute::Sight;
use agora_core::provider::shelf::{Clearing, Concluded, Shelf};
use agora_core::{ContentHash, DispatchId};

use crate::worker::Dispatch;

/// Every `Shelf` passes this.
pub async fn shelf(shelf: &dyn Shelf) {
    let id: DispatchId = "d_1".parse().unwrap();
    assert_eq!(shelf.list().await.unwrap(), [], "nothing is there yet");
    assert_eq!(shelf.outcome(&id).await.unwrap(), None);
    assert_eq!(shelf.report(&id).await.unwrap(), None);
    assert_eq!(shelf.lines(&id, 0).await.unwrap(), "");
    shelf.clear(&id, Clearing::Workspace).await.expect("clearing what is gone is no error");
    shelf.clear(&id, Clearing::Everything).await.expect("clearing what is gone is no error");

    let dispatch = Dispatch::script("", "true");
    let at = shelf.stage(&dispatch.manifest, &Sight::Same).await.unwrap();
    assert_eq!(at.hash, ContentHash::of(&dispatch.manifest.encode().unwrap()));
    assert_eq!(shelf.stage(&dispatch.manifest, &Sight::Same).await.unwrap(), at, "staging again is no error");
    let changed = Dispatch::script("", "true").with(|manifest| manifest.limits.timeout_seconds = 7).manifest;
    assert_ne!(
        shelf.stage(&changed, &Sight::Same).await.unwrap().hash,
        at.hash,
        "another manifest takes its place"
    );
    let other = changed_id("d_2");
    shelf.stage(&other.manifest, &Sight::Same).await.unwrap();
    assert_eq!(shelf.list().await.unwrap(), [id.clone(), "d_2".parse().unwrap()]);
    assert_eq!(shelf.lines(&id, 0).await.unwrap(), "", "nobody has said anything");

    let (one, two) = tokio::join!(shelf.conclude(&id, "one"), shelf.conclude(&id, "two"));
    let (one, two) = (one.unwrap(), two.unwrap());
    let stored = shelf.outcome(&id).await.unwrap().unwrap();
    let expected = match stored.as_str() {
        "one" => (Concluded::Ours, Concluded::Theirs(stored)),
        _ => (Concluded::Theirs(stored), Concluded::Ours),
    };
    assert_eq!((one, two), expected, "one of them ended it, and both know which");
    assert_eq!(shelf.outcome(&"d_2".parse().unwrap()).await.unwrap(), None, "and no other dispatch");

    for wrong in ["", "/etc/passwd", "..", "../in/manifest.json", "a/../../b", "a//b", "./a"] {
        assert!(shelf.left(&id, wrong).is_err(), "{wrong}");
    }
    let left = shelf.left(&id, "outputs/plan.md").unwrap().to_string();
    assert!(left.ends_with("/outputs/plan.md") && left.contains("d_1"), "{left}");
    let hash = ContentHash::of(b"x");
    let (blob, pack) =
        (shelf.stored(BlobKey::Blob(hash)).unwrap(), shelf.stored(BlobKey::Pack(hash)).unwrap());
    assert_ne!(blob, pack, "a blob and a pack of one hash are two things");

    shelf.clear(&id, Clearing::Workspace).await.unwrap();
    assert!(shelf.outcome(&id).await.unwrap().is_some(), "what the worker left stays");
    assert_eq!(shelf.list().await.unwrap().len(), 2);
    for _ in 0..2 {
        shelf.clear(&id, Clearing::Everything).await.unwrap();
        assert_eq!(shelf.outcome(&id).await.unwrap(), None);
        assert_eq!(shelf.list().await.unwrap(), ["d_2".parse().unwrap()]);
    }
}

fn changed_id(id: &str) -> Dispatch {
    Dispatch::script("", "true").with(|manifest| manifest.dispatch_id = id.parse().unwrap())
}
