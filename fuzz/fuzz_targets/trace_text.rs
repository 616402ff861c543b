//! Any bytes as a trace, in each format.

#![no_main]

#[path = "../../crates/bench/tests/trace_bytes/mod.rs"]
mod trace_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trace_bytes::check(bytes));
