//! Streams of T. M. Wong, J. Wilkes: "My cache or yours? Making storage more exclusive", USENIX ATC '02, and
//! substitutes for its traces of several clients. Blocks are numbered from 1.
//!
//! In the paper a client and an array have 16,384 blocks each. A stream has eleven times as many reads as
//! blocks; the first eleventh of the reads is warm-up. The paper's third stream is `zipf`.

use std::collections::VecDeque;
use std::io;

use super::patterns;
use super::settings::{Parameter, Settings};
use super::stream::{Script, Stream};
use crate::random::Weighted;

pub(super) static ALL: &[Stream] = &[
    Stream {
        name: "random",
        about: "uniform random, over as many blocks as two caches have",
        parameters: &[
            Parameter::count("blocks", 32_768, "distinct blocks"),
            Parameter::count("accesses", 360_448, "accesses"),
        ],
        has_smart_advice: false,
        has_foolish_advice: false,
        emit: patterns::uniform,
    },
    Stream {
        name: "cyclic",
        about: "a loop, over one block less than two caches have",
        parameters: &[
            Parameter::count("blocks", 32_767, "distinct blocks"),
            Parameter::count("accesses", 360_437, "accesses"),
        ],
        has_smart_advice: false,
        has_foolish_advice: false,
        emit: cyclic,
    },
    Stream {
        name: "clients",
        about: "tenants in turns, each with Zipf's law: over blocks of its own, or all with the same reads, one \
                after the other",
        parameters: &[
            Parameter::count("clients", 8, "tenants, numbered from 0"),
            Parameter::count("blocks", 4_096, "distinct blocks of a tenant"),
            Parameter::count("accesses", 45_056, "accesses of a tenant"),
            Parameter::exponent("alpha", 1.0, "exponent"),
            LAG,
        ],
        has_smart_advice: false,
        has_foolish_advice: false,
        emit: clients,
    },
];

const LAG: Parameter = Parameter {
    name: "lag",
    default: 0.0,
    min: 0.0,
    max: (1_u64 << 32) as f64,
    whole: true,
    about: "reads by which each tenant is behind the one before, of the same blocks; 0: blocks of its own",
};

fn cyclic(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.count("blocks");
    (0..settings.count("accesses")).try_for_each(|access| script.access(1 + access % blocks, 1))
}

fn clients(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let zipf = Weighted::zipf(settings.kept::<f64>("blocks")?, settings.real("alpha"));
    match settings.count("lag") {
        0 => disjoint_clients(settings, script, &zipf),
        lag => lagging_clients(settings, script, &zipf, lag),
    }
}

fn disjoint_clients(settings: &Settings, script: &mut Script<'_>, zipf: &Weighted) -> io::Result<()> {
    for _ in 0..settings.count("accesses") {
        for client in 0..settings.count("clients") {
            let block = 1 + client * settings.count("blocks") + zipf.draw(&mut script.random);
            script.tenant = client as u32;
            script.access(block, 1)?;
        }
    }
    Ok(())
}

/// The first client reads blocks by Zipf's law. Each other client reads the same blocks in the same order,
/// `lag` turns after the client before it.
fn lagging_clients(
    settings: &Settings,
    script: &mut Script<'_>,
    zipf: &Weighted,
    lag: u64,
) -> io::Result<()> {
    let (clients, accesses) = (settings.count("clients"), settings.count("accesses"));
    let last_lag = (clients - 1).saturating_mul(lag);
    // The reads that the last client has still to make, and the number of the first of them.
    let (kept, mut first) = (accesses.min(last_lag.saturating_add(1)), 0);
    settings.room("lag", kept, size_of::<u64>())?;
    let mut reads = VecDeque::with_capacity(kept as usize);
    for turn in 0..accesses.saturating_add(last_lag) {
        if turn < accesses {
            reads.push_back(1 + zipf.draw(&mut script.random));
        }
        for client in 0..clients {
            let Some(read) = turn.checked_sub(client * lag).filter(|read| *read < accesses) else { continue };
            script.tenant = client as u32;
            script.access(reads[(read - first) as usize], 1)?;
            if client == clients - 1 {
                reads.pop_front();
                first += 1;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::streams::{self, Advice};
    use crate::trace::{Item, Reference};

    fn references(name: &str, set: &[&str]) -> Vec<Reference> {
        let items = streams::items(name, set, Advice::None, 1);
        let reference = |item| match item {
            Item::Access(reference) => reference,
            Item::Directive(directive) => panic!("{name} gives {directive:?}"),
        };
        items.into_iter().map(reference).collect()
    }

    fn of_client(references: &[Reference], client: u32) -> Vec<u64> {
        references.iter().filter(|read| read.tenant == client).map(|read| read.block).collect()
    }

    #[test]
    fn reads_are_eleven_times_the_blocks() {
        for (name, blocks) in
            [("random", 32_768), ("cyclic", 32_767), ("zipf", 49_152), ("clients", 8 * 4_096)]
        {
            let reads = references(name, &[]);
            assert_eq!(reads.len(), 11 * blocks, "{name}");
            assert!(reads.iter().all(|read| (1..=blocks as u64).contains(&read.block)), "{name}");
        }
        let cyclic = references("cyclic", &["blocks=3", "accesses=7"]);
        assert_eq!(of_client(&cyclic, 0), [1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn clients_have_blocks_of_their_own_or_lag() {
        let set = ["clients=3", "blocks=10", "accesses=200"];
        let disjoint = references("clients", &set);
        for client in 0..3 {
            let own = of_client(&disjoint, client);
            assert_eq!(own.len(), 200);
            assert!(own.iter().all(|block| (block - 1) / 10 == u64::from(client)), "{client}");
        }
        let lagging = references("clients", &[&set[..], &["lag=7"]].concat());
        assert_eq!(lagging.len(), 600);
        for client in 1..3 {
            assert_eq!(of_client(&lagging, client), of_client(&lagging, 0));
            let first = lagging.iter().position(|read| read.tenant == client).unwrap();
            let before = lagging[..first].iter().filter(|read| read.tenant == client - 1).count();
            // Seven turns, and the turn of the first access, in which the client before comes first.
            assert_eq!(before, 8, "{client}");
        }
    }
}
