//! Hears Claude Code's stream, up to the envelope.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agora_worker::fuzz::claude(bytes));
