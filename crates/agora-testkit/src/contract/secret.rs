use agora_core::provider::secret::{SecretChange, SecretError, SecretStore};
use agora_core::secret::{SecretName, SecretValue, ShortSecrets};

use crate::clock::SetClock;

fn value(text: &str) -> SecretValue {
    SecretValue::new(text.to_owned(), ShortSecrets::Refuse).unwrap()
}

/// Every `SecretStore` passes this. It tells the time by `clock`.
pub async fn secret_store(store: &dyn SecretStore, clock: &SetClock) {
    clock.set("2026-11-15T12:00:00Z");
    let name = |text: &str| text.parse::<SecretName>().unwrap();
    let (claude, codex) = (name("auth/claude"), name("auth/codex"));

    assert_eq!(store.names().await.unwrap(), []);
    assert!(matches!(store.get(&claude).await, Err(SecretError::NotFound(missing)) if missing == claude));

    assert_eq!(store.put(&claude, &value("first-value"), None).await.unwrap(), SecretChange::New);
    assert_eq!(store.put(&claude, &value("first-value"), None).await.unwrap(), SecretChange::Unchanged);
    assert_eq!(store.put(&claude, &value("second\n\"välue\""), None).await.unwrap(), SecretChange::Rotated);
    assert_eq!(store.get(&claude).await.unwrap().expose(), "second\n\"välue\"");

    clock.set("2026-11-15T12:10:00Z");
    let valued_at = |text: &str| Some(text.parse().unwrap());
    let stands = store.standing(&claude).await.unwrap();
    assert_eq!((stands.valued_at, stands.expires_at), (valued_at("2026-11-15T12:00:00Z"), None));
    store.put(&claude, &value("second\n\"välue\""), None).await.unwrap();
    assert_eq!(store.standing(&claude).await.unwrap(), stands, "the same value is as old as it was");
    store.put(&claude, &value("third-value"), None).await.unwrap();
    assert_eq!(store.standing(&claude).await.unwrap().valued_at, valued_at("2026-11-15T12:10:00Z"));
    assert!(matches!(store.standing(&codex).await, Err(SecretError::NotFound(_))));

    let expires_at = Some("2026-11-15T13:00:00Z".parse().unwrap());
    store.put(&codex, &value("short-lived"), expires_at).await.unwrap();
    clock.set("2026-11-15T12:59:59.999Z");
    assert_eq!(store.get(&codex).await.unwrap().expose(), "short-lived");
    clock.set("2026-11-15T13:00:00Z");
    let expired = store.get(&codex).await.expect_err("its time is over");
    assert!(matches!(expired, SecretError::Expired { .. }), "{expired:?}");
    assert_eq!(store.standing(&codex).await.unwrap().expires_at, expires_at, "it is told all the same");
    assert_eq!(store.names().await.unwrap(), [claude, codex.clone()]);

    let longer = Some("2026-11-15T14:00:00Z".parse().unwrap());
    assert_eq!(store.put(&codex, &value("short-lived"), longer).await.unwrap(), SecretChange::Unchanged);
    assert_eq!(store.get(&codex).await.unwrap().expose(), "short-lived", "storing again gives it a new time");

    store.remove(&codex).await.unwrap();
    assert!(matches!(store.get(&codex).await, Err(SecretError::NotFound(_))), "it is gone");
    store.remove(&codex).await.expect("taking away what is not there is no error");
}
