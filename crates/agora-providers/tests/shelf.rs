//! The shelf is directories: what is staged is there, what is left is read with care, and what is cleared is gone.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs::{self, OpenOptions, Permissions};
use std::future::poll_fn;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use agora_core::DispatchId;
use agora_core::provider::alarm::Alarm;
use agora_core::provider::compute::Sight;
use agora_core::provider::shelf::{Clearing, Concluded, Shelf};
use agora_core::time::{Clock, Timestamp};
use agora_providers::Home;
use agora_providers::alarm::SystemAlarm;
use agora_providers::shelf::LocalShelf;
use agora_testkit::cli::{command, run};
use agora_testkit::clock::SetClock;
use agora_testkit::contract;
use agora_testkit::worker::Dispatch;
use tempfile::TempDir;

fn id() -> DispatchId {
    "d_1".parse().unwrap()
}

/// A shelf with one dispatch on it, and that dispatch's directory.
async fn staged() -> (TempDir, LocalShelf, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let shelf = LocalShelf::new(Home::new(root.path()));
    shelf.stage(&Dispatch::script("", "true").manifest, &Sight::Same).await.unwrap();
    let dir = root.path().join("dispatches/d_1");
    (root, shelf, dir)
}

#[tokio::test]
async fn it_keeps_the_contract() {
    let root = tempfile::tempdir().unwrap();
    contract::shelf(&LocalShelf::new(Home::new(root.path()))).await;
}

#[tokio::test]
async fn what_is_staged_is_for_its_owner_only() {
    let (_root, shelf, dir) = staged().await;
    for name in ["", "in", "out", "work"] {
        assert_eq!(fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777, 0o700, "{name}");
    }
    let manifest = Dispatch::script("", "true").manifest;
    let at = shelf.stage(&manifest, &Sight::Same).await.unwrap();
    assert_eq!(at.location.to_string(), format!("file://{}/in/manifest.json", dir.display()));
    assert_eq!(fs::read(dir.join("in/manifest.json")).unwrap(), manifest.encode().unwrap());
}

/// An engine that died may have started a worker, and the next one stages its dispatch again.
#[tokio::test]
async fn a_manifest_that_is_staged_again_can_be_read_all_the_while() {
    let root = tempfile::tempdir().unwrap();
    let shelf = LocalShelf::new(Home::new(root.path()));
    let owner = Some(rustix::process::getuid().as_raw());
    let sight = Sight::Own { root: "/agora".into(), owner };
    let dispatch = Dispatch::script("", "true");
    shelf.stage(&dispatch.manifest, &sight).await.unwrap();
    let path = root.path().join("dispatches/d_1/in/manifest.json");
    let done = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&done);
    let watching = std::thread::spawn(move || {
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        std::iter::from_fn(|| (!over.load(Ordering::Relaxed)).then(mode)).find(|mode| *mode != 0o444)
    });
    for _again in 0..300 {
        shelf.stage(&dispatch.manifest, &sight).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    assert_eq!(watching.join().unwrap(), None, "a mode that was seen");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_file_system_is_told_that_dispatches_are_strangers() {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let (root, _shelf, _dir) = staged().await;
    let open = |name: &str| fs::File::open(root.path().join(name)).unwrap();
    let is_set = |dir: &fs::File| ioctl_getflags(dir).is_ok_and(|flags| flags.contains(IFlags::TOPDIR));
    let other = open("");
    assert!(!is_set(&other), "the home itself is like any directory");
    // What this file system lets anybody set.
    let _ = ioctl_getflags(&other).and_then(|flags| ioctl_setflags(&other, flags | IFlags::TOPDIR));
    assert_eq!(is_set(&open("dispatches")), is_set(&other));
}

/// In a container the agent may be the user who owns the directory. The test is run again without the powers before which no directory is
/// closed, where it has them.
#[tokio::test]
async fn whoever_waits_for_lines_outlasts_a_directory_that_the_agent_closed() {
    const HERE: &str = "whoever_waits_for_lines_outlasts_a_directory_that_the_agent_closed";
    let (_root, shelf, dir) = staged().await;
    let mode = |mode| fs::set_permissions(dir.join("out"), Permissions::from_mode(mode)).unwrap();
    mode(0);
    if fs::read_dir(dir.join("out")).is_ok() {
        let mut again = command("setpriv");
        again.args(["--bounding-set", "-all", "--inh-caps", "-all", "--"]);
        run(again.arg(std::env::current_exe().unwrap()).args(["--exact", HERE])).success();
        return;
    }
    let id = id();
    let mut more = Box::pin(shelf.more_lines(&id, 0));
    assert!(poll_fn(|context| Poll::Ready(more.as_mut().poll(context).is_pending())).await);
    mode(0o700);
    fs::write(dir.join("out/events.jsonl"), "one\n").unwrap();
    more.await.unwrap();
}

#[tokio::test]
async fn whoever_waits_for_lines_hears_of_each_and_of_no_half_one() {
    let (_root, shelf, dir) = staged().await;
    let mut events = OpenOptions::new().append(true).open(dir.join("out/events.jsonl")).unwrap();
    let id = id();
    let mut waiting = shelf.more_lines(&id, 0);
    let looked = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_ready())).await;
    assert!(!looked, "there is none");
    events.write_all(b"{\"half\":").unwrap();
    let looked = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_ready())).await;
    assert!(!looked, "half a line is none");
    events.write_all(b"1}\n").unwrap();
    waiting.await.unwrap();
    assert_eq!(shelf.lines(&id, 0).await.unwrap(), "{\"half\":1}\n");
    shelf.more_lines(&id, 0).await.expect("what is there is not waited for");
}

