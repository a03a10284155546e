//! Reads and writes every form of the user input protocol.
#![no_main]

#[allow(dead_code, reason = "each target uses one")]
#[path = "../../crates/agora-core/tests/parsers/mod.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parsers::protocol(bytes));
