//! What an access costs, and what is in it.
//!
//! # A hit, as it is compiled
//!
//! [`Tenant::read`](crate::Tenant::read) of a resident page is inlined into its caller whole; what is rare is called. In the order of the
//! generated code (`objdump -d` of the bench `hit`, x86-64):
//!
//! | step | instructions | memory |
//! | --- | --- | --- |
//! | page and tenant are of one pool, tenant open | 4 | tenant |
//! | chunk of the page table: highest bit of the number, chunk present, index in range | 14 | file's chunk directory |
//! | page word: resident, no writer holds it or waits, one compare-and-swap | 9 | the word, **written** |
//! | ring of the thread, key of call site, scope and tenant: a hash, three comparisons | 22 | thread's own |
//! | filter: the page was noted in this epoch | 9 | 2 bytes a frame, read only |
//! | the hit is counted | 1 | key in the ring, thread's own |
//! | address of the frame | 6 | pool |
//! | guards of the thread counted, recorder asked for | 5 | thread's own |
//! | *drop*: one fetch-and-subtract, nobody waits, guards counted, recorder asked for | 8 | the word, **written** |
//!
//! About 80 instructions with two locked ones. There is no allocation, no lock, no reference count and no list. On the machine
//! of the bench's table the two locked instructions alone, with the word found and nothing else, take twice the array's time: a processor
//! overlaps the misses of plain loads from one visit to the next, and does not do so across a locked instruction.
//!
//! An optimistic read ([`Tenant::optimistic`](crate::Tenant::optimistic)) has two plain stores to a line of the thread's own instead (it
//! begins, it ends) and loads the word twice.
//!
//! # Cache lines written that threads share
//!
//! | | shared latch | optimistic |
//! | --- | --- | --- |
//! | the page's word | 1 | 0 |
//! | access log, key counts, guard count, reader's counter | 0: of the thread | 0: of the thread |
//! | filter, directory, epoch | 0: by whoever drains, once a page and epoch | 0: the same |
//!
//! So threads that read different pages do not meet, except that eight words of neighbouring pages share a line. Threads that
//! latch one hot page take turns at its line, as at any lock word: about one transfer of the line between caches a latch and one a release, 50 to
//! 100 ns each between cores of one socket, whatever their number; 64 cores latching one page make some 10 to 20 million latches
//! a second together, no more than one core does alone. A page that hot wants an optimistic file: its word is then read only, stays in
//! every core's cache, and 64 cores do 64 times what one does.
//!
//! # What reaches the policy
//!
//! One lock protects the directory. A thread takes it for a batch of hits, at most once for 64 noted hits, and for each miss. What share of the hits
//! is noted is in [`Stats::hits_noted`](crate::Stats::hits_noted): of each page the first hit in an epoch, and an epoch
//! lasts a twelfth of the age at which pages leave, or 64 hits a frame while no page comes in. So it falls with the skew of the
//! accesses and with their hit ratio, and does not depend on the number of threads. Where everything is in memory at most one hit in 64 is noted: if
//! that costs the lock's holder 200 ns, the lock is busy a quarter of the time at 80 million hits a second, which is 64 cores that do
//! three quarters of a microsecond of work between hits. Where pages come in, misses bound the pace long before: each takes the lock for
//! a microsecond.
//!
//! # Memory beside the pages
//!
//! | | bytes a frame |
//! | --- | --- |
//! | frame table | 40 |
//! | filter | 2 |
//! | directory: slot, and where the page came from | 56 |
//! | placeholders | 4 to 10, as far as there are any |
//! | pages of other tenants protected | 8 |
//! | automatic manager | see [`ManagerKind`](crate::ManagerKind) |
//!
//! [`Stats::metadata_bytes`](crate::Stats::metadata_bytes) is their sum for a pool. Page tables come on top: 8 bytes a page of the file, whether in memory or not. Each
//! thread that uses a pool has a ring of 7 KB, which other threads use when it has ended.
