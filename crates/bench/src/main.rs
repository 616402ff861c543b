//! `bufbench`: workloads, traces, the simulator and comparisons.

fn main() {}