#[tokio::test]
async fn an_outcome_that_is_no_file_is_one_that_nothing_accepts() {
    let (_root, shelf, dir) = staged().await;
    symlink("/etc/passwd", dir.join("out/outcome.json")).unwrap();
    fs::create_dir(dir.join("out/report.json")).unwrap();
    assert_eq!(shelf.outcome(&id()).await.unwrap().as_deref(), Some(""));
    assert_eq!(shelf.report(&id()).await.unwrap().as_deref(), Some(""));
    assert_eq!(shelf.conclude(&id(), "ours").await.unwrap(), Concluded::Theirs(String::new()));
}

#[tokio::test]
async fn clearing_takes_what_an_agent_closed_and_follows_no_link() {
    let (root, shelf, dir) = staged().await;
    let outside = root.path().join("outside");
    fs::create_dir_all(outside.join("kept")).unwrap();
    fs::create_dir_all(dir.join("work/closed/deep")).unwrap();
    fs::write(dir.join("work/closed/deep/file"), "").unwrap();
    symlink(&outside, dir.join("work/closed/link")).unwrap();
    fs::set_permissions(dir.join("work/closed"), Permissions::from_mode(0o500)).unwrap();
    // An agent that is not walled in may even have made a link of its home.
    symlink(&outside, dir.join("home")).unwrap();
    shelf.clear(&id(), Clearing::Workspace).await.unwrap();
    let mut left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["in", "out"]);
    assert!(outside.join("kept").is_dir());
    shelf.clear(&id(), Clearing::Everything).await.unwrap();
    assert!(!dir.exists());
}

/// The clock is looked at again: a sleep that was too short by it goes on, and one that was too long is not begun.
#[tokio::test(start_paused = true)]
async fn an_alarm_goes_by_its_clock() {
    let start = Timestamp::from_millis(1_763_233_200_000);
    let clock = Arc::new(SetClock::at(&start.to_string()));
    let alarm = SystemAlarm::new(Arc::clone(&clock) as Arc<dyn Clock>);
    alarm.at(start).await;
    let rings = tokio::spawn(async move { alarm.at(start.plus(Duration::from_secs(3600))).await });
    tokio::time::sleep(Duration::from_secs(7200)).await;
    assert!(!rings.is_finished(), "the clock has not moved");
    clock.set(&start.plus(Duration::from_secs(3600)).to_string());
    let waited = tokio::time::Instant::now();
    rings.await.unwrap();
    assert!(waited.elapsed() <= Duration::from_secs(60), "a clock that jumped is noticed within a minute");
}
