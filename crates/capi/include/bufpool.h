// The C interface of bufpool, a buffer pool for storage engines. Made by cbindgen; examples/c/example.c uses
// it.
//
// A function that returns a bufpool_status returns BUFPOOL_OK, or what is wrong. bufpool_last_error() then
// says it in words. If a function fails, nothing has changed, unless the function says otherwise. A null
// pointer is BUFPOOL_INVALID_ARGUMENT, except where a function says that null is allowed. Outputs are written
// only with BUFPOOL_OK, unless the function says otherwise. Handles may be used by several threads at a time,
// except a bufpool_hints. A guard is used and released by the thread that was granted it.
//
// What the caller answers for: each pointer is valid until the call returns. A handle was given by this
// library and is not freed. Text ends with a zero byte. An output has room for its type, and no other thread
// uses it during the call. No thread changes an input during the call.

#ifndef BUFPOOL_H
#define BUFPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A call site, for functions that take one. Automatic managers learn about the accesses of each call site
// separately. The name is a string literal. The macro makes one static object for each place in the source.
#define BUFPOOL_SITE(name)                                                                                   \
  (__extension__({                                                                                           \
    static bufpool_site bufpool_site_here = {(name), __FILE__, __LINE__, NULL};                              \
    &bufpool_site_here;                                                                                      \
  }))

// Page `number` with a class from 1 to 255, for functions that access a page and take its number. A class is
// what the engine knows of the page, such as root, inner page or leaf. The automatic manager learns about
// each class separately. A plain number is a page without a class.
#define BUFPOOL_PAGE(number, class) ((uint64_t)(number) | (uint64_t)(uint8_t)(class) << 56)

// Words of a guard that only the library uses.
#define BUFPOOL_GUARD_WORDS 12

