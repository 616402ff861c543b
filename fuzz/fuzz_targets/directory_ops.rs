//! Operations on the directory, compared with the naive LRU-SP.

#![no_main]

#[path = "../../crates/policies/tests/directory_ops/mod.rs"]
mod directory_ops;
#[path = "../../crates/policies/tests/naive/mod.rs"]
mod naive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(case) = directory_ops::Case::from_bytes(bytes) {
        case.run();
    }
});
