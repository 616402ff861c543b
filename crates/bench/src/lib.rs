//! What `bufbench` is made of: traces, synthetic streams, the simulator, workloads, tables of results.
//!
//! This is a library so that tests and criterion benches drive the same code as the commands. It makes
//! measurements; it decides nothing: every replacement decision is taken by `bufpool-policies`, and every
//! page moves through `bufpool`.

pub mod bare_loop;
pub mod baselines;
pub mod cli;
pub mod commands;
pub mod cpu_time;
pub mod experiments;
pub mod hit_latency;
pub mod hits;
pub mod machine;
pub mod output;
pub mod page_writes;
pub mod parallel;
pub mod plot;
pub mod progress;
pub mod random;
pub mod random_reads;
pub mod read_futures;
pub mod recording;
pub mod report;
pub mod sequential_reads;
pub mod simulate;
pub mod sizes;
pub mod streams;
pub mod trace;
pub mod workload;
