//! Who is asking: the call site of an access.
//!
//! Access functions are `#[track_caller]`, so the site is the caller's source location. An engine with one
//! central fetch function names the real site itself with [`site!`](crate::site): `tenant.at(site!("inner scan")).read(page)`.
//! A site is noted as a pointer on the hit path and interned by file, line and column when the access log is drained.
//!
//! `#[track_caller]` says nothing useful through closures, function values and trait objects; wrappers repeat the attribute.

use std::collections::HashMap;
use std::panic::Location;

/// A call site named by the engine. Made by [`site!`](crate::site); costs nothing to pass around.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Site {
    name: &'static str,
    file: &'static str,
    line: u32,
    column: u32,
}

impl Site {
    /// A site at a source position. Use [`site!`](crate::site), which fills in the position.
    pub const fn new(name: &'static str, file: &'static str, line: u32, column: u32) -> Self {
        Self { name, file, line, column }
    }

    /// The name the engine gave it.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// A `&'static Site` for the place where the macro stands.
///
/// ```
/// let site: &'static bufpool::Site = bufpool::site!("inner scan");
/// assert_eq!(site.name(), "inner scan");
/// ```
#[macro_export]
macro_rules! site {
    ($name:expr) => {{
        static SITE: $crate::Site =
            $crate::Site::new($name, ::core::file!(), ::core::line!(), ::core::column!());
        &SITE
    }};
}

/// A call site as an access carries it.
#[derive(Clone, Copy)]
pub(crate) enum SiteRef {
    /// The source location of the call.
    Caller(&'static Location<'static>),
    /// The site the engine named.
    Named(&'static Site),
}

impl SiteRef {
    fn key(self) -> SiteKey {
        match self {
            Self::Caller(at) => SiteKey { name: None, file: at.file(), line: at.line(), column: at.column() },
            Self::Named(site) => {
                SiteKey { name: Some(site.name), file: site.file, line: site.line, column: site.column }
            }
        }
    }

    /// Where the site's description lies; equal addresses are equal sites, but not the other way round.
    fn address(self) -> usize {
        match self {
            Self::Caller(at) => std::ptr::from_ref(at).addr(),
            Self::Named(site) => std::ptr::from_ref(site).addr(),
        }
    }
}

/// What makes two sites the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SiteKey {
    pub name: Option<&'static str>,
    pub file: &'static str,
    pub line: u32,
    pub column: u32,
}

/// Numbers for call sites, from 1 in order of first appearance; 0 means unknown.
#[derive(Default)]
pub(crate) struct SiteTable {
    /// The site looked up last, which is often the next one too.
    last: Option<(usize, u32)>,
    by_address: HashMap<usize, u32>,
    by_key: HashMap<SiteKey, u32>,
    keys: Vec<SiteKey>,
}

impl SiteTable {
    /// The site's number, and true if it is new.
    pub fn intern(&mut self, site: SiteRef) -> (u32, bool) {
        let address = site.address();
        if let Some((_, id)) = self.last.filter(|(last, _)| *last == address) {
            return (id, false);
        }
        if let Some(&id) = self.by_address.get(&address) {
            self.last = Some((address, id));
            return (id, false);
        }
        let key = site.key();
        let next = self.keys.len() as u32 + 1;
        let id = *self.by_key.entry(key).or_insert(next);
        if id == next {
            self.keys.push(key);
        }
        self.by_address.insert(address, id);
        (id, id == next)
    }

    /// The description of site `id`, which `intern` gave.
    pub fn key(&self, id: u32) -> SiteKey {
        self.keys[id as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn here() -> SiteRef {
        SiteRef::Caller(Location::caller())
    }

    #[test]
    fn a_line_and_column_is_one_site() {
        let mut table = SiteTable::default();
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(table.intern(here()).0);
        }
        assert_eq!(ids, [1, 1, 1]);
        let (other, new) = table.intern(here());
        assert_eq!((other, new), (2, true));
        let (named, new) = table.intern(SiteRef::Named(site!("probe")));
        assert_eq!((named, new), (3, true));
        assert_eq!(table.key(3).name, Some("probe"));
    }
}
