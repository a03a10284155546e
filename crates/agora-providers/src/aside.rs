//! Waiting that no runtime waits for.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// Enough for a system call and what is around it: there may be a thread for each waiting caller.
const STACK: usize = 128 * 1024;

/// Does work that may wait for ever in a thread of its own.
///
/// Not in the runtime's pool: a runtime that ends waits for that. When nobody waits for the value any more it is dropped,
/// once the work is done.
pub(crate) async fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, value) = oneshot::channel();
    let work = move || drop(sender.send(work()));
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work)?;
    value.await.map_err(io::Error::other)
}
