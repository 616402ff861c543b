//! Policy programs: the language, what it costs, what is checked, and what happens to a program that fails.
//!
//! A [`Program`] decides which of a tenant's pages goes when the tenant has to give up a frame. It is text,
//! written by an engine or a user of one, and the pool need not trust it: the text is verified before it
//! runs, and its steps are counted while it runs. The commands are those of HiPEC (Lee, Chen, Chang:
//! "In-Kernel Policy Interpretation for Application-Specific Memory Caching Management").
//!
//! | to | call |
//! | --- | --- |
//! | read a text, or the binary form of a program | [`Program::parse`], [`Program::from_bytes`] |
//! | open a tenant with a program | [`TenantOptions::program`] |
//! | change the program, or take it away | [`Tenant::set_program`], [`Tenant::clear_program`] |
//! | set a parameter | [`Tenant::send`] |
//! | see what it did | [`TenantStats::program`], [`Pool::report`] |
//! | allow longer searches | [`PoolOptions::program_fuel`] |
//!
//! # Worked example
//!
//! Second chance: pages stand in a ring in the order in which they came. The first page that was not used
//! since its last turn goes, and used pages before it get another turn. The pool keeps the reference bits,
//! so the program needs no event `access`, and most hits on its tenant's pages need not be noted one by one.
//!
//! ```
//! use bufpool::{FileOptions, PoolOptions, Program};
//!
//! const TEXT: &str = "
//! policy second_chance {
//!   queue ring                        # the page that came first is at the head
//!   int turns = 2                     # looks at each page at most; an engine may send another number
//!   const one = 1
//!
//!   event initial { ret }
//!   event fault(p) { enqt ring, p ; ret }
//!
//!   event replace(c) {
//!           len n, ring ; mul n, n, turns
//!     look: jz n, none ; sub n, n, one
//!           peekh v, ring ; isnil t, v ; jnz t, none
//!           ref t, v ; jnz t, spare
//!           pinned t, v ; jnz t, spare
//!           ret v
//!    spare: setref v, 0 ; enqt ring, v ; jmp look
//!     none: ret c                     # what the pool would take
//!   }
//! }";
//!
//! # fn main() -> bufpool::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("table");
//! let program = Program::parse(TEXT).expect("the text is right");
//! assert_eq!(program.steps_max("fault"), Some(2));
//! assert_eq!(program.steps_max("replace"), None); // it has a loop
//!
//! let pool = PoolOptions::new().frames(64).page_bytes(4096).deterministic(1).open()?;
//! let table = pool.open_file(&path, FileOptions::new().create(true))?;
//! table.extend(66)?;
//! let tenant = pool.tenant("table").program(&program).open()?;
//! for number in 0..64 {
//!     tenant.read(table.page(number))?;
//! }
//! tenant.read(table.page(0))?; // sets its bit
//! tenant.read(table.page(64))?; // page 1 goes
//! tenant.send("turns", 4)?;
//! tenant.read(table.page(0))?;
//!
//! let stats = pool.stats();
//! let program = stats.tenants[1].program.as_ref().unwrap();
//! assert_eq!((program.calls.fault, program.calls.replace, stats.tenants[1].misses), (65, 1, 65));
//! println!("{}", pool.report());
//! # drop((table, tenant));
//! # pool.close()
//! # }
//! ```
//!
//! # Grammar
//!
//! ```text
//! program = "policy" NAME ["privileged"] "{" { item } "}"
//! item    = "queue" NAME { "," NAME } | "ghost" NAME { "," NAME } | "page" NAME { "," NAME }
//!         | "int" NAME [ "=" NUMBER ] | "const" NAME "=" NUMBER | event
//! event   = "event" NAME [ "(" NAME ")" ] "{" { { LABEL ":" } instr } "}"
//! instr   = OP [ operand { "," operand } ]
//! operand = NAME | NUMBER
//! NAME    = a letter or "_", then letters, digits and "_"
//! NUMBER  = ["-"] digits | ["-"] "0x" hexadecimal digits, within 64 bits
//! ```
//!
//! An instruction ends at a `;`, at the end of the line, or before a `}`. `#` begins a comment that goes to
//! the end of the line. A label may stand on a line of its own; it belongs to its event.
//!
//! # Events
//!
//! | event | runs when | gives |
//! | --- | --- | --- |
//! | `initial` | the tenant gets the program; mandatory | |
//! | `fault(p)` | *p* has come in; for the pages that the tenant has when it gets the program, in the order in which they would have gone; mandatory | |
//! | `replace(c)` | the tenant has to give up a frame, and the pool would take *c*; mandatory | the page that goes |
//! | `access(p)` | *p* was found by an access | |
//! | `gone(p)` | *p* leaves; it is in its queue until the event ends | |
//! | `mistake(p)` | a page is missed that the program gave up although the pool would have taken *p* | |
//!
//! A `fault` of a *privileged* program gives a page, see [below](#privileged-tenants). Other events are the
//! program's own and run by `call`. An event without a page has no parameter.
//!
//! # Slots
//!
//! | declared by | holds | in the beginning |
//! | --- | --- | --- |
//! | `queue` | pages in an order, from head to tail; a page is in one queue, or in none | empty |
//! | `ghost` | numbers of pages that left, oldest first, at most as many as the pool has frames | empty |
//! | `page` | a page, or nil; nil when its page has left | nil |
//! | `int`, `const` | 64 bits with a sign; a `const` is never written | its value, else 0 |
//!
//! Declared slots keep their values between events. A name that is not declared belongs to one run of its
//! event, and has the type of its first use as a destination.
//!
//! # Instructions
//!
//! The destination comes first. *d a b* are ints, *p v w* pages, *q* a queue, *g* a list of ghosts, *L* a
//! label, *e* an event. The second column says how much fuel an instruction takes.
//!
//! | instructions | fuel | what they do |
//! | --- | --- | --- |
//! | `ret` `ret p` | 1 | ends the event, with the page that it gives |
//! | `jmp L` `jz a, L` `jnz a, L` | 1 | goes to the label: always, if *a* is 0, if it is not |
//! | `call e` `call e, p` | 1 | runs an event of the program's own |
//! | `ldc d, NUMBER` | 1 | the number |
//! | `add d, a, b` `sub d, a, b` `mul d, a, b` `min d, a, b` `max d, a, b` | 1 | wraps at 64 bits |
//! | `div d, a, b` `rem d, a, b` | 1 | truncates; a division by zero ends the event |
//! | `and d, a, b` `or d, a, b` `xor d, a, b` `not d, a` | 1 | bit by bit |
//! | `shl d, a, b` `shr d, a, b` | 1 | shifts by *b* modulo 64; `shr` keeps the sign |
//! | `lt d, a, b` `le d, a, b` `eq d, a, b` `ne d, a, b` | 1 | 1 if it is so, else 0 |
//! | `empty d, q` `len d, q` `inq d, p, q` | 1 | whether the queue is empty, how long it is, whether *p* is in it |
//! | `peekh v, q` `peekt v, q` | 1 | the page at the head, at the tail; nil if there is none |
//! | `deqh v, q` `deqt v, q` | 1 | the same, and takes it out |
//! | `next v, p` `prev v, p` | 1 | the page behind *p*, before it; nil at the end, and of a page in no queue |
//! | `copy v, p` | 1 | *p* itself |
//! | `enqh q, p` `enqt q, p` `unlink p` | 1 | moves *p* to the head, to the tail, out of its queue |
//! | `isnil d, p` `same d, p, w` | 1 | whether *p* is nil, whether two pages are one |
//! | `pinned d, p` | 1 | whether *p* could not be taken now; 0 but in a question |
//! | `mod d, p` | 1 | whether *p* has changes that its file does not have; 0 but in a question |
//! | `ref d, p` `setref p, BIT` | 1 | the reference bit: clear after a load, set by a hit |
//! | `meta d, p` `setmeta p, a` | 1 | a word of the program's own for each page: 0 after a load |
//! | `block d, p` | 1 | the number of *p* in its file |
//! | `find v, a` | 4 | the tenant's resident page of that number, in the file of the page that the event is about, which in a question is the missing one; else nil |
//! | `prio d, p` | 1 | 0: tenants with a program give no directives |
//! | `arg d, NAME` | 1 | `missing`, `candidate`: their numbers; `context`, `tenant`: who accesses; -1 where the event has none |
//! | `now d` `rand d` | 1 | accesses that the program was told of; 63 random bits from the pool's seed |
//! | `flush p` | 1 | a wish: *p* is written in the background and stays |
//! | `setmod p` | 1 | a wish: *p* counts as modified |
//! | `remember g, p` | 1 | *p* is the youngest ghost of *g*, and of no other list; if the list is full, the oldest goes |
//! | `recall d, g, p` | 1 | whether *p* was a ghost of *g*, which it is no more |
//! | `trim g, a` `ghosts d, g` | 1 | forgets the oldest until there are *a* at most, 64 at a time; how many there are |
//! | `request d, a` | 1 | privileged: how many of *a* frames the tenant may take below its cap |
//! | `release p` | 1 | privileged, a wish: *p* leaves, if it is modified once it is written |
//!
//! A question is a run of `replace`, or of a privileged program's `fault` that has to give up a page.
//! *Wishes* are carried out after the tenant's next question, without the policy lock, at most 64 at a time;
//! more are dropped. A wish is void if its page has left, and is not carried out if the page is held or
//! cannot be written now, nor a `release` of a page that another tenant uses. In deterministic mode, which
//! has no background writer, the miss that asked writes the pages that `flush` names.
//!
//! # Limits
//!
//! 32 queues, 4 lists of ghosts, 256 slots an event (those of the program included), 256 events, 4,096
//! instructions, 8 calls open at a time and none in a circle. `access` has at most 32 instructions with all
//! that it calls, and no loop, because it runs at hits.
//!
//! A program takes about 32 bytes for each frame, and more for ghosts if it has them; the pool's
//! `metadata_bytes` counts both.
//!
//! # What is checked before it runs
//!
//! | demand | why |
//! | --- | --- |
//! | every name has one type, every instruction its operands | nothing has a type at run time |
//! | every slot has a value on every path that reads it | no event sees what another one left |
//! | every page that is read was shown not to be nil: by `isnil t, v`, and `jz` or `jnz` on that `t` | no instruction but a division can fail |
//! | after `release` every page may be nil, after `call` every declared one | the page may be the one that left |
//! | every path ends with `ret`: with a page in a question, else without | there is always an answer |
//! | no circle of calls, no loop in `access` | their length is known |
//! | `request` and `release` in a privileged program only | others' frames are the pool's |
//!
//! An error says line and column, what was expected and what was found:
//!
//! ```
//! let text = "policy newest {
//!   queue all
//!   event initial    { ret }
//!   event fault(p)   { enqt all, p ; ret }
//!   event replace(c) { peekt v, all ; ret v }
//! }";
//! let error = bufpool::Program::parse(text).unwrap_err().to_string();
//! assert!(error.starts_with("5:41: expected a page that `isnil` and a jump have shown"), "{error}");
//! ```
//!
//! # When a program fails
//!
//! An *incident* is an event that takes more steps than its fuel, one that divides by zero, and an answer
//! that names a page which cannot be taken. The event ends there and what it did stands; a question is
//! answered by the pool's candidate. Fuel is 4,096 steps an event, and in a question 16 for each page of the
//! tenant if that is more. With 8 incidents among 1,024 events the program is *unloaded*: from then on the
//! tenant's pages go in LRU order. The report says so and why, and [`Tenant::set_program`] gives it a program
//! again.
//!
//! ```
//! # use bufpool::{FileOptions, PoolOptions, Program};
//! # fn main() -> bufpool::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("table");
//! # let pool = PoolOptions::new().frames(64).page_bytes(4096).deterministic(1).open()?;
//! # let table = pool.open_file(&path, FileOptions::new().create(true))?;
//! # table.extend(100)?;
//! let text = "policy sampled {
//!   int every = 2
//!   event initial    { ret }
//!   event fault(p)   { block n, p ; rem n, n, every ; setmeta p, n ; ret }
//!   event replace(c) { ret c }
//! }";
//! let tenant = pool.tenant("table").program(&Program::parse(text).unwrap()).open()?;
//! tenant.send("every", 0)?;
//! for number in 0..100 {
//!     tenant.read(table.page(number))?; // goes on all the same
//! }
//! let report = pool.report().to_string();
//! assert!(report.contains("unloaded: too many incidents, the last of them: event fault divided by zero"));
//! # drop((table, tenant));
//! # pool.close()
//! # }
//! ```
//!
//! An answer that can be carried out may be as bad as it likes. Like other managers' advice it costs the
//! tenant that gave it: LRU-SP sees when it was wrong, and after enough of that the program is not asked for
//! a while. Events run under the policy lock, so a program that searches long makes others wait for that
//! long; fuel limits this, and statistics say how much time the program took.
//!
//! # Privileged tenants
//!
//! A tenant that was opened by [`TenantOptions::privileged`] has been granted a number of frames: they are
//! its floor and its cap. While it has fewer, it takes those of others before its own; nobody takes one of
//! its own; and its manager is not judged, because nobody else pays. It may run any program, and it alone a
//! *privileged* one. While the tenant has all its frames, such a program is asked by its event `fault(c)`
//! instead of `replace(c)`, where *c* is the candidate and `arg d, missing` the number of the page that must
//! come in. When a page has come in, `fault(p)` runs as in other programs; `arg d, missing` is -1 then, and
//! the page that it gives means nothing.
//!
//! ```
//! # use bufpool::{ErrorKind, PoolOptions, Program};
//! # fn main() -> bufpool::Result<()> {
//! # let pool = PoolOptions::new().frames(64).page_bytes(4096).open()?;
//! let newest = Program::parse("policy newest privileged {
//!   queue all
//!   const zero = 0
//!   event initial    { ret }
//!   event fault(p)   { arg m, missing ; lt t, m, zero ; jz t, asked
//!                      enqt all, p ; ret p
//!               asked: peekt v, all ; isnil t, v ; jnz t, none ; ret v
//!                none: ret p }
//!   event replace(c) { ret c }
//! }").unwrap();
//! let own = pool.tenant("own").privileged(8).program(&newest).open()?;
//! assert_eq!(own.set_cap_frames(9).unwrap_err().kind(), ErrorKind::Privilege);
//! assert_eq!(pool.default_tenant().set_program(&newest).unwrap_err().kind(), ErrorKind::Privilege);
//! # drop(own);
//! # pool.close()
//! # }
//! ```
//!
//! # In the simulator
//!
//! `bufbench sim --policy program:FILE` runs the same programs on traces, with the same misses as a pool in
//! deterministic mode. It carries out no wishes, and there `mod` is 0. `examples/programs` has programs for
//! known policies.
//!
//! [`Pool::report`]: crate::Pool::report
//! [`PoolOptions::program_fuel`]: crate::PoolOptions::program_fuel
//! [`Program`]: crate::Program
//! [`Program::from_bytes`]: crate::Program::from_bytes
//! [`Program::parse`]: crate::Program::parse
//! [`Tenant::clear_program`]: crate::Tenant::clear_program
//! [`Tenant::send`]: crate::Tenant::send
//! [`Tenant::set_program`]: crate::Tenant::set_program
//! [`TenantOptions::privileged`]: crate::TenantOptions::privileged
//! [`TenantOptions::program`]: crate::TenantOptions::program
//! [`TenantStats::program`]: crate::stats::TenantStats::program
