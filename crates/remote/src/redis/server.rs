//! What a server says of itself.

use std::fmt;

/// The first version that has GETDEL and GETEX.
const VERSION_MIN: (u32, u32) = (6, 2);

/// What matters of the answer to INFO. Of a cluster: sums, and the settings of its first node.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Server {
    name: &'static str,
    /// As it is written. Empty if the server does not say.
    version: String,
    /// The version of Redis that it is, or is compatible with.
    version_number: (u32, u32),
    /// Bytes; 0 if there is no limit.
    pub memory_max: u64,
    policy: String,
    pub keys: u64,
    pub memory_used: u64,
    /// Keys that were evicted since the server was started.
    pub evicted: u64,
}

impl Server {
    /// From what each node says; None of no node.
    pub fn of<'t>(nodes: impl IntoIterator<Item = &'t str>) -> Option<Self> {
        let mut nodes = nodes.into_iter().map(Self::of_node);
        let first = nodes.next()?;
        Some(nodes.fold(first, |mut sum, node| {
            sum.memory_max = sum.memory_max.saturating_add(node.memory_max);
            sum.memory_used = sum.memory_used.saturating_add(node.memory_used);
            sum.keys = sum.keys.saturating_add(node.keys);
            sum.evicted = sum.evicted.saturating_add(node.evicted);
            sum.version_number = sum.version_number.min(node.version_number);
            sum
        }))
    }

    fn of_node(text: &str) -> Self {
        let mut server = Self { name: "Redis", ..Self::default() };
        let number = |text: &str| text.parse().unwrap_or(0);
        for (field, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match field {
                "redis_version" => {
                    let mut parts = value.split('.').map(|part| part.parse().unwrap_or(0));
                    server.version_number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
                    if server.version.is_empty() {
                        value.clone_into(&mut server.version);
                    }
                }
                "valkey_version" => (server.name, server.version) = ("Valkey", value.to_owned()),
                "maxmemory" => server.memory_max = number(value),
                "maxmemory_policy" => value.clone_into(&mut server.policy),
                "used_memory" => server.memory_used = number(value),
                "evicted_keys" => server.evicted = number(value),
                _ if field.starts_with("db") => {
                    let keys = value.split(',').find_map(|part| part.strip_prefix("keys="));
                    server.keys = server.keys.saturating_add(keys.map_or(0, number));
                }
                _ => {}
            }
        }
        server
    }

    /// Whether it has the commands that are needed.
    pub fn is_new_enough(&self) -> bool {
        self.version_number >= VERSION_MIN
    }
}

/// The settings, and what is to be said against them.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.version.is_empty() { "of unknown version" } else { &self.version };
        write!(f, "{} {version}", self.name)?;
        if !self.is_new_enough() {
            let (major, minor) = VERSION_MIN;
            return write!(
                f,
                "; it is not used, expected {major}.{minor} or later, which has GETDEL and GETEX"
            );
        }
        match self.memory_max {
            0 => f.write_str("; no maxmemory, expected a limit: it takes memory until there is none")?,
            bytes => write!(f, "; maxmemory {bytes} bytes, {}", self.policy)?,
        }
        match self.policy.as_str() {
            "volatile-ttl" => Ok(()),
            "noeviction" if self.memory_max > 0 => {
                f.write_str(", expected volatile-ttl: it refuses pages once it is full")
            }
            _ if self.memory_max > 0 => {
                f.write_str(", expected volatile-ttl: it does not evict in the order of the tier's queue")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\n# Memory\r\nused_memory:900000\r\nmaxmemory:1048576\r\n\
        maxmemory_policy:volatile-ttl\r\nevicted_keys:12\r\ndb0:keys=100,expires=100,avg_ttl=5\r\n\
        db3:keys=11,expires=0,avg_ttl=0\r\n";

    #[test]
    fn what_a_server_says_is_read() {
        let server = Server::of([INFO]).unwrap();
        assert_eq!((server.keys, server.evicted, server.memory_max), (111, 12, 1 << 20));
        assert_eq!(server.to_string(), "Redis 7.0.15; maxmemory 1048576 bytes, volatile-ttl");
        let both = Server::of([INFO, INFO]).unwrap();
        assert_eq!((both.keys, both.evicted, both.memory_max), (222, 24, 2 << 20));
        let valkey = INFO.replace("# Memory", "valkey_version:8.1.0");
        assert!(Server::of([&*valkey]).unwrap().to_string().starts_with("Valkey 8.1.0; "));
    }

    #[test]
    fn settings_that_do_not_suit_are_told() {
        let told = |from: &str, to: &str| Server::of([&*INFO.replace(from, to)]).unwrap().to_string();
        assert!(told("volatile-ttl", "noeviction").contains("refuses pages once it is full"));
        assert!(told("volatile-ttl", "allkeys-lru").contains("does not evict in the order"));
        assert!(told("maxmemory:1048576", "maxmemory:0").contains("no maxmemory"));
        assert!(told("7.0.15", "6.0.16").contains("it is not used, expected 6.2 or later"));
        assert!(!Server::of([""]).unwrap().is_new_enough());
        assert_eq!(Server::of([]), None);
    }
}
