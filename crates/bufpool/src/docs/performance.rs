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
//! | the tenant is open, in the file's pool: serial numbers | 5 | tenant; the file's first line |
//! | page table: one comparison, address of the word | 5 | the same line |
//! | page word: resident, with room for a holder, no writer waits: one comparison | 3 | the word |
//! | address of the frame, whose first line is fetched | 7 | the file's line |
//! | one compare-and-swap | 3 | the word, **written** |
//! | hits are noted | 2 | the file's line |
//! | key of pool, tenant, call site and scopes: one number, one comparison | 10 | thread's own |
//! | filter: the page was noted in this epoch | 6 | 4 bytes a frame, read only |
//! | the hit is counted, and those until the thread drains | 5 | key in the ring, thread's own |
//! | guards of the thread counted, unless there is a recorder, which the sign tells | 3 | thread's own |
//! | *drop*: guards counted; one addition, whose sign says whether somebody waits | 5 | the word, **written** |
//!
//! Counted by callgrind (`cargo bench -p bufpool-bench --bench hit -- instructions`, a minute), the caller's loop included:
//!
//! | | shared latch | optimistic |
//! | --- | --- | --- |
//! | hits not noted | 39 | 37 |
//! | everything on | 59 | 59 |
//! | an array with a bare word a page, latched or checked | 20 | 18 |
//!
//! There is no allocation, no lock, no reference count and no list. A guard that does not leave the function is in registers; bytes at
//! constant places below the least page size are read without a look at the length.
//!
//! What an instruction costs here is not its own time: on one page that is always in the first-level cache all of them take 5 ns. Where
//! pages lie all over memory, the time is that of cache misses, divided by how many of them a processor has in flight. Reading
//! an array takes eight instructions a page, so the misses of a dozen visits overlap; of hits of sixty, five or so fit into what
//! the processor looks ahead. Forty instructions that do nothing, put into a loop that checks a word and reads a page, take it from
//! 8 to 24 ns. The bench has that bare loop, too, checked and latched: 1.4 to 1.6 and 2.2 to 2.4 times the array's time is what any
//! translation and latch in a word costs on the machine of its table, and no latch goes below. It is also why the frame's first line
//! is fetched before the compare-and-swap, which later loads wait for. That is not all of it: the last third of a hit's instructions
//! went without its time, to the array's, becoming much less (`crates/bench/README.md`).
//!
//! What else a hit does costs no more than its instructions: without the filter's 4 bytes a frame, which are mostly not in the first-level
//! cache, and with nothing noted it takes the same time, and so it does without the prefetch or without the counts of guards.
//!
//! An optimistic read ([`Tenant::optimistic`](crate::Tenant::optimistic)) has two plain stores to a line of the thread's own instead (it
//! begins, it ends) and loads the word twice. That is two instructions less and no atomic operation. Where hits are noted they
//! outweigh what is left, so that it gains little on one thread: its gain is that it writes nothing that threads share. If anybody
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
//! is noted is in [`Stats::hits_noted`](crate::Stats::hits_noted): of each page the first hit in an epoch, and an epoch
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
//! | pages of other tenants protected | 8 |
//! | automatic manager | see [`ManagerKind`](crate::ManagerKind) |
//!
//! [`Stats::metadata_bytes`](crate::Stats::metadata_bytes) is their sum for a pool. Page tables come on top: 8 bytes a page of the file up to the highest one that was touched, whether in memory or not; addresses are
//! reserved for a gigabyte of them a file. Each
//! thread that uses a pool has a ring of 7 KB, which other threads use when it has ended.
