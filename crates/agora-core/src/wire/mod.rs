//! What the engine and the worker say to each other.
//!
//! ```text
//!  engine ── bootstrap line (standard input) ──▶ worker      keys and secrets, never stored
//!  engine ── manifest (by its hash) ───────────▶ worker      everything else
//!  worker ── event lines (standard output) ────▶ engine      signed where they count
//!  worker ── report, outcome (files) ──────────▶ engine      signed
//! ```

pub mod bootstrap;
mod hex;
pub mod keys;
pub mod line;
pub mod manifest;
pub mod receipt;
pub mod report;
