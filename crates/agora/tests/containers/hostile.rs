//! Agents that reach for what is not theirs, in a container behind the worker's own wall: refused or contained, each.

use std::time::Duration;

use agora_core::provider::compute::{Compute, WorkerLife};
use agora_core::provider::shelf::Shelf;
use agora_testkit::worker::Dispatch;

use super::place::{DOCKER, PODMAN, Place, id};

/// A value that only the worker has.
const SECRET: &str = "a-canary-that-nobody-may-print";

/// Runs a script beside a worker that holds a secret, and returns what it printed and where it would have gone.
async fn attempt(variable: &str, script: &str) -> Option<(Place, String)> {
    let place = Place::new(variable).await?;
    let dispatch = Dispatch::script("", script).secret("local:canary", SECRET);
    let _dispatch = place.start(dispatch).await;
    assert_eq!(place.ended().await, WorkerLife::Ended);
    let printed = place.printed();
    Some((place, printed))
}

/// Sees that each attempt was refused: each prints `got` when it was not.
async fn is_refused(variable: &str, script: &str) {
    let Some((place, printed)) = attempt(variable, script).await else { return };
    assert!(printed.contains("tried"), "it ran: {printed}");
    assert!(!printed.contains("got"), "{printed}");
    assert!(place.outcome().await.contains("dispatch.finished"));
}

const READS: &str = "
    for file in /proc/1/environ /proc/1/mem /proc/1/maps /proc/1/fd/0 /proc/1/fd/1 /proc/1/cwd/agora/in/manifest.json \
                /agora/in/manifest.json /agora/in/worker.json /agora/out/events.jsonl /agora/out/worker.stderr; do
        head -c 1 $file >/dev/null 2>&1 && echo got $file
    done
    for guard in /proc/[0-9]*; do
        if grep -qa a-canary-that $guard/environ 2>/dev/null; then echo got $guard; fi
    done
    ls /agora/in >/dev/null 2>&1 && echo got in
    ls /agora/out >/dev/null 2>&1 && echo got out
    echo tried";

#[tokio::test]
async fn docker_refuses_to_read_what_is_the_worker_s() {
    is_refused(DOCKER, READS).await;
}

#[tokio::test]
async fn podman_refuses_to_read_what_is_the_worker_s() {
    is_refused(PODMAN, READS).await;
}

const WRITES: &str = "
    for file in /agora/in/manifest.json /agora/in/x /agora/out/outcome.json /agora/out/report.json /agora/out/x \
                /agora/out/events.jsonl /x /usr/bin/x /etc/passwd /agora/x; do
        (echo forged >> $file) 2>/dev/null && echo got $file
    done
    rm /agora/out/events.jsonl 2>/dev/null && echo got rm
    mv /agora/out /agora/work/out 2>/dev/null && echo got mv
    mount -t tmpfs x /agora/work 2>/dev/null && echo got mount
    ln /agora/out/events.jsonl here 2>/dev/null && echo got link
    echo tried";

#[tokio::test]
async fn docker_refuses_to_write_what_is_the_worker_s() {
    is_refused(DOCKER, WRITES).await;
}

#[tokio::test]
async fn podman_refuses_to_write_what_is_the_worker_s() {
    is_refused(PODMAN, WRITES).await;
}

const SIGNALS: &str = "
    for signal in TERM INT HUP KILL STOP USR1; do
        kill -$signal 1 2>/dev/null && echo got $signal
        kill -$signal $PPID 2>/dev/null && echo got guard $signal
    done
    echo tried";

/// Not even the signal is sent: Landlock keeps the agent's to itself.
#[tokio::test]
async fn docker_refuses_signals_to_the_worker() {
    is_refused(DOCKER, SIGNALS).await;
}

#[tokio::test]
async fn podman_refuses_signals_to_the_worker() {
    is_refused(PODMAN, SIGNALS).await;
}

const LIMITS: &str = "
    for limit in --cpu=1 --fsize=0 --nofile=0 --as=0; do
        prlimit --pid 1 $limit 2>/dev/null && echo got $limit
        prlimit --pid $PPID $limit 2>/dev/null && echo got guard $limit
    done
    echo 1000 2>/dev/null > /proc/1/oom_score_adj && echo got rank
    echo tried";

