//! Hostile programs behind the wall: each reaches for what is forbidden, and the dispatch ends well and says so.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]
#![expect(
    clippy::disallowed_methods,
    reason = "other programs run the worker, as somebody else or with less"
)]

mod agents;
mod bombs;
mod closed;
mod conversation;
mod cost;
mod hostile;
mod ladder;
mod sight;
mod support;
