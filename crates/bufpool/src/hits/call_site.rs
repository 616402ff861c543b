//! Numbers for call sites, given when the access log is drained.

use std::collections::HashMap;

use crate::thread::site::{SiteKey, SiteRef};

/// Numbers for call sites, from 1 in order of first appearance. There are as many as the program has places.
#[derive(Default)]
pub(crate) struct SiteTable {
    by_address: HashMap<usize, u32>,
    by_key: HashMap<SiteKey, u32>,
    keys: Vec<SiteKey>,
}

impl SiteTable {
    /// The site's number.
    pub fn intern(&mut self, site: SiteRef) -> u32 {
        let address = site.place.address();
        if let Some(&id) = self.by_address.get(&address) {
            return id;
        }
        let key = site.place.key();
        let next = self.keys.len() as u32 + 1;
        let id = *self.by_key.entry(key).or_insert(next);
        if id == next {
            self.keys.push(key);
        }
        self.by_address.insert(address, id);
        id
    }

    /// The description of site `id`, which `intern` gave.
    pub fn key(&self, id: u32) -> SiteKey {
        self.keys[id as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site;

    #[track_caller]
    fn here() -> SiteRef {
        SiteRef::caller()
    }

    #[test]
    fn a_line_and_column_is_one_site() {
        let mut table = SiteTable::default();
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(table.intern(here()));
        }
        assert_eq!(ids, [1, 1, 1]);
        assert_eq!(table.intern(here()), 2);
        assert_eq!(table.intern(SiteRef::named(site!("probe"))), 3);
        assert_eq!(table.key(3).name, Some("probe"));
    }
}