/// The worker is the same user: it could be ended by limits as well as by a signal.
#[tokio::test]
async fn docker_refuses_to_limit_the_worker() {
    is_refused(DOCKER, LIMITS).await;
}

#[tokio::test]
async fn podman_refuses_to_limit_the_worker() {
    is_refused(PODMAN, LIMITS).await;
}

/// Landlock does not know modes: what the agent may not open it can still close to its user, who is the worker.
const CLOSES: &str = "
    chmod 000 /agora/out/events.jsonl /agora/out/worker.stderr /agora/out/agent.stdout.log /agora/out
    chmod 777 /agora/in 2>/dev/null && echo got in
    echo tried";

#[tokio::test]
async fn docker_opens_again_what_an_agent_closed() {
    is_refused(DOCKER, CLOSES).await;
}

#[tokio::test]
async fn podman_opens_again_what_an_agent_closed() {
    is_refused(PODMAN, CLOSES).await;
}

const HOST: &str = "
    for socket in /var/run/docker.sock /run/docker.sock /run/podman/podman.sock; do
        [ -e $socket ] && echo got $socket
    done
    grep -q '@\\|/' /proc/net/unix && echo got sockets
    [ \"$(ls -d /proc/[0-9]* | wc -l)\" -lt 12 ] || echo got processes
    echo tried";

/// Neither the daemon, nor sockets of the machine, nor processes of another container are there.
async fn shows_nothing_of_the_machine(variable: &str) {
    let Some(other) = Place::new(variable).await else { return };
    let _dispatch = other.begun("exec sleep 1000").await;
    is_refused(variable, HOST).await;
    other.compute.stop(&id(), Duration::from_secs(60)).await.unwrap();
}

#[tokio::test]
async fn docker_shows_nothing_of_the_machine() {
    shows_nothing_of_the_machine(DOCKER).await;
}

#[tokio::test]
async fn podman_shows_nothing_of_the_machine() {
    shows_nothing_of_the_machine(PODMAN).await;
}

const FORGES: &str = r#"
    echo '{"seq":9,"at":"2026-01-01T00:00:00.000Z","kind":"dispatch.finished","dispatchId":"d_1","durationMs":1,"hmac":"00"}'
    exit 3"#;

/// What an agent prints is no event, whatever it says.
async fn takes_no_event_from_an_agent(variable: &str) {
    let Some((place, _)) = attempt(variable, FORGES).await else { return };
    assert!(place.outcome().await.contains("dispatch.failed"));
    let lines = place.shelf.lines(&id(), 0).await.unwrap();
    assert!(
        !lines.lines().any(|line| line.contains(r#""hmac":"00""#) && line.starts_with(r#"{"seq":9"#)),
        "{lines}"
    );
}

#[tokio::test]
async fn docker_takes_no_event_from_an_agent() {
    takes_no_event_from_an_agent(DOCKER).await;
}

#[tokio::test]
async fn podman_takes_no_event_from_an_agent() {
    takes_no_event_from_an_agent(PODMAN).await;
}

/// A fork bomb has no more processes than it may have, and goes with its agent.
async fn contains_a_fork_bomb(variable: &str) {
    let Some(place) = Place::new(variable).await else { return };
    let bomb = "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1; exit 0";
    let dispatch = Dispatch::script("", bomb).with(|manifest| manifest.limits.processes = Some(64));
    let _dispatch = place.start(dispatch).await;
    assert_eq!(place.ended().await, WorkerLife::Ended);
    assert!(place.shelf.outcome(&id()).await.unwrap().is_some(), "the worker had room to say how it went");
}

#[tokio::test]
async fn docker_contains_a_fork_bomb() {
    contains_a_fork_bomb(DOCKER).await;
}

#[tokio::test]
async fn podman_contains_a_fork_bomb() {
    contains_a_fork_bomb(PODMAN).await;
}

/// What an agent leaves running is gone with it, also what is nobody's child any more.
async fn leaves_nothing_running(variable: &str) {
    let script = "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done' & echo tried";
    let Some((place, printed)) = attempt(variable, script).await else { return };
    assert!(printed.contains("tried"));
    assert!(place.outcome().await.contains("dispatch.finished"));
}

#[tokio::test]
async fn docker_leaves_nothing_running() {
    leaves_nothing_running(DOCKER).await;
}

#[tokio::test]
async fn podman_leaves_nothing_running() {
    leaves_nothing_running(PODMAN).await;
}
