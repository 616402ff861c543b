//! Records the commit in the binary, so that a report can name the code that made it: `unknown` without git.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    let commit = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let commit = match commit {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    };
    println!("cargo::rustc-env=BUFBENCH_COMMIT={commit}");
}
