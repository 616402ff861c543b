//! Valid policy programs, and workloads on a directory whose tenant they manage.

#![no_main]

#[path = "../../crates/policies/tests/program_ops/mod.rs"]
mod program_ops;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = program_ops::run_generated(bytes);
});
