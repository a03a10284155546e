//! Adapters in any language, in the real worker.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod contract;
mod found;
mod secrets;
mod support;
mod thread;
