use agora_core::ContentHash;
use agora_core::provider::blob::{BlobKey, BlobStore, StoreError};

/// Every `BlobStore` passes this.
pub async fn blob_store(store: &dyn BlobStore) {
    let hash = ContentHash::of(b"hello");
    for key in [BlobKey::Blob(hash), BlobKey::Pack(hash)] {
        let missing = store.get(key, 100).await.expect_err("nothing is stored yet");
        assert!(matches!(missing, StoreError::NotFound(found) if found == key), "{missing:?}");

        store.put(key, b"hello".to_vec()).await.expect("first put");
        store.put(key, b"hello".to_vec()).await.expect("putting again is no error");
        assert_eq!(store.get(key, 5).await.expect("exactly at the limit"), b"hello");

        let large = store.get(key, 4).await.expect_err("over the limit");
        assert!(matches!(large, StoreError::TooLarge { size: 5, limit: 4, .. }), "{large:?}");
    }

    let (blob, pack) = (BlobKey::Blob(hash), BlobKey::Pack(hash));
    store.put(pack, b"other".to_vec()).await.expect("a pack");
    assert_eq!(store.get(blob, 100).await.unwrap(), b"hello", "a blob and a pack of one hash are two things");
    assert_eq!(store.get(pack, 100).await.unwrap(), b"other", "what is put last is what is stored");

    let empty = BlobKey::Blob(ContentHash::of(b""));
    store.put(empty, Vec::new()).await.expect("nothing is something");
    assert_eq!(store.get(empty, 0).await.expect("nothing"), b"");

    let large: Vec<u8> = (0..3_000_000_u32).map(|place| (place % 251) as u8).collect();
    let key = BlobKey::Blob(ContentHash::of(&large));
    store.put(key, large.clone()).await.expect("three megabytes");
    assert!(store.get(key, 1 << 30).await.expect("three megabytes") == large);
}