// The result of a call. The numbers do not change from version to version; new ones may be added.
typedef enum bufpool_status {
  // Done.
  BUFPOOL_OK = 0,
  // A null pointer, text that is not UTF-8, or a value that is not allowed.
  BUFPOOL_INVALID_ARGUMENT = 1,
  // A panic inside the library: a defect.
  BUFPOOL_PANICKED = 2,
  // An error that has no number of its own yet.
  BUFPOOL_OTHER = 3,
  // A page size that is no power of two, or out of range.
  BUFPOOL_PAGE_SIZE = 10,
  // The page size is no multiple of what direct I/O on this file needs.
  BUFPOOL_ALIGNMENT = 11,
  // Too few frames for the threads and floors, or more than a pool can have; or no memory for them.
  BUFPOOL_MEMORY = 12,
  // Options that contradict each other, or a value out of its range.
  BUFPOOL_INVALID_OPTIONS = 13,
  // The floors together are too large, or a floor is above its cap.
  BUFPOOL_FLOOR = 14,
  // A length that the file cannot have: no multiple of the page size, or too many pages.
  BUFPOOL_FILE_LENGTH = 15,
  // A page beyond the end of the file.
  BUFPOOL_PAGE_BEYOND_END = 16,
  // A range that ends beyond the file, or before it begins.
  BUFPOOL_RANGE = 17,
  // The file is open in this pool already.
  BUFPOOL_FILE_ALREADY_OPEN = 18,
  // Another process, or another pool, has locked the file.
  BUFPOOL_FILE_LOCKED = 19,
  // The file was closed or removed.
  BUFPOOL_FILE_CLOSED = 20,
  // A write has failed; the file takes no more writes until it is reopened.
  BUFPOOL_FILE_POISONED = 21,
  // The file was opened for reading only.
  BUFPOOL_READ_ONLY = 22,
  // A page is pinned or latched, and must be released first.
  BUFPOOL_PAGE_BUSY = 23,
  // A page stayed latched, or another thread was closing or resizing the file, for longer than 10 s.
  BUFPOOL_LATCH_TIMEOUT = 24,
  // The thread would wait for a latch that it holds itself.
  BUFPOOL_SELF_DEADLOCK = 25,
  // Every frame that could be taken is pinned.
  BUFPOOL_EXHAUSTED = 26,
  // A priority that is out of range, or a directive for a tenant whose manager takes none.
  BUFPOOL_DIRECTIVE = 27,
  // Priorities for more ranges of pages than the 4,096 that a tenant may have.
  BUFPOOL_DIRECTIVE_LIMIT = 28,
  // A program that only privileged tenants may run, and tenants opened here are not privileged.
  BUFPOOL_PRIVILEGE = 29,
  // The tenant runs no program.
  BUFPOOL_NO_PROGRAM = 30,
  // The program has no `int` of that name.
  BUFPOOL_UNKNOWN_SLOT = 31,
  // The text is no program; bufpool_last_error() names line and column.
  BUFPOOL_PROGRAM = 32,
  // The tenant was closed.
  BUFPOOL_TENANT_CLOSED = 33,
  // The pool was closed.
  BUFPOOL_POOL_CLOSED = 34,
  // The process has forked, and this is the child.
  BUFPOOL_FORKED_CHILD = 35,
  // Handles of different pools.
  BUFPOOL_WRONG_POOL = 36,
  // The kind of I/O that was required is not available here.
  BUFPOOL_IO_UNAVAILABLE = 37,
  // The device is full.
  BUFPOOL_NO_SPACE = 38,
  // The file was shortened by something other than the pool.
  BUFPOOL_UNEXPECTED_EOF = 39,
  // The engine's log failed.
  BUFPOOL_LOG = 40,
  // The contents of a page failed verification.
  BUFPOOL_CORRUPT = 41,
  // The file does not have its name any more: the name is gone, or another file has it.
  BUFPOOL_NAME_CHANGED = 42,
  // The descriptor does not allow what the pool does with it.
  BUFPOOL_DESCRIPTOR = 43,
  // Not possible with this kind of file, or with the default tenant.
  BUFPOOL_UNSUPPORTED = 44,
  // The operating system reported an error.
  BUFPOOL_IO = 45,
  // There is no file of that name.
  BUFPOOL_NOT_FOUND = 46,
  // The system does not allow it to this process.
  BUFPOOL_PERMISSION_DENIED = 47,
  // A writer of the page panicked.
  BUFPOOL_PAGE_POISONED = 48,
  // There is a file of that name, and one was to be made.
  BUFPOOL_ALREADY_EXISTS = 49,
  // A call with a limit of its own would have had to wait longer for others. Nothing is wrong.
  BUFPOOL_BUSY = 50,
} bufpool_status;

// An open file of a pool.
typedef struct bufpool_file bufpool_file;

// A list of the reads that a tenant has disclosed, in their order. Used by one thread at a time.
typedef struct bufpool_hints bufpool_hints;

// A pool of page frames.
typedef struct bufpool_pool bufpool_pool;

// A tenant: what owns pages, such as a table, a query, a connection or a thread.
typedef struct bufpool_tenant bufpool_tenant;

// How a file is opened. All zeros are the defaults: a file that exists, for reading and writing.
typedef struct bufpool_file_options {
  // Makes an empty file if there is none of this name.
  bool create;
  // Opens the file for reading only.
  bool read_only;
  // The file may have any length in bytes, and may end within a page.
  bool bytes;
  // Makes an empty file, and opens none that is there: BUFPOOL_ALREADY_EXISTS. One step, so of several
  // processes that try one succeeds.
  bool create_new;
  // The engine's own number for the file.
  uint64_t tag;
} bufpool_file_options;

// A call site. Made by BUFPOOL_SITE. It is static, and its texts are literals.
typedef struct bufpool_site {
  // The engine's name for the call site.
  const char *name;
  // The source file.
  const char *file;
  // The line in it.
  uint32_t line;
  // Used by the library; null at first.
  void *made;
} bufpool_site;

