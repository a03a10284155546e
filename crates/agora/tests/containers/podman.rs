//! With Podman.

use agora_testkit::contract;

use super::place::{PODMAN, Place};

#[tokio::test]
async fn podman_keeps_the_contract() {
    let Some(place) = Place::new(PODMAN).await else { return };
    contract::compute(&place.compute, &place.shelf).await;
}
