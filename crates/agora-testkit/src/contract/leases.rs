use std::future::poll_fn;
use std::task::Poll;

use agora_core::ThreadId;
use agora_core::provider::lease::Leases;

/// Every `Leases` passes this, with two that stand for two processes.
pub async fn leases(ours: &dyn Leases, theirs: &dyn Leases) {
    let thread: ThreadId = "t_1".parse().unwrap();
    let other: ThreadId = "t_2".parse().unwrap();
    let lease = ours.try_take(&thread).await.unwrap().expect("nobody has it");
    assert!(theirs.try_take(&thread).await.unwrap().is_none(), "one has it");
    assert!(ours.try_take(&thread).await.unwrap().is_none(), "also within one process");
    assert_eq!(theirs.list().await.unwrap(), std::slice::from_ref(&thread));
    let another = theirs.try_take(&other).await.unwrap().expect("a thread's lease is its own");
    drop(lease);
    let lease = theirs.try_take(&thread).await.unwrap().expect("it was given back");
    drop((lease, another));
    assert_eq!(ours.list().await.unwrap(), [], "nobody has any");
    drop(ours.take(&thread).await.unwrap());

    // Whoever waits gets it when it is given back, and whoever gave up waiting does not keep it.
    let lease = ours.take(&thread).await.unwrap();
    let mut gave_up = theirs.take(&thread);
    let looked = poll_fn(|context| Poll::Ready(gave_up.as_mut().poll(context).is_ready())).await;
    assert!(!looked, "it is taken");
    drop(gave_up);
    let taken = theirs.take(&thread);
    let given_back = async { drop(lease) };
    let (taken, ()) = tokio::join!(taken, given_back);
    let taken = taken.unwrap();
    assert!(ours.try_take(&thread).await.unwrap().is_none(), "the waiter has it now");
    drop(taken);
    drop(ours.take(&thread).await.expect("nobody keeps it"));
}
