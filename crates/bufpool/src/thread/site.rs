//! Who is asking: the call site of an access.
//!
//! Access functions are `#[track_caller]`, so the site is the caller's source location. An engine with one
//! central fetch function names the real site itself with [`site!`](crate::site): `tenant.at(site!("inner
//! scan")).read(page)`. A site is noted as a pointer on the hit path, with the [scope](crate::thread::scope)
//! around it, and both are interned when the access log is drained.
//!
//! `#[track_caller]` says nothing useful through closures, function values and trait objects; wrappers repeat
//! the attribute.

use std::panic::Location;

use crate::thread::context::ScopeId;

/// A call site named by the engine. Made by [`site!`](crate::site); costs nothing to pass around.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Site {
    name: &'static str,
    file: &'static str,
    line: u32,
    column: u32,
    hash: u64,
}

impl Site {
    /// A site at a source position. Use [`site!`](crate::site), which fills in the position.
    pub const fn new(name: &'static str, file: &'static str, line: u32, column: u32) -> Self {
        let position = (line as u64) << 32 | column as u64;
        Self { name, file, line, column, hash: fnv1a(fnv1a(position ^ FNV_OFFSET, file), name) }
    }

    /// The name the engine gave it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Equal for equal sites.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of Fowler, Noll and Vo, which can be computed at compile time.
const fn fnv1a(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
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

/// What an engine says that a page is; 0 if it says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct PageClass(pub u8);

impl PageClass {
    /// The engine says nothing.
    pub const NONE: Self = Self(0);
}

/// A call site as an access carries it, with the scopes around it and the class of the page.
#[derive(Clone, Copy)]
pub(crate) struct SiteRef {
    pub place: CallPlace,
    pub scope: ScopeId,
    pub class: PageClass,
}

/// A call site as an access begins with it. The scopes around it are looked up only where they are needed.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub place: CallPlace,
    /// None: those of the thread.
    pub scope: Option<ScopeId>,
    pub class: PageClass,
}

/// Where a call stands.
#[derive(Clone, Copy)]
pub(crate) enum CallPlace {
    /// The source location of the call.
    Caller(&'static Location<'static>),
    /// The site the engine named.
    Named(&'static Site),
}

/// Where accesses come from in a pool that does not tell sites apart.
static ANYWHERE: Site = Site::new("anywhere", "", 0, 0);

impl SiteRef {
    /// The one site of a pool whose `mask` is 0; this site where it is all ones. The class stays.
    pub fn masked(self, mask: u64) -> Self {
        if mask != 0 {
            return self;
        }
        Self { place: CallPlace::Named(&ANYWHERE), scope: ScopeId::NONE, class: self.class }
    }

    /// The same, for a page in this class.
    #[inline(always)]
    pub fn in_class(self, class: u8) -> Self {
        Self { class: PageClass(class), ..self }
    }
}

impl Origin {
    /// `place`, in `scope` or in the thread's current one, for a page in `class`.
    #[inline(always)]
    pub fn new(place: CallPlace, scope: Option<ScopeId>, class: PageClass) -> Self {
        Self { place, scope, class }
    }

    /// The same, for a page in this class.
    #[inline(always)]
    pub fn in_class(self, class: u8) -> Self {
        Self { class: PageClass(class), ..self }
    }

    /// The caller's source location, in the thread's current scope.
    #[track_caller]
    #[inline(always)]
    pub fn caller() -> Self {
        Self::new(CallPlace::caller(), None, PageClass::NONE)
    }
}

impl From<SiteRef> for Origin {
    fn from(site: SiteRef) -> Self {
        Self::new(site.place, Some(site.scope), site.class)
    }
}

impl CallPlace {
    /// The caller's source location.
    #[track_caller]
    #[inline]
    pub fn caller() -> Self {
        Self::Caller(Location::caller())
    }

    pub fn key(self) -> SiteKey {
        match self {
            Self::Caller(at) => SiteKey { name: None, file: at.file(), line: at.line(), column: at.column() },
            Self::Named(site) => {
                SiteKey { name: Some(site.name), file: site.file, line: site.line, column: site.column }
            }
        }
    }

    /// Where the site's description lies; equal addresses are equal sites, but not the other way round.
    #[inline]
    pub fn address(self) -> usize {
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
