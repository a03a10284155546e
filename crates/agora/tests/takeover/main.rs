//! `agora takeover`: a person goes on with a thread themself, at a terminal.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

mod agents;
mod races;
mod shell;
mod support;
