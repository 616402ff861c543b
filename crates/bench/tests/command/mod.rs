//! `bufbench` as a script runs it.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::process::{Command, Output};

/// `bufbench` with these arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bufbench"));
    command.args(arguments);
    command
}

/// Runs `bufbench` with these arguments.
pub fn bufbench(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

/// The standard output of a run, which has to succeed.
pub fn stdout(arguments: &[&str]) -> String {
    let output = bufbench(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a run, which has to fail with status 1 and nothing on standard output.
pub fn failure(arguments: &[&str]) -> String {
    let output = bufbench(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}
