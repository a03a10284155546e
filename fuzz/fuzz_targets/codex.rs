//! Hears codex's stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agora_worker::fuzz::codex(bytes));
