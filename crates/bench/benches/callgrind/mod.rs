//! Instructions, loads and stores, counted by callgrind, under which the bench starts itself.

use std::process::Command;

use anyhow::Context;

/// How many instructions, loads and stores this bench makes with `arguments`: in functions that `toggle`
/// matches and those that they call or, without `toggle`, in all threads from beginning to end.
pub fn count(toggle: Option<&str>, arguments: &[&str]) -> anyhow::Result<[f64; 3]> {
    let output = Command::new("valgrind")
        // Loads and stores are counted only with the simulation of caches.
        .args(["--tool=callgrind", "--cache-sim=yes", "--callgrind-out-file=/dev/null"])
        .args(toggle.map(|toggle| format!("--toggle-collect={toggle}")))
        .arg(std::env::current_exe()?)
        .args(arguments)
        // Under valgrind the operations of an io_uring never complete.
        .env("BUFPOOL_REFUSE_URING", "1")
        .output()
        .context("start valgrind, which counts the instructions")?;
    let told = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "valgrind failed: {told}");
    let collected = told.lines().find_map(|line| line.split_once("Collected : "));
    let (_, collected) = collected.with_context(|| format!("valgrind told no count: {told}"))?;
    let mut events = collected.split_whitespace();
    let mut next =
        || events.next().context("valgrind counted less than was asked for")?.parse().context("a count");
    Ok([next()?, next()?, next()?])
}
