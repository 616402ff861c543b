//! What an access costs, and what is in it.
//!
//! # A hit, as it is compiled
//!
//! [`Tenant::read`](crate::Tenant::read) of a resident page is inlined into its caller whole; what is rare is called. In the order of the
//! generated code (`objdump -d` of the bench `hit`, x86-64), with what the compiler puts between the steps to save and restore registers:
//!
//! | step | instructions | memory |
//! | --- | --- | --- |
//! | the caller's loop: the next page's number, the sum | 5 or 6 | caller's own |
//! | the tenant is open, in the file's pool: one comparison of a word that also says where the frames lie and how large they are | 4 | tenant; the file's handle |
//! | page table: one comparison with a constant, address of the word | 4 | the handle |
//! | page word: resident, with room for a holder, no writer waits: one comparison | 3 | the word |
//! | address of the frame, whose first line is fetched | 9 | none |
//! | one compare-and-swap | 3 | the word, **written** |
//! | hits are noted | 2 | none |
//! | key of pool, tenant, call site and scopes: one number, one comparison | 10 | thread's own |
//! | filter: the page was noted in this epoch | 6 | the handle; 4 bytes a frame, read only |
//! | the hit is counted; each so many the thread drains | 6 | key in the ring |
//! | guards of the thread counted, unless there is a recorder, which the sign tells | 4 | thread's own |
//! | *drop*: guards counted; one addition, whose sign says whether somebody waits | 4 | the word, **written** |
//!
//! Counted by callgrind (`cargo bench -p bufpool-bench --bench hit -- instructions`, a minute), the caller's loop included; instructions,
//! loads, stores:
//!
//! | | shared latch | optimistic |
//! | --- | --- | --- |
//! | hits not noted | 44, 9, 4 | 37, 10, 2 |
//! | everything on | 68, 19, 5 | 61, 20, 3 |
//! | an array with a bare word a page, latched or checked | 20, 6, 2 | 18, 6, 0 |
//! | an array | | 8, 2, 0 |
//!
//! There is no allocation, no lock, no reference count and no list. A guard that does not leave the function is in registers; bytes at
//! constant places below the least page size are read without a look at the length.
//!
//! What an instruction costs here is not its own time: on one page that is always in the first-level cache all of them take 5 ns. Where
//! pages lie all over memory, the time is that of cache misses, divided by how many of them a processor has in flight, and that is how many
//! visits fit into what it looks ahead. Its queue of loads is what is full first, however quickly they are served: twenty
//! instructions on registers put into a loop that checks a word and reads a page take it from 9.5 to 19.5 ns on the machine of the bench's table, ten
//! loads from one line that is always in the first-level cache to 24, twenty to 32. So a hit is made of few loads. All
//! that it needs to know of file and pool is in the file's handle, which the caller has; where the frames lie, their size, whether hits are
//! noted and where guards are counted is in the very word that says which pool it is; words that were never made can be looked at, so
//! that a constant bounds the table; and what is the thread's lies in its own memory, without a pointer. When hits went from 16 and
//! 24 loads to these they took less time, under latches 10 and 17 %, optimistically 29 and 22 %, with as many instructions or more.
//!
//! What else a hit does costs no more than its instructions and loads: the filter's 4 bytes a frame, which are mostly not in the first-level
//! cache, could be left out at no gain, and so could the prefetch.
//!
//! An optimistic read ([`Tenant::optimistic`](crate::Tenant::optimistic)) has two plain stores to a line of the thread's own instead (it
//! begins, it ends) and loads the word twice, with no atomic operation. Above all it writes nothing that threads share. If anybody
//! latches the page, or lets go of it, meanwhile, it is read again by a longer way, which finds out whether it was changed.
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
//! is noted is in [`Stats::hits_noted`](crate::stats::Stats::hits_noted): of each page the first hit in an epoch, and an epoch
//! lasts a twelfth of the age at which pages leave, or 256 hits a frame while no page comes in. So it falls with the skew of the
//! accesses and with their hit ratio, and does not depend on the number of threads. Where everything is in memory at most one hit in 256 is noted: if
//! that costs the lock's holder 200 ns, the lock is busy a quarter of the time at 320 million hits a second, which is 64 cores that do
//! a fifth of a microsecond of work between hits. Where pages come in, misses bound the pace long before: each takes the lock for
//! a microsecond.
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
//! | automatic manager | see [`ManagerKind`](crate::ManagerKind) |
//!
//! [`Stats::metadata_bytes`](crate::stats::Stats::metadata_bytes) is their sum for a pool. Page tables come on top: 8 bytes a page of the file up to the highest one that was touched, whether in memory or not; addresses are
//! reserved for a gigabyte of them a file. Each
//! thread that uses a pool has a ring of 7 KB, which other threads use when it has ended.
