//! File work off the event loop.

/// Runs file work on a thread that may wait for the disk, so that an event loop never does.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        // The work is never cancelled, so it panicked: a bug, which goes on as the panic it was.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
