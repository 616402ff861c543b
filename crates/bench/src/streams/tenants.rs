//! Accesses of many tenants that run the same code on pages of their own. Blocks are numbered from 0.

use std::io;

use super::settings::{Parameter, Settings};
use super::stream::{Script, Stream};
use crate::random::{Permutation, Weighted};

pub(super) static ALL: &[Stream] = &[Stream {
    name: "tenants",
    about: "Zipf's law over the blocks of all tenants, of which each has as many; one call site",
    parameters: &[
        Parameter::count("tenants", 10_000, "tenants, numbered from 0; at most as many as blocks"),
        Parameter::count("blocks", 100_000, "distinct blocks of all tenants"),
        Parameter::count("accesses", 1_000_000, "accesses of all tenants"),
        Parameter::exponent("alpha", 0.9, "exponent"),
    ],
    has_smart_advice: false,
    has_foolish_advice: false,
    emit: tenants,
}];

fn tenants(settings: &Settings, script: &mut Script<'_>) -> io::Result<()> {
    let blocks = settings.kept::<f64>("blocks")?;
    let tenants = settings.count("tenants").min(blocks);
    let zipf = Weighted::zipf(blocks, settings.real("alpha"));
    let places = Permutation::new(blocks, script.random.bits());
    for _ in 0..settings.count("accesses") {
        let block = places.apply(zipf.draw(&mut script.random));
        script.tenant = (block * tenants / blocks) as u32;
        script.access(block, 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::streams::{Advice, items};
    use crate::trace::{Item, Reference};

    fn references(set: &[&str]) -> Vec<Reference> {
        let of = |item| match item {
            Item::Access(reference) => reference,
            Item::Directive(directive) => panic!("{directive:?}"),
        };
        items("tenants", set, Advice::None, 1).into_iter().map(of).collect()
    }

    #[test]
    fn each_block_has_one_tenant_and_the_blocks_do_not_depend_on_how_many_there_are() {
        let set = |tenants| [tenants, "blocks=1000", "accesses=20000"];
        let (many, one) = (references(&set("tenants=100")), references(&set("tenants=1")));
        let mut owners = HashMap::new();
        for (of_many, of_one) in many.iter().zip(&one) {
            assert_eq!((of_many.block, of_one.tenant), (of_one.block, 0));
            assert_eq!(*owners.entry(of_many.block).or_insert(of_many.tenant), of_many.tenant);
            assert!(of_many.tenant < 100 && of_many.block < 1000);
        }
        let mut tenants: Vec<u32> = owners.into_values().collect();
        tenants.sort_unstable();
        tenants.dedup();
        assert_eq!(tenants.len(), 100, "each tenant accesses something");
    }
}