// A latch on a page, or a pin that keeps a page in memory. The caller has the memory for it, and must not
// move it from the call that grants it until the same thread calls bufpool_release. The handles of the file
// and the tenant, and the pin of bufpool_latch, must not be freed or released before. A guard that was
// released, or is all zeros, holds nothing; to release it again does nothing.
typedef struct bufpool_guard {
  // The page's bytes, for reading; null in a pin.
  const uint8_t *bytes;
  // The number of these bytes, the size of a page; 0 in a pin.
  size_t len;
  // Used by the library: the kind of guard.
  size_t kind;
  // Used by the library: the guard.
  size_t held[BUFPOOL_GUARD_WORDS];
} bufpool_guard;

// A page of a file. Its number has no class.
typedef struct bufpool_page {
  // The file.
  const struct bufpool_file *file;
  // The page's number in it.
  uint64_t number;
} bufpool_page;

// Options of a pool. All zeros are the defaults.
typedef struct bufpool_pool_options {
  // Frames for pages, without the clean reserve; 0: as many as `memory_bytes` has room for.
  uint32_t frames;
  // Bytes of a page, a power of two from 512 to 1048576; 0: 8192.
  uint32_t page_bytes;
  // Bytes of memory for frames and the clean reserve together, if `frames` is 0; 0: 128 MiB.
  uint64_t memory_bytes;
  // Most threads that access pages at the same time; 0: 16.
  uint32_t threads_max;
  // Direct I/O, which bypasses the system's page cache. 0: where it is possible; 1: always, or opening
  // fails; 2: never.
  uint32_t direct;
  // 0: io_uring if there is one, else threads; 1: threads; 2: io_uring, or opening fails.
  uint32_t io;
  // Deterministic mode: the same calls by one thread give the same decisions. For tests.
  bool deterministic;
  // The seed of random numbers in deterministic mode.
  uint64_t seed;
  // The pool reads nothing ahead by itself.
  bool no_read_ahead;
} bufpool_pool_options;

// Counts of a pool since it was opened.
typedef struct bufpool_stats {
  // Guards and pins granted.
  uint64_t accesses;
  // Accesses that found their page in memory or being read.
  uint64_t hits;
  // Accesses that did not.
  uint64_t misses;
  // Misses that made their page instead of reading it.
  uint64_t creations;
  // Pages read from files.
  uint64_t reads;
  // Pages written to files.
  uint64_t writes;
  // Pages that left memory to give up their frame.
  uint64_t evictions;
  // Frames of the pool, without the clean reserve.
  uint32_t frames;
} bufpool_stats;

// An open file of a pool, as bufpool_pool_files lists it.
typedef struct bufpool_file_stats {
  // The path that it was opened by. Valid until the function that is told of the file returns.
  const char *name;
  // Its length in pages.
  uint64_t pages;
  // Its handles that are not freed, those that lists of hints have included; 0 if it is open in the pool
  // only.
  uint64_t handles;
  // Pages in memory.
  uint64_t resident_frames;
  // Of these, pages that differ from the file.
  uint64_t dirty_frames;
  // It was opened for reading only.
  bool read_only;
  // Pages were written since the last sync.
  bool unsynced;
  // A write has failed; the file takes no more writes until it is reopened.
  bool poisoned;
} bufpool_file_stats;

// Options of a tenant. All zeros are the defaults.
typedef struct bufpool_tenant_options {
  // Frames that other tenants cannot take.
  uint32_t floor_frames;
  // Most frames that it may own; 0: no cap.
  uint32_t cap_frames;
  // The name of a manager, "auto", "amp", "amp+", "pcc", "pcc-gain", "ubm", "ubm-gain", "dear" or "reuse",
  // or "none"; null: the automatic manager that tenants share.
  const char *manager;
  // The text of a program that decides which pages go; null: none.
  const char *program;
} bufpool_tenant_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens a file of the pool. The handle has to be freed by bufpool_file_free. Null options are the defaults.
enum bufpool_status bufpool_file_open(const struct bufpool_pool *pool,
                                      const char *name,
                                      const struct bufpool_file_options *options,
                                      struct bufpool_file **file);

