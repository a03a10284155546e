//! File work off the event loop.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs file work where it may wait for the disk without holding up an event loop. A look at a small file is not worth it: to have
/// another thread do it takes longer.
///
/// On a runtime of one thread it runs right there: whoever chose that has one thing to do, and handing the work to
/// another thread takes longer than most of the work (`agora capability get` took 2.4 ms with it, 1.6 ms without).
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        // The work is never cancelled, so it panicked: a bug, which goes on as the panic it was.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
