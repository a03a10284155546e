//! Leases are locks on files: one has each, and nothing is left of those that nobody has.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use agora_core::ThreadId;
use agora_core::provider::lease::Leases;
use agora_providers::Home;
use agora_providers::lease::LocalLeases;
use agora_testkit::contract;

#[tokio::test]
async fn they_keep_the_contract_and_leave_no_file() {
    let root = tempfile::tempdir().unwrap();
    let leases = || LocalLeases::new(Home::new(root.path()));
    contract::leases(&leases(), &leases()).await;
    assert_eq!(fs::read_dir(root.path().join("leases")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_take_and_give_back_one_has_it_at_any_time() {
    let root = tempfile::tempdir().unwrap();
    // Files go from lease to lease, so there are more threads than one.
    let holders = Arc::new([const { AtomicU32::new(0) }; 3]);
    let mut tasks = Vec::new();
    for number in 0..8 {
        let (leases, holders) = (LocalLeases::new(Home::new(root.path())), Arc::clone(&holders));
        tasks.push(tokio::spawn(async move {
            for turn in 0..150 {
                let which = (turn + number) % holders.len();
                let thread: ThreadId = format!("t_{which}").parse().unwrap();
                let lease = match number % 2 {
                    0 => Some(leases.take(&thread).await.unwrap()),
                    _ => leases.try_take(&thread).await.unwrap(),
                };
                if let Some(lease) = lease {
                    assert_eq!(holders[which].fetch_add(1, Ordering::SeqCst), 0, "two have it");
                    tokio::task::yield_now().await;
                    holders[which].fetch_sub(1, Ordering::SeqCst);
                    drop(lease);
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for dir in ["leases", "tmp"] {
        assert_eq!(fs::read_dir(root.path().join(dir)).unwrap().count(), 0, "{dir}");
    }
}

/// Whoever takes the lease of a thread that nobody knows yet has it: what is stored for the thread before it is recorded rests on that.
/// Others look after every lease that they find.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_is_never_seen_before_it_is_held() {
    let root = tempfile::tempdir().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..3)
        .map(|_| {
            let (leases, is_over) = (LocalLeases::new(Home::new(root.path())), Arc::clone(&is_over));
            tokio::spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    for thread in leases.list().await.unwrap() {
                        drop(leases.try_take(&thread).await.unwrap());
                    }
                }
            })
        })
        .collect();
    for number in 0..2_000 {
        // A process of its own each time: it has no file to spare.
        let leases = LocalLeases::new(Home::new(root.path()));
        let lease = leases.try_take(&format!("t_{number}").parse().unwrap()).await.unwrap();
        assert!(lease.is_some(), "somebody was faster with the {number}th");
    }
    is_over.store(true, Ordering::SeqCst);
    for other in others {
        other.await.unwrap();
    }
}

#[tokio::test]
async fn the_file_of_a_lease_that_was_given_back_is_that_of_the_next() {
    let root = tempfile::tempdir().unwrap();
    let leases = LocalLeases::new(Home::new(root.path()));
    let file = |thread: &str| fs::metadata(root.path().join("leases").join(thread)).map(|meta| meta.ino());
    let take = async |thread: &str| leases.try_take(&thread.parse().unwrap()).await.unwrap().unwrap();
    let first = take("t_1").await;
    let made = file("t_1").unwrap();
    drop(first);
    assert!(file("t_1").is_err(), "it has lost its name");
    let second = take("t_2").await;
    assert_eq!(file("t_2").unwrap(), made);
    let other = LocalLeases::new(Home::new(root.path()));
    assert!(other.try_take(&"t_2".parse().unwrap()).await.unwrap().is_none(), "and it is locked");
    drop(second);
    // Whoever tidies up takes it away: then another one is made.
    for spare in fs::read_dir(root.path().join("tmp")).unwrap() {
        fs::remove_file(spare.unwrap().path()).unwrap();
    }
    drop(take("t_3").await);
    drop(leases);
    assert_eq!(fs::read_dir(root.path().join("tmp")).unwrap().count(), 0);
}

/// A runtime that ends does not wait for whoever still waits.
#[test]
fn a_waiter_holds_nobody_up() {
    let root = tempfile::tempdir().unwrap();
    let leases = LocalLeases::new(Home::new(root.path()));
    let thread: ThreadId = "t_1".parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let held = runtime.block_on(leases.try_take(&thread)).unwrap().unwrap();
    let waiter = leases.clone();
    let waiting = runtime.spawn(async move { waiter.take(&"t_1".parse().unwrap()).await.map(drop) });
    runtime.block_on(tokio::task::yield_now());
    drop(runtime);
    drop((held, waiting));
}