// Frees a handle. The file stays open in its pool. Does nothing with null.
void bufpool_file_free(struct bufpool_file *file);

// Flushes the file and closes it; other handles find it closed. If that fails, the file stays open, unless
// it was poisoned: then it is closed and its dirty pages are lost. The handle has to be freed in any case.
enum bufpool_status bufpool_file_close(const struct bufpool_file *file);

// Writes the pages of the file that are dirty when the call begins, and makes the file durable. Waits for
// the device. If it fails, pages that were not written stay dirty.
enum bufpool_status bufpool_file_flush(const struct bufpool_file *file);

// Adds pages of zeros at the end of the file. `first`, which may be null, gets the number of the first new
// page.
enum bufpool_status bufpool_file_extend(const struct bufpool_file *file, uint64_t pages, uint64_t *first);

// Shortens the file to `pages` pages. Dirty pages behind them are not written.
enum bufpool_status bufpool_file_truncate(const struct bufpool_file *file, uint64_t pages);

// The number of pages of the file; 0 for a null handle.
uint64_t bufpool_file_pages(const struct bufpool_file *file);

// The length of the file in bytes; 0 for a null handle.
uint64_t bufpool_file_bytes(const struct bufpool_file *file);

// Sets the length of a file that was opened with the option `bytes`. What it grows by is zeros.
enum bufpool_status bufpool_file_set_bytes(const struct bufpool_file *file, uint64_t bytes);

// Latches a page for reading; other readers may have it too. The page is read from the file if it is not in
// memory. `from` is the call site, and may be null. May wait for the device and for writers of the page.
enum bufpool_status bufpool_read(const struct bufpool_tenant *tenant,
                                 const struct bufpool_file *file,
                                 uint64_t page,
                                 struct bufpool_site *from,
                                 struct bufpool_guard *guard);

// Latches a page exclusively. The page is read from the file if it is not in memory. `from` is the call
// site, and may be null. bufpool_bytes gives the bytes for writing.
enum bufpool_status bufpool_write(const struct bufpool_tenant *tenant,
                                  const struct bufpool_file *file,
                                  uint64_t page,
                                  struct bufpool_site *from,
                                  struct bufpool_guard *guard);

// Latches a page exclusively, filled with zeros and not read from the file. `from` is the call site, and may
// be null.
enum bufpool_status bufpool_create(const struct bufpool_tenant *tenant,
                                   const struct bufpool_file *file,
                                   uint64_t page,
                                   struct bufpool_site *from,
                                   struct bufpool_guard *guard);

// Keeps a page in memory without latching it. The page is read from the file if it is not in memory. `from`
// is the call site, and may be null.
enum bufpool_status bufpool_pin(const struct bufpool_tenant *tenant,
                                const struct bufpool_file *file,
                                uint64_t page,
                                struct bufpool_site *from,
                                struct bufpool_guard *pin);

// As bufpool_read, but BUFPOOL_BUSY once it has waited for other threads for `limit_ms` milliseconds; at
// once if that is 0. The time of its own read of the page is not limited.
enum bufpool_status bufpool_read_timeout(const struct bufpool_tenant *tenant,
                                         const struct bufpool_file *file,
                                         uint64_t page,
                                         struct bufpool_site *from,
                                         uint64_t limit_ms,
                                         struct bufpool_guard *guard);

// As bufpool_write, with the limit of bufpool_read_timeout.
enum bufpool_status bufpool_write_timeout(const struct bufpool_tenant *tenant,
                                          const struct bufpool_file *file,
                                          uint64_t page,
                                          struct bufpool_site *from,
                                          uint64_t limit_ms,
                                          struct bufpool_guard *guard);

// As bufpool_create, with the limit of bufpool_read_timeout.
enum bufpool_status bufpool_create_timeout(const struct bufpool_tenant *tenant,
                                           const struct bufpool_file *file,
                                           uint64_t page,
                                           struct bufpool_site *from,
                                           uint64_t limit_ms,
                                           struct bufpool_guard *guard);

