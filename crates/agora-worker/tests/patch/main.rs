//! What a patch says is what the real git makes of it.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]
#![expect(clippy::disallowed_methods, reason = "git itself is the judge")]

mod hostile;
mod ignored;
mod known;
mod pause;
mod random;
mod scenarios;
mod secrets;
mod support;
