//! Leases are locks on files: one has each, and nothing is left of those that nobody has.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
    let holders = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..8 {
        let (leases, holders) = (LocalLeases::new(Home::new(root.path())), Arc::clone(&holders));
        tasks.push(tokio::spawn(async move {
            let thread: ThreadId = "t_1".parse().unwrap();
            for _ in 0..50 {
                let lease = match number % 2 {
                    0 => Some(leases.take(&thread).await.unwrap()),
                    _ => leases.try_take(&thread).await.unwrap(),
                };
                if let Some(lease) = lease {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two have it");
                    tokio::task::yield_now().await;
                    holders.fetch_sub(1, Ordering::SeqCst);
                    drop(lease);
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(fs::read_dir(root.path().join("leases")).unwrap().count(), 0);
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