// As bufpool_pin, with the limit of bufpool_read_timeout.
enum bufpool_status bufpool_pin_timeout(const struct bufpool_tenant *tenant,
                                        const struct bufpool_file *file,
                                        uint64_t page,
                                        struct bufpool_site *from,
                                        uint64_t limit_ms,
                                        struct bufpool_guard *pin);

// Latches a pinned page, exclusively or for reading. `pin` and `guard` must be two objects.
enum bufpool_status bufpool_latch(struct bufpool_guard *pin, bool exclusive, struct bufpool_guard *guard);

// As bufpool_latch, with the limit of bufpool_read_timeout.
enum bufpool_status bufpool_latch_timeout(struct bufpool_guard *pin,
                                          bool exclusive,
                                          uint64_t limit_ms,
                                          struct bufpool_guard *guard);

// The page's bytes for writing, and makes the page dirty. Null if the guard is not for writing.
uint8_t *bufpool_bytes(struct bufpool_guard *guard);

// Sets the log sequence number of the change under an exclusive guard, for engines with a log.
enum bufpool_status bufpool_set_lsn(struct bufpool_guard *guard, uint64_t lsn);

// Releases a guard or a pin. Does nothing with null, or with a guard that was released already.
void bufpool_release(struct bufpool_guard *guard);

// Discloses the pages that the tenant will read, in this order. The array is copied. The list has to be
// freed by bufpool_hints_free, at any time. `pages` may be null if `count` is 0.
enum bufpool_status bufpool_hint(const struct bufpool_tenant *tenant,
                                 const struct bufpool_page *pages,
                                 size_t count,
                                 struct bufpool_hints **hints);

// Appends pages to the list. The array is copied.
enum bufpool_status bufpool_hints_extend(struct bufpool_hints *hints,
                                         const struct bufpool_page *pages,
                                         size_t count);

// Puts pages in the place of all that the list has left. The array is copied. Pages that came in for the
// list and are named again are kept until they are read. Changes nothing if it fails.
enum bufpool_status bufpool_hints_replan(struct bufpool_hints *hints,
                                         const struct bufpool_page *pages,
                                         size_t count);

// Latches the next page of the list for reading. Behind the last page it returns BUFPOOL_OK, and the guard
// holds nothing (its `bytes` are null). Pages beyond the end of their file, and those of files that are
// closed, are left out. So are pages that were given with a class, because such a number is beyond the end
// of any file. If a page cannot be read, the next call goes on behind it.
enum bufpool_status bufpool_hints_next(struct bufpool_hints *hints, struct bufpool_guard *guard);

// Leaves out the next `pages` pages of the list, or all if there are fewer.
enum bufpool_status bufpool_hints_skip(struct bufpool_hints *hints, size_t pages);

// Withdraws the rest of a list and frees it. Does nothing with null.
void bufpool_hints_free(struct bufpool_hints *hints);

// Opens a pool. The handle has to be freed by bufpool_pool_free.
enum bufpool_status bufpool_pool_open(const struct bufpool_pool_options *options, struct bufpool_pool **pool);

// Writes all dirty pages, makes them durable and closes the pool. A poisoned file makes this fail, and the
// pool is closed all the same. After any other failure, such as a page that stays latched or pinned, the
// pool stays open with all of its files. The handle has to be freed in any case.
enum bufpool_status bufpool_pool_close(const struct bufpool_pool *pool);

// Frees a handle. When the last handle of a pool is freed, those of its files, tenants and lists included,
// the pool ends. If it was not closed, its dirty pages are written then, and failures are not reported. Does
// nothing with null.
void bufpool_pool_free(struct bufpool_pool *pool);

// Writes the pages of all files that are dirty when the call begins, and makes them durable. Waits for the
// device.
enum bufpool_status bufpool_checkpoint(const struct bufpool_pool *pool);

// Writes the pool's counts to `stats`.
enum bufpool_status bufpool_pool_stats(const struct bufpool_pool *pool, struct bufpool_stats *stats);

