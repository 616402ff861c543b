//! A stream of many tenants in the simulator: time, memory and misses.

use anyhow::Result;

use crate::machine::memory::with_peak_bytes;
use crate::simulate::{self, Policy, Setup};
use crate::trace::Trace;

/// What a simulation of a stream of many tenants took.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    /// Its accesses.
    pub accesses: u64,
    /// Those that missed.
    pub misses: u64,
    /// The greatest resident memory of the process during the simulation, less that before it, in bytes;
    /// `None` if the system does not tell.
    pub peak_bytes: Option<u64>,
    /// Nanoseconds an access.
    pub ns_access: f64,
}

/// Plays the trace. Under `auto` each tenant has a manager of its own unless `shared`. Memory is measured for
/// the whole process, so nothing else should run in it.
///
/// # Errors
///
/// As those of [`simulate::simulate`].
pub fn simulated(trace: &Trace, policy: Policy, frames: u32, shared: bool, seed: u64) -> Result<Simulated> {
    let setup = Setup { revocation: true, seed, shared_account: shared, ..Setup::frames(frames) };
    let (outcome, peak_bytes) = with_peak_bytes(|| simulate::simulate(trace, policy, &setup, None));
    let outcome = outcome?;
    let ns_access = outcome.elapsed.as_nanos() as f64 / trace.accesses().max(1) as f64;
    Ok(Simulated { accesses: trace.accesses(), misses: outcome.total().misses(), peak_bytes, ns_access })
}
