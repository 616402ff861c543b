//! What `bufbench` is made of: traces, synthetic streams, the simulator, workloads, tables of results.
//!
//! It is a library so that tests and criterion benches run the same code as the commands. It measures and
//! compares. Replacement decisions are taken by `bufpool-policies`, and live workloads read and write their
//! pages through `bufpool`.
//!
//! Each module uses only modules further down:
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`commands`] | the command line, and one sub-command a file |
//! | [`cli`] | flags that several commands share |
//! | [`experiments`] | published experiments, a folder for each paper, with published values beside ours |
//! | [`measure`] | what the pool costs, beside a bare loop or other caches: misses, scans, writes, hits |
//! | [`workload`] | joins, scans, lookups and sorts over real tables in a live pool |
//! | [`search`] | the search for a policy program that misses less |
//! | [`grade`] | policies at many points beside reference policies: means, shares, the worst |
//! | [`baselines`] | recorded miss ratios of other programs, and where shared traces are |
//! | [`simulate`] | the simulator: traces against policies |
//! | [`streams`] | synthetic traces |
//! | [`trace`] | formats of traces, read and written; the recording of a live run |
//! | [`rounds`] | alternating rounds, and their median and spread |
//! | [`output`] | tables, charts, the HTML page, bars of progress |
//! | [`machine`] | the machine by itself: description, bare loop, processor time, files of a run |
//! | [`parallel`], [`random`] | tasks on threads, seeded random numbers |

#![warn(clippy::print_stderr, reason = "it panics if standard error is full or closed: `output::note`")]

pub mod baselines;
pub mod cli;
pub mod commands;
pub mod experiments;
pub mod grade;
pub mod machine;
pub mod measure;
pub mod output;
pub mod parallel;
pub mod random;
pub mod rounds;
pub mod search;
pub mod simulate;
pub mod streams;
pub mod trace;
pub mod workload;
