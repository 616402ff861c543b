//! What an access costs, and why.
//!
//! Figures here are counts, and the command that prints each stands beside it. Times depend on the machine:
//! `crates/bench/README.md` has them, with the commands and the machine. Only
//! [misses by many threads](#misses-by-many-threads) has times, because predictions are made from them.
//!
//! # A hit
//!
//! [`Tenant::read`] of a resident page is inlined into its caller; rare cases are calls. It makes one
//! compare-and-swap when the guard is granted and one atomic addition when it is dropped. There is no
//! allocation, no lock, no reference count and no list. A guard that does not leave the function stays in
//! registers.
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
//! | address of the frame, whose first line is fetched | 9 | none |
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
//! without an atomic read-modify-write, and makes two plain stores to a line of the thread's own. If another
//! thread latches the page meanwhile, a longer path reads it again and finds out whether it was changed.
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
//! # Misses by many threads
//!
//! A miss holds the policy lock once, and does the rest without it: it empties the frame, reads, publishes.
//! `bufbench misses --threads 1 --hits 0 --scheme lru-sp,auto` measures both parts on a source in memory. By
//! one thread of a virtual AMD EPYC with 2 processors, nanoseconds, the run in the middle of three, of an
//! earlier build, which did not yet bring what it knows of likely victims into the processor's caches:
//!
//! | | processor time of a miss | of that, under the lock |
//! | --- | ---: | ---: |
//! | `lru-sp` | 1,881 | 243 |
//! | `auto` | 2,062 | 507 |
//!
//! *The model* is a closed queueing network (`Network` in `crates/bench/src/measure/misses/model.rs`): each
//! thread has one miss at a time, the lock is a station that serves one at a time, each drive is a station,
//! and the rest is a delay. Asymptotic bounds (Muntz and Wong) say what no schedule exceeds: with a time `D`
//! under the lock and `Z` elsewhere, `n` threads make at most `n / (D + Z)` misses, and no more than `1 / D`.
//! Mean value analysis (Reiser and Lavenberg) says how near that is: a thread that comes to a station finds
//! there what is there on average with one thread less. It takes service times to be exponential, which
//! overstates queues, and knows nothing of cache lines that processors take from each other, which overstates
//! the rate. The command prints it beside what is measured, with the error. In three runs of the same build
//! (with `--threads 1,2,4`) it said 5 to 14 % more than two threads made under `lru-sp`, and 3 % less to 5 %
//! more under `auto`; 6 to 15 % and 0 to 6 % more than four threads made on the two processors. On two
//! processors between which a cache line takes 100 ns one way, it said 29 to 34 % and 33 to 45 % more than
//! two threads made: such lines are what it leaves out.
//!
//! *Beyond the machine*, with a drive of 1.5 million reads a second that takes 80 us for one, and 32 misses
//! in flight a processor where there are drives, million misses a second, from the times above
//! (`bufbench misses --threads 1 --hits 0 --scheme lru-sp,auto --predict 16,64,128`):
//!
//! | | directories | 16 | 64 | 128 |
//! | --- | ---: | ---: | ---: | ---: |
//! | `lru-sp`, memory | 1 | 4.1 | 4.1 | 4.1 |
//! | `lru-sp`, memory | 2 | 6.5 | 8.1 | 8.2 |
//! | `lru-sp`, memory | 4 | 7.8 | 15.3 | 16.0 |
//! | `auto`, memory | 1 | 2.0 | 2.0 | 2.0 |
//! | `auto`, memory | 2 | 3.6 | 3.9 | 3.9 |
//! | `auto`, memory | 4 | 5.5 | 7.5 | 7.7 |
//! | `lru-sp`, one drive | 1 | 1.5 | 1.5 | 1.5 |
//! | `auto`, one drive | 1 | 1.5 | 1.5 | 1.5 |
//! | `lru-sp`, eight drives | 1 | 4.1 | 4.1 | 4.1 |
//! | `lru-sp`, eight drives | 2 | 6.0 | 8.2 | 8.2 |
//! | `lru-sp`, eight drives | 4 | 6.0 | 11.9 | 12.0 |
//! | `auto`, eight drives | 1 | 2.0 | 2.0 | 2.0 |
//! | `auto`, eight drives | 2 | 3.9 | 3.9 | 3.9 |
//! | `auto`, eight drives | 4 | 5.9 | 7.9 | 7.9 |
//!
//! One directory is enough for one drive. On a source of memory speed the lock is the bound from
//! `(D + Z) / D` threads on, 8 under `lru-sp` and 5 under `auto`: more processors bring nothing.
//! *A second directory pays where a machine reads more than `1 / D` pages a second*: with many reads in
//! flight from the third drive on under `lru-sp`, from the second on under `auto`.
//!
//! *The design of several directories*, which is not built. Each has a lock, a ledger and the accounts of
//! some tenants, and frames are lent to it. A page belongs to the directory of the account that it is in, so
//! that a miss holds one lock; the frame's owner says which, for hits that are drained. What they have in
//! common is in three places:
//!
//! * *Entitlement*: the order of heads over all accounts is what makes LRU-SP fair. Stamps come from one
//!   clock, advanced by batches. Each directory publishes the stamp of its oldest head. One whose oldest
//!   head is younger than another's by more than a batch asks that one for a frame under that one's lock,
//!   instead of giving up its own: so frames move to where they are needed, and the order differs from that
//!   of one ledger by a batch a directory at most.
//! * *Floors and caps* are kept where the account is: a directory never lends a frame that its own floors
//!   need. The sum of all floors is checked when one is set, under all locks in order.
//! * *Placeholders* are between blocks of one account, and stay in its directory. The commons is one account,
//!   so it does not spread: under `auto` a second directory pays only for tenants with accounts of their own.
//!
//! Tenants move only when they are opened or closed. With one directory nothing changes, and deterministic
//! mode has one.
//!
//! # Huge pages
//!
//! Frames and page words lie in memory that huge pages are advised for, from 2 MiB on: where the kernel
//! allows them (`/sys/kernel/mm/transparent_hugepage/enabled` says `madvise` or `always`), a hit needs two
//! translations that a processor's tables have room for. The directory is on the heap of the process. With
//! glibc, `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` has that advised, too. `AnonHugePages` of
//! `/proc/PID/smaps_rollup` shows what was granted.
//!
//! # Memory beside the pages
//!
//! | | bytes a frame |
//! | --- | --- |
//! | frame table | 48 |
//! | filter | 4 |
//! | directory: slot, and where the page came from | 56 |
//! | placeholders | 4 to 10, as far as there are any |
//! | pages of other tenants protected | 8, from the second tenant on |
//! | automatic manager | depends on the size of the pool; counted in `metadata_bytes` |
//!
//! [`Stats::metadata_bytes`](crate::stats::Stats::metadata_bytes) is their sum for a pool, frames of the
//! reserve included (`bufbench live --workload btree --tuples 1000 --frames 200000 --scheme lru
//! --report` prints it on standard error). Page tables come on top
//! ([`Stats::page_tables_bytes`](crate::stats::Stats::page_tables_bytes)): 8 bytes a page of the file, up to
//! the highest page that was touched. Each file reserves addresses for 1 GiB of them. Each thread that uses a
//! pool has a ring of 7 KB, which another thread takes over when it has ended.

#[cfg(doc)]
use crate::Tenant;
