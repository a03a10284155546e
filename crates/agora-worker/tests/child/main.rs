//! Real children of a real guard. Linux only: elsewhere work runs in a container.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod cost;
mod endings;
mod limits;
mod output;
mod scenes;
mod support;
mod survivors;
