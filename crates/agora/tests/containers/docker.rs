//! With Docker.

use agora_testkit::contract;

use super::place::{DOCKER as DAEMON, Place, socket};
use super::scenes;

#[tokio::test]
async fn docker_keeps_the_contract() {
    let Some(place) = Place::new(DAEMON).await else { return };
    contract::compute(&place.compute, &place.shelf).await;
}

#[tokio::test]
async fn docker_another_engine_goes_on() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::another_engine_goes_on(place).await;
}

#[tokio::test]
async fn docker_of_many_starts_one_runs() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::of_many_starts_one_runs(place).await;
}

#[tokio::test]
async fn docker_a_container_that_somebody_removes_is_over() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::a_container_that_somebody_removes_is_over(place).await;
}

#[tokio::test]
async fn docker_an_agent_that_eats_memory_is_told_apart() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::an_agent_that_eats_memory_is_told_apart(place).await;
}

#[tokio::test]
async fn docker_a_stop_that_is_not_obeyed_becomes_a_kill() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::a_stop_that_is_not_obeyed_becomes_a_kill(place).await;
}

#[tokio::test]
async fn docker_only_who_is_outside_ends_the_worker() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::only_who_is_outside_ends_the_worker(place).await;
}

#[tokio::test]
async fn docker_without_an_image_nothing_starts() {
    let Some(socket) = socket(DAEMON) else { return };
    scenes::without_an_image_nothing_starts(socket).await;
}

#[tokio::test]
async fn docker_an_image_without_a_worker_does_not_start() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::an_image_without_a_worker_does_not_start(place).await;
}

#[tokio::test]
async fn docker_a_starter_that_died_is_in_nobody_s_way() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::a_starter_that_died_is_in_nobody_s_way(place).await;
}

#[tokio::test]
async fn docker_what_is_in_a_container() {
    let Some(place) = Place::new(DAEMON).await else { return };
    scenes::what_is_in_a_container(place).await;
}
