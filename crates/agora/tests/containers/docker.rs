//! With Docker.

use agora_testkit::contract;

use super::place::{DOCKER, Place};

#[tokio::test]
async fn docker_keeps_the_contract() {
    let Some(place) = Place::new(DOCKER).await else { return };
    contract::compute(&place.compute, &place.shelf).await;
}
