//! The real programs and services that `cargo xtask test` brings, and says which it could not.

use std::env;
use std::path::PathBuf;

/// Returns a real part by its variable, or says that the test goes without it. In CI `cargo xtask test` fails when a
/// part is missing, so that nothing is skipped there.
pub fn find(variable: &str) -> Option<PathBuf> {
    let found = env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if found.is_none() {
        skipped(&format!("{variable} is not set; `cargo xtask test` brings the real part"));
    }
    found
}

/// Says that a test, or a part of it, did not run.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Tells whether the large counts are wanted: `cargo xtask test --full`.
pub fn full() -> bool {
    env::var_os("AGORA_TEST_FULL").is_some()
}
