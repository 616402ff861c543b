//! Operations on a pool on the simulated device, with failing calls and power cuts, compared with a model.

#![no_main]

#[path = "../../crates/bufpool/tests/common/mod.rs"]
mod common;
#[path = "../../crates/bufpool/tests/pool_ops/mod.rs"]
mod pool_ops;
#[path = "../../crates/bufpool/tests/tiers_below/mod.rs"]
mod tiers_below;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(case) = pool_ops::Case::from_bytes(bytes) {
        case.run();
    }
});
