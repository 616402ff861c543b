//! The machine: its description, a bare loop on its device, processor time and memory of this process, and
//! the files of a run.
//!
//! Results name the machine, since numbers of different machines cannot be compared.

pub mod bare_loop;
pub mod cpu_time;
pub mod data_file;
pub mod fifo;
pub mod memory;
pub mod temporary;

use std::fs;
use std::path::Path;

/// Processor, memory, kernel, device, commit and command line of a result.
///
/// Processor, memory, kernel and device are read from `/proc`; what cannot be read is `unknown`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Model name of the first processor.
    pub processor: String,
    /// How many processors this process may use.
    pub processors: usize,
    /// Memory in bytes; 0 if unknown.
    pub memory_bytes: u64,
    /// Name and release of the operating system's kernel.
    pub kernel: String,
    /// File system type and device that hold the data files.
    pub device: String,
    /// The commit this program was built from, with `-dirty` after local changes.
    pub commit: &'static str,
    /// The command line, the program by its base name.
    pub command: String,
}

impl Machine {
    /// Describes this machine. `dir` is the folder of the data files.
    pub fn look(dir: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            kernel: format!("Linux {}", non_empty(read("/proc/sys/kernel/osrelease").trim())),
            device: device(dir, &read("/proc/self/mountinfo")),
            commit: env!("BUFBENCH_COMMIT"),
            command: command_line(),
        }
    }

    /// Name and value of each fact, in the order in which they are shown.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let memory = if self.memory_bytes == 0 {
            unknown()
        } else {
            format!("{:.1} GiB", self.memory_bytes as f64 / f64::from(1 << 30))
        };
        vec![
            ("processor", format!("{} x {}", self.processors, self.processor)),
            ("memory", memory),
            ("kernel", self.kernel.clone()),
            ("device", self.device.clone()),
            ("commit", self.commit.to_owned()),
            ("command", self.command.clone()),
        ]
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn non_empty(text: &str) -> String {
    if text.is_empty() { unknown() } else { text.to_owned() }
}

/// The value of the first line `name : value` with this name.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn memory_bytes(meminfo: &str) -> u64 {
    field(meminfo, "MemTotal")
        .and_then(|value| value.split(' ').next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// File system type and source of the mount that holds `dir`: that with the longest mount point that is a
/// prefix of `dir`.
fn device(dir: &Path, mountinfo: &str) -> String {
    let Ok(dir) = dir.canonicalize() else { return unknown() };
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, source) = line.split_once(" - ")?;
            let point = Path::new(mount.split(' ').nth(4)?);
            let mut source = source.split(' ');
            let (kind, source) = (source.next()?, source.next()?);
            dir.starts_with(point).then(|| (point.as_os_str().len(), format!("{kind} on {source}")))
        })
        .max_by_key(|(depth, _)| *depth)
        .map_or_else(unknown, |(_, device)| device)
}

/// The command line, the program by its base name.
fn command_line() -> String {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(program) = words.first_mut()
        && let Some(name) = Path::new(program.as_str()).file_name()
    {
        *program = name.to_string_lossy().into_owned();
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast One\nmodel name\t: Other\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("Fast One"));
        assert_eq!(field(cpuinfo, "flags"), None);
        assert_eq!(memory_bytes("MemTotal:       2048 kB\n"), 2 << 20);
    }

    #[test]
    fn the_deepest_mount_wins() {
        let dir = std::env::temp_dir().canonicalize().unwrap();
        let mounts = format!(
            "1 0 8:1 / / rw - ext4 /dev/root rw\n2 1 0:5 / {} rw shared:1 - tmpfs none rw\n",
            dir.display()
        );
        assert_eq!(device(&dir, &mounts), "tmpfs on none");
        assert_eq!(device(Path::new("/"), &mounts), "ext4 on /dev/root");
    }

    #[test]
    fn every_fact_has_a_value() {
        let machine = Machine::look(Path::new("."));
        assert!(machine.facts().iter().all(|(_, value)| !value.is_empty()), "{machine:?}");
    }
}
