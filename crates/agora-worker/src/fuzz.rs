//! What the fuzzer reaches: adapters are nobody else's business. `cargo fuzz` alone builds with this.

use crate::adapter::trial;

/// Hears Claude Code's stream. Panics when something does not hold that must.
pub fn claude(output: &[u8]) {
    trial::claude(output);
}

/// Hears codex's stream. Panics when something does not hold that must.
pub fn codex(output: &[u8]) {
    trial::codex(output);
}

/// Hears an external adapter's answer. Panics when something does not hold that must.
pub fn external(output: &[u8]) {
    trial::external(output);
}
