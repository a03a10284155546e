//! Hears the answer of an external adapter.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agora_worker::fuzz::external(bytes));
