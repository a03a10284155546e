//! What nobody may want any more is taken away, and never anything of an open thread.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use agora_core::Namespace;
use agora_engine::{Agora, Dispatch, Settings, Sweep, Swept, Thread};
use agora_providers::Home;
use agora_testkit::cli::files_below;
use agora_testkit::clock::SetClock;
use serde_json::json;
use tempfile::TempDir;

use crate::support::Place;

struct Kept {
    root: TempDir,
    clock: Arc<SetClock>,
}

impl Kept {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), clock: Arc::new(SetClock::at("2026-11-15T12:00:00.000Z")) }
    }

    async fn agora(&self, most: u64) -> Agora {
        let clock = Arc::clone(&self.clock);
        let agora = Agora::with(Home::new(self.root.path()), Namespace::default(), clock);
        let mut settings = Settings::with_worker(env!("CARGO_BIN_EXE_agora"));
        settings.store_max_bytes = most;
        for (name, script) in [
            ("works", "head -c 100000 /dev/urandom > work.bin"),
            (
                "asks",
                "head -c 100000 /dev/urandom > work.bin; echo '{\"question\": \"?\"}' > .agora/needs_input.json",
            ),
        ] {
            let raw = json!({"runtime": "command", "command": ["/bin/sh", "-c", script]});
            let raw = serde_json::from_value(raw).unwrap();
            agora.register_subagent(&name.parse().unwrap(), raw, &[]).await.unwrap();
        }
        agora.with_settings(settings)
    }

    fn dir(&self, thread: &Thread) -> PathBuf {
        self.root.path().join("dispatches").join(thread.dispatch_id().as_str())
    }
}

async fn ended(agora: &Agora, agent: &str, days: u32) -> Thread {
    let thread = agora.dispatch(Dispatch::to(agent).retention_days(days)).await.unwrap();
    thread.wait().await.unwrap();
    thread
}

#[tokio::test]
async fn what_was_kept_long_enough_goes_and_what_is_open_stays() {
    let kept = Kept::new();
    let agora = kept.agora(u64::MAX).await;
    let (short, long) = (ended(&agora, "works", 1).await, ended(&agora, "works", 30).await);
    let open = ended(&agora, "asks", 1).await;
    let stray = kept.root.path().join("dispatches/d_stray");
    fs::create_dir(&stray).unwrap();
    kept.clock.set("2026-11-16T11:59:59.000Z");
    let early = agora.sweep(Sweep::Really).await.unwrap();
    assert_eq!((early.threads, early.strays), (vec![], vec!["d_stray".parse().unwrap()]));
    assert!(!stray.exists());

    kept.clock.set("2026-11-16T12:00:00.000Z");
    let before = files_below(&kept.root.path().join("dispatches"));
    let dry = agora.sweep(Sweep::DryRun).await.unwrap();
    assert_eq!(files_below(&kept.root.path().join("dispatches")), before, "nothing was taken");
    let swept = agora.sweep(Sweep::Really).await.unwrap();
    assert_eq!(swept, dry, "and it had said what would be");
    assert_eq!(swept.threads, [short.id().clone()]);
    assert!(swept.bytes_after + 100_000 < swept.bytes_before, "{swept:?}");
    assert!(agora.find(short.dispatch_id().as_str()).await.is_err());
    assert!(!kept.dir(&short).exists());
    assert_eq!(long.describe().await.unwrap().state, "finished");
    assert_eq!(open.describe().await.unwrap().state, "needs_input");

    // Its time is counted from the thread's end.
    kept.clock.set("2027-11-16T12:00:00.000Z");
    let swept = agora.sweep(Sweep::Really).await.unwrap();
    assert_eq!(swept.threads, [long.id().clone()]);
    assert!(kept.dir(&open).join("out/workspace.sealed").exists());
    open.cancel().await.unwrap();
    assert_eq!(agora.sweep(Sweep::Really).await.unwrap().threads, []);
    kept.clock.set("2027-11-17T12:00:00.000Z");
    assert_eq!(agora.sweep(Sweep::Really).await.unwrap().threads, [open.id().clone()]);
    assert_eq!(agora.sweep(Sweep::Really).await.unwrap(), Swept::default());
}

#[tokio::test]
async fn where_there_is_no_room_the_oldest_snapshots_go_first() {
    let kept = Kept::new();
    let agora = kept.agora(300_000).await;
    let first = ended(&agora, "works", 30).await;
    let open = ended(&agora, "asks", 30).await;
    kept.clock.set("2026-11-15T12:00:01.000Z");
    let last = ended(&agora, "works", 30).await;
    let snapshot = |thread: &Thread| kept.dir(thread).join("out/workspace.sealed").exists();
    assert!([&first, &open, &last].into_iter().all(snapshot));
    let dry = agora.sweep(Sweep::DryRun).await.unwrap();
    assert_eq!(dry.snapshots[0], *first.dispatch_id());
    let swept = agora.sweep(Sweep::Really).await.unwrap();
    assert_eq!(swept.snapshots[0], *first.dispatch_id(), "{swept:?}");
    assert!(!snapshot(&first) && snapshot(&open));
    assert_eq!(first.describe().await.unwrap().state, "finished", "what is known of it stays");
    assert_eq!(swept, dry, "what would be done was done");
}

#[test]
fn the_command_says_what_it_would_take_and_takes_it() {
    let place = Place::new();
    place.configure("[store]\nmax = \"1KiB\"\n");
    place.agent("works", "head -c 100000 /dev/urandom > work.bin");
    place.dispatch("works", "d_1", &[]).success();
    let sealed = place.dispatch_dir("d_1").join("out/workspace.sealed");
    let said = place.cli.run(&["gc", "--dry-run"]).success();
    assert!(said.starts_with("would take away 0 ended threads, 0 strays, 1 snapshot"), "{said}");
    assert!(sealed.exists());
    let swept = place.cli.run(&["gc", "--json"]).json();
    assert_eq!((&swept["snapshots"], &swept["dryRun"]), (&json!(["d_1"]), &json!(false)));
    assert!(!sealed.exists());
}
