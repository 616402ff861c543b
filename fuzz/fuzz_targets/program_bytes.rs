//! Any bytes as a policy program, as text and as binary code. It is refused, or runs within its fuel.

#![no_main]

#[path = "../../crates/policies/tests/program_ops/mod.rs"]
mod program_ops;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| program_ops::run_bytes(bytes));
