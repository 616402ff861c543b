//! What an access costs, and why.
//!
//! Figures here are counts, and the command that prints each stands beside it. Times depend on the machine:
//! `crates/bench/README.md` has them, with the commands and the machine.
//!
//! # A hit
//!
//! [`Tenant::read`] of a resident page is inlined into its caller; rare cases are calls. It makes one
//! compare-and-swap when the guard is granted and one addition when it is dropped. There is no allocation, no
//! lock, no reference count and no list. A guard that does not leave the function stays in registers.
//!
//! The steps in the order of the generated code (`objdump -d` of the bench `hit`, x86-64), with what the
//! compiler adds between them to save registers:
//!
//! | step | instructions | memory |
//! | --- | --- | --- |
//! | the caller's loop: the next page's number, the sum | 5 or 6 | the caller's |
//! | the tenant is open, in the file's pool: one comparison of a word that also says where frames lie and how large they are | 4 | tenant, file handle |
//! | page table: one comparison with a constant, the address of the word | 4 | file handle |
//! | page word: resident, room for a holder, no writer waits: one comparison | 3 | page word |
//! | address of the frame, whose first line is prefetched | 9 | none |
//! | one compare-and-swap | 3 | page word, **written** |
//! | hits are noted | 2 | none |
//! | key of pool, tenant, call site and scopes: one number, one comparison | 10 | the thread's |
//! | filter: the page was noted in this epoch | 6 | file handle; 4 bytes a frame, read only |
//! | the hit is counted in its key; the count also says when to drain | 6 | the thread's ring |
//! | the thread's guards are counted, unless there is a recorder | 4 | the thread's |
//! | *drop*: guards are counted; one addition, whose sign says whether somebody waits | 4 | page word, **written** |
//!
//! Instructions, loads and stores of a visit with the caller's loop, counted by callgrind
//! (`cargo bench -p bufpool-bench --bench hit -- instructions`, a minute):
//!
//! | | shared latch | optimistic |
//! | --- | --- | --- |
//! | hits not noted | 44, 9, 4 | 37, 10, 2 |
//! | everything on | 67, 19, 5 | 61, 20, 3 |
//! | an array with a bare word a page, latched or checked | 20, 6, 2 | 18, 6, 0 |
//! | an array | | 8, 2, 0 |
//!
//! **Loads cost more than instructions.** Where pages lie all over memory, the time of a hit is that of cache
//! misses, divided by how many of them a processor has in flight. The processor's queue of loads is full
//! before anything else, even if the loads are served by the first-level cache. So a hit is made of few
//! loads: the file's handle has all that a hit needs of file and pool; the word that says which pool a tenant
//! is open in also says where frames lie, how large they are, whether hits are noted, and where guards are
//! counted; page words that were never made may be looked at, so a constant bounds the table; and what
//! belongs to the thread lies in its own memory, without a pointer.
//!
//! **Optimistic reads write nothing that threads share.** [`Tenant::optimistic`] loads the page word twice,
//! without an atomic read-modify-write, and makes two plain stores to a line of the thread's own. If somebody
//! latches the page meanwhile, a longer path reads it again and finds out whether it was changed.
//!
//! # Shared cache lines that are written
//!
//! | line | shared latch | optimistic |
//! | --- | --- | --- |
//! | page word | twice: latch, release | never |
//! | access log, key counts, guard count, reader's counter | never: the thread's own | never: the thread's own |
//! | filter, directory, epoch | by a thread that drains, once a page and epoch | the same |
//!
//! Threads that read different pages do not meet, except that eight neighbouring page words share a line.
//! Threads that latch one hot page take turns at its line, as at any lock word: adding cores adds no latches.
//! A page that hot belongs in an optimistic file, where its word is only read and stays in every core's
//! cache. `cargo bench -p bufpool-bench --bench hit -- one-page` compares the two.
//!
//! # What reaches the policy
//!
//! One lock protects the directory. A thread takes it for a batch of hits, at most once for 64 noted hits,
//! and once for each miss. [`Stats::hits_noted`](crate::stats::Stats::hits_noted) counts the hits that are
//! noted: of each page the first hit in an epoch. An epoch lasts a twelfth of the age at which pages leave,
//! or 256 hits a frame while no page comes in. So the share that is noted falls with the skew of the accesses
//! and with their hit ratio, and does not depend on the number of threads. Where everything is in memory, at
//! most one hit in 256 is noted.
//!
//! # Memory beside the pages
//!
//! | | bytes a frame |
//! | --- | --- |
//! | frame table | 40 |
//! | filter | 4 |
//! | directory: slot, and where the page came from | 56 |
//! | placeholders | 4 to 10, as far as there are any |
//! | pages of other tenants protected | 8, from the second tenant on |
//! | automatic manager | depends on the size of the pool; counted in `metadata_bytes` |
//!
//! [`Stats::metadata_bytes`](crate::stats::Stats::metadata_bytes) is their sum for a pool. Page tables come
//! on top ([`Stats::page_tables_bytes`](crate::stats::Stats::page_tables_bytes)): 8 bytes a page of the file,
//! up to the highest page that was touched. Each file reserves addresses for 1 GiB of them. Each thread that
//! uses a pool has a ring of 7 KB, which another thread takes over when it has ended.

#[cfg(doc)]
use crate::Tenant;
