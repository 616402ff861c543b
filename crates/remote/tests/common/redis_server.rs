//! A Redis or Valkey server of the tests' own.
#![allow(dead_code)]

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// In the environment: that no server is installed fails the tests that want one.
const REQUIRED: &str = "BUFPOOL_REDIS_REQUIRED";

/// A server on a free port, in a folder of its own. Killed when dropped.
pub struct Server {
    child: Child,
    port: u16,
    arguments: Vec<String>,
    folder: TempDir,
}

impl Server {
    /// With these settings. None, with the reason printed, if none is installed.
    ///
    /// # Panics
    ///
    /// Instead of that, if `BUFPOOL_REDIS_REQUIRED` is set to 1.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        // Another process may take the port meanwhile.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let Some(command) = NAMES.iter().find_map(|name| spawn(name, port, &arguments, &folder)) else {
                not_installed();
                return None;
            };
            if let Some(child) = ready(command) {
                return Some(Self { child, port, arguments, folder });
            }
        }
        panic!("the server does not start on any of 20 ports");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// As `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Empty, on the same port.
    pub fn restart(&mut self) {
        self.kill();
        let spawned = NAMES.iter().find_map(|name| spawn(name, self.port, &self.arguments, &self.folder));
        self.child = ready(spawned.unwrap()).expect("the port is still free");
    }

    /// It does nothing until it [goes on](Self::go_on), and its connections stay open.
    pub fn stop(&self) {
        self.signal("-STOP");
    }

    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says on the standard error, which `cargo test` shows of tests that pass, too, that there is no server.
fn not_installed() {
    let why = format!("none of {NAMES:?} is in PATH; on Debian: apt-get install redis-server");
    assert!(std::env::var_os(REQUIRED).is_none_or(|value| value != "1"), "{REQUIRED}=1, and {why}");
    let who = std::thread::current().name().unwrap_or("main").to_owned();
    // Not `eprintln`, whose text is shown of tests that fail only.
    let mut shown = io::stderr();
    writeln!(shown, "SKIPPED {who}: {why}").unwrap();
}

fn spawn(name: &str, port: u16, arguments: &[String], folder: &TempDir) -> Option<Child> {
    let mut command = Command::new(name);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(folder.path()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()
}

/// The server, once it takes connections; none if it ends before.
fn ready(mut child: Child) -> Option<Child> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    if !lines.any(|line| line.contains("eady to accept connections")) {
        let _ = child.wait();
        return None;
    }
    // What it says later must go somewhere.
    std::thread::spawn(move || lines.for_each(drop));
    Some(child)
}
