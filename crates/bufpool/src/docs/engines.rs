//! Questions of an engine's author who puts the pool below an existing engine. SQLite on a VFS
//! (`examples/sqlite`) and programs in C (`crates/capi`) are complete examples.
//!
//! # Bytes instead of pages
//!
//! [`Tenant::read_at`] and [`Tenant::write_at`] take any offset and length, and
//! [`FileOptions::bytes`](crate::FileOptions::bytes) lets a file end within a page. They latch one page at a
//! time. If the engine needs a larger operation to be atomic, it uses its own locks, or a guard of
//! [`Tenant::write`].
//!
//! # A cache of the engine's in front
//!
//! Many engines copy pages into a cache of their own. Then the pool sees only what that cache misses: pages
//! that are used all the time look unused, and the same page takes memory twice. A third of the memory in
//! such a cache costs far more reads than it saves. So make that cache as small as it can be, and hold pages
//! by [`Tenant::pin`] or [`Tenant::pin_owned`] for as long as they are needed instead of copying them.
//! [`OwnedPin::as_ptr`](crate::OwnedPin::as_ptr) is for engines with latches of their own.
//!
//! # Pages that are written anew
//!
//! Use [`Tenant::overwrite`] or [`Tenant::create`], not [`Tenant::write`], for a page whose contents are
//! replaced as a whole: then nothing is read, and the automatic manager knows that the old contents were not
//! used again. An engine that copies what it changes, and uses the places of old pages for new ones, gets
//! its frames back from pages that nobody will read. [`Tenant::write_at`] does so by itself where it covers
//! whole pages.
//!
//! # Who asks: tags through layers
//!
//! The automatic manager learns by call site, which is the source line of the call. If a layer of code is in
//! between:
//!
//! * *a function of the engine's that fetches*: `#[track_caller]` on it, and on what calls it, up to the line
//!   that says something;
//! * *trait objects, closures and other languages*, through which that attribute does not go:
//!   `tenant.at(site!("name"))`, in C `BUFPOOL_SITE("name")`; for disclosed reads
//!   [`At::hint`](crate::At::hint);
//! * *an interpreter or a file interface*, which has one line for all queries: a [`Context`](crate::Context)
//!   for each statement, plan node or cursor, by [`Tenant::in_context`], or by a [`Scope`](crate::Scope)
//!   around the call;
//! * *threads that work for others*: the scope goes with the work; a thread enters it where it begins;
//! * *an engine that knows its pages*, root, inner page, leaf, heap or temporary page:
//!   `tenant.read(file.page(7).class(LEAF))`, in C `BUFPOOL_PAGE(7, LEAF)`.
//!   [`Page::class`](crate::Page::class) makes streams of what one line reads. Where the class is in the page
//!   itself, say the one that was seen last;
//! * *an engine that can say nothing of this*:
//!   [`TenantOptions::stack_contexts`](crate::TenantOptions::stack_contexts) takes the calls above an access.
//!   Pool and engine must be compiled with frame pointers.
//!
//! # Locks
//!
//! | | keeps out | does not keep out |
//! | --- | --- | --- |
//! | [`FileLock::Flock`](crate::FileLock::Flock) | pools and programs that use flock | `fcntl` locks, NFS clients of old servers |
//! | [`FileLock::Ofd`](crate::FileLock::Ofd) | pools with this option, programs that use `fcntl` or `lockf` | flock |
//! | [`FileLock::None`](crate::FileLock::None) | nobody | everybody: the engine's own lock has to |
//! | the pool itself | a second opening in the same pool, by any name | |
//!
//! A lock is exclusive for an opening that writes and shared for one that only reads. It lasts until the
//! file is closed in the pool, not until the last handle is dropped, and ends with the process. No lock
//! keeps out a program that asks for none. A child after a fork does not hold it.
//!
//! # The order of writes
//!
//! The pool writes pages in the order that suits the device. An engine with a log says what must be durable
//! before a page is ([`Log`](crate::engine::Log), [`WriteGuard::set_lsn`](crate::WriteGuard::set_lsn)), and
//! needs no other order. An engine without a log writes the first page with
//! [`File::flush_page`](crate::File::flush_page), and changes the second after that. There is no call that
//! orders one page after another: chains of such pages would have to be kept and followed at each eviction,
//! could be circles, and would let one page that stays latched hold up the frames of all before it. A log
//! says the same with a number.

#[cfg(doc)]
use crate::{OwnedPin, Tenant};