// Calls `each` for each open file of the pool, in the order in which they were opened, with `context`. Looks
// at each frame, without a lock. `each` may call functions of this library, and must return.
enum bufpool_status bufpool_pool_files(const struct bufpool_pool *pool,
                                       void (*each)(const struct bufpool_file_stats *file, void *context),
                                       void *context);

// The pool's report about tenants and call sites, as text for people. The text has to be freed by
// bufpool_text_free.
enum bufpool_status bufpool_pool_report(const struct bufpool_pool *pool, char **text);

// The text of the last call of this thread that failed: file, page, operation and what was expected. Valid
// until the next call of this thread that fails. Never null; empty if no call has failed. In a destructor of
// thread-local data the text may be gone; another text says so.
const char *bufpool_last_error(void);

// Frees text that a function of this library gave. Does nothing with null.
void bufpool_text_free(char *text);

// Opens a tenant. The handle has to be freed by bufpool_tenant_free. The name is for reports. Null options
// are the defaults.
enum bufpool_status bufpool_tenant_open(const struct bufpool_pool *pool,
                                        const char *name,
                                        const struct bufpool_tenant_options *options,
                                        struct bufpool_tenant **tenant);

// The default tenant, for engines without tenants of their own. The handle has to be freed by
// bufpool_tenant_free.
enum bufpool_status bufpool_tenant_default(const struct bufpool_pool *pool, struct bufpool_tenant **tenant);

// Frees a handle. The tenant stays in its pool until it is closed. Does nothing with null.
void bufpool_tenant_free(struct bufpool_tenant *tenant);

// Closes the tenant. Its pages stay in memory, without a manager of its own. Fails with BUFPOOL_UNSUPPORTED
// for the default tenant. The handle has to be freed in any case.
enum bufpool_status bufpool_tenant_close(const struct bufpool_tenant *tenant);

// Directive: the policy of one priority, from -32 to 31, by its name, such as "lru", "mru" or "fifo". With
// another name the error lists all names.
enum bufpool_status bufpool_set_policy(const struct bufpool_tenant *tenant,
                                       int32_t priority,
                                       const char *policy);

// Directive: the long-term priority of a file's pages, from -32 to 31. Pages of the lowest priority go
// first.
enum bufpool_status bufpool_set_priority(const struct bufpool_tenant *tenant,
                                         const struct bufpool_file *file,
                                         int32_t priority);

// Directive: the priority of the pages from `first` to before `end` that are in memory and owned by the
// tenant. It lasts until the next access to the page.
enum bufpool_status bufpool_set_temporary_priority(const struct bufpool_tenant *tenant,
                                                   const struct bufpool_file *file,
                                                   uint64_t first,
                                                   uint64_t end,
                                                   int32_t priority);

// Loads a program, which decides from then on which of the tenant's pages go.
enum bufpool_status bufpool_set_program(const struct bufpool_tenant *tenant, const char *program);

// Sets an `int` of the tenant's program.
enum bufpool_status bufpool_send(const struct bufpool_tenant *tenant, const char *slot, int64_t value);

// Copies bytes of the file from `offset` on to `into`. `read`, which may be null, gets the number of bytes
// copied, which is less than `len` at the end of the file. If it fails, some bytes may have been copied.
// `from` is the call site, and may be null.
enum bufpool_status bufpool_read_at(const struct bufpool_tenant *tenant,
                                    const struct bufpool_file *file,
                                    uint64_t offset,
                                    uint8_t *into,
                                    size_t len,
                                    struct bufpool_site *from,
                                    size_t *read);

// Writes bytes to the file from `offset` on. A file that was opened with the option `bytes` grows if they
// end beyond its end. If it fails, the file may be longer, and the bytes before the page that failed are
// written. `from` is the call site, and may be null.
enum bufpool_status bufpool_write_at(const struct bufpool_tenant *tenant,
                                     const struct bufpool_file *file,
                                     uint64_t offset,
                                     const uint8_t *bytes,
                                     size_t len,
                                     struct bufpool_site *from);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BUFPOOL_H */
