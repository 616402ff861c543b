// The C interface of bufpool, a buffer pool for storage engines. Made by cbindgen; examples/c/example.c uses it.
//
// Each function returns a bufpool_status: BUFPOOL_OK, or what is wrong, and bufpool_last_error() says it in words.
// Nothing has changed then but what the function says. A null pointer where one is expected is
// BUFPOOL_INVALID_ARGUMENT. Outputs are written only with BUFPOOL_OK, or as the function says. Handles may be used
// by any thread, several at a time; a guard stays with the thread that has it.
//
// What a pointer is to stays valid until the call returns: a handle that a function has given and nobody has freed,
// text that ends with a zero, room for an output, which nobody else uses meanwhile. Nobody changes inputs meanwhile.

#ifndef BUFPOOL_H
#define BUFPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A call site, to be passed where a function takes one: it tells automatic managers what the access is for. The
// name is a string literal. One object for each place, however often it is passed.
#define BUFPOOL_SITE(name)                                                                                   \
  (__extension__({                                                                                           \
    static bufpool_site bufpool_site_here = {(name), __FILE__, __LINE__, NULL};                              \
    &bufpool_site_here;                                                                                      \
  }))

// Page `number`, said to be of a class, 1 to 255, where a function that accesses a page takes its number: what the
// engine knows the page for, such as root, inner page or leaf. The automatic manager learns of each class by itself.
// A plain number is a page of which nothing is said.
#define BUFPOOL_PAGE(number, class) ((uint64_t)(number) | (uint64_t)(uint8_t)(class) << 56)

// Words of a guard that are the library's.
#define BUFPOOL_GUARD_WORDS 12

// What came of a call. The numbers stay as they are; new ones may be added.
typedef enum bufpool_status {
  // Done.
  BUFPOOL_OK = 0,
  // A null pointer, text that is not UTF-8, or a number that means nothing.
  BUFPOOL_INVALID_ARGUMENT = 1,
  // A panic inside; a defect of the library or of a callback.
  BUFPOOL_PANICKED = 2,
  // An error that has no number of its own yet.
  BUFPOOL_OTHER = 3,
  // A page size that is no power of two or out of range.
  BUFPOOL_PAGE_SIZE = 10,
  // Pages that are no multiple of what direct I/O needs.
  BUFPOOL_ALIGNMENT = 11,
  // The memory could not be had, or makes too few frames, or more than can be numbered.
  BUFPOOL_MEMORY = 12,
  // Options that do not fit together.
  BUFPOOL_INVALID_OPTIONS = 13,
  // More floors than frames.
  BUFPOOL_FLOOR = 14,
  // A length that the file cannot have.
  BUFPOOL_FILE_LENGTH = 15,
  // A page beyond the end of the file.
  BUFPOOL_PAGE_BEYOND_END = 16,
  // A range that is not in the file.
  BUFPOOL_RANGE = 17,
  // The file is open in this pool.
  BUFPOOL_FILE_ALREADY_OPEN = 18,
  // Somebody else has the file.
  BUFPOOL_FILE_LOCKED = 19,
  // The file was closed or removed.
  BUFPOOL_FILE_CLOSED = 20,
  // A write has failed; the file takes none until it is reopened.
  BUFPOOL_FILE_POISONED = 21,
  // The file was opened for reading only.
  BUFPOOL_READ_ONLY = 22,
  // A page is pinned.
  BUFPOOL_PAGE_BUSY = 23,
  // A page stayed latched for longer than the pool waits.
  BUFPOOL_LATCH_TIMEOUT = 24,
  // The thread holds what it waits for.
  BUFPOOL_SELF_DEADLOCK = 25,
  // All frames are held.
  BUFPOOL_EXHAUSTED = 26,
  // A directive that means nothing.
  BUFPOOL_DIRECTIVE = 27,
  // More directives than there may be.
  BUFPOOL_DIRECTIVE_LIMIT = 28,
  // A program that only privileged tenants may run.
  BUFPOOL_PRIVILEGE = 29,
  // The tenant runs no program.
  BUFPOOL_NO_PROGRAM = 30,
  // The program has no such slot.
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
  // The kind of I/O that was required is not to be had.
  BUFPOOL_IO_UNAVAILABLE = 37,
  // The device is full.
  BUFPOOL_NO_SPACE = 38,
  // The file is shorter than it was.
  BUFPOOL_UNEXPECTED_EOF = 39,
  // The engine's log failed.
  BUFPOOL_LOG = 40,
  // A page is not what was written.
  BUFPOOL_CORRUPT = 41,
  // The name is another file's by now.
  BUFPOOL_NAME_CHANGED = 42,
  // A descriptor that does not allow what is done with it.
  BUFPOOL_DESCRIPTOR = 43,
  // Not possible with such a file.
  BUFPOOL_UNSUPPORTED = 44,
  // The operating system reported an error.
  BUFPOOL_IO = 45,
  // There is no file of that name.
  BUFPOOL_NOT_FOUND = 46,
  // The system does not allow it to this process.
  BUFPOOL_PERMISSION_DENIED = 47,
  // A writer of the page panicked.
  BUFPOOL_PAGE_POISONED = 48,
} bufpool_status;

// An open file of a pool.
typedef struct bufpool_file bufpool_file;

// Reads that a tenant has disclosed, in their order. Used by one thread at a time.
typedef struct bufpool_hints bufpool_hints;

// A pool of frames. Several handles of one pool are the same to it.
typedef struct bufpool_pool bufpool_pool;

// Somebody who owns pages: a table, a query, a connection, a thread.
typedef struct bufpool_tenant bufpool_tenant;

// How a file is opened: all zeros open one that is there, for reading and writing.
typedef struct bufpool_file_options {
  // Make an empty file if there is none.
  bool create;
  // For reading only.
  bool read_only;
  // The file may end within a page.
  bool bytes;
  // The engine's number for the file.
  uint64_t tag;
} bufpool_file_options;

// A call site. Made by `BUFPOOL_SITE`; it is static, and its texts are literals.
typedef struct bufpool_site {
  // What the engine calls it.
  const char *name;
  // The source file.
  const char *file;
  // The line in it.
  uint32_t line;
  // Null at first. The library's.
  void *made;
} bufpool_site;

// Access to a page, or a pin that keeps it in memory. Room for one is the caller's, and stays where it is
// from the call that grants it to bufpool_release, by the same thread. A guard that was released, or is all
// zeros, is no guard, and releasing it does nothing. File, tenant and pin that it was granted for stay until
// then.
typedef struct bufpool_guard {
  // The page's bytes, for reading; null in a pin.
  const uint8_t *bytes;
  // Bytes of a page.
  size_t len;
  // The library's: what it is, and its parts.
  size_t kind;
  // See `kind`.
  size_t held[BUFPOOL_GUARD_WORDS];
} bufpool_guard;

// A page of a file. Its number has no class.
typedef struct bufpool_page {
  // The file.
  const struct bufpool_file *file;
  // The page's number in it.
  uint64_t number;
} bufpool_page;

// Options of a pool: all zeros are the defaults.
typedef struct bufpool_pool_options {
  // Frames for pages.
  uint32_t frames;
  // Bytes of a page: a power of two; 0: 8192.
  uint32_t page_bytes;
  // Memory in all, instead of `frames`.
  uint64_t memory_bytes;
  // Most threads that access pages at the same time; 0: the library's default.
  uint32_t threads_max;
  // 0: bypass the system's cache of pages where that is possible, 1: always, or fail, 2: never.
  uint32_t direct;
  // 0: io_uring if there is one, else threads; 1: threads; 2: io_uring, or fail.
  uint32_t io;
  // Same calls, same decisions; for tests, with one thread.
  bool deterministic;
  // For that mode.
  uint64_t seed;
  // Leave it to the engine what is read ahead.
  bool no_read_ahead;
} bufpool_pool_options;

// Counts of a pool since it was opened.
typedef struct bufpool_stats {
  // Guards and pins granted.
  uint64_t accesses;
  // Accesses that found their page.
  uint64_t hits;
  // Accesses that did not.
  uint64_t misses;
  // Of these, pages that were made instead of read.
  uint64_t creations;
  // Pages read.
  uint64_t reads;
  // Pages written.
  uint64_t writes;
  // Pages that left memory.
  uint64_t evictions;
  // Frames of the pool.
  uint32_t frames;
} bufpool_stats;

// Options of a tenant; all zeros are the defaults.
typedef struct bufpool_tenant_options {
  // Frames that others cannot take.
  uint32_t floor_frames;
  // Most frames that it may own; 0: all.
  uint32_t cap_frames;
  // "auto", "amp", ..., or "none"; null: the pool's default.
  const char *manager;
  // The text of a program that decides which pages go; null: none.
  const char *program;
} bufpool_tenant_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens a file, to be freed by bufpool_file_free. Null options are the defaults.
enum bufpool_status bufpool_file_open(const struct bufpool_pool *pool,
                                      const char *name,
                                      const struct bufpool_file_options *options,
                                      struct bufpool_file **file);

// Gives up a handle. The file stays open in its pool. Null is left alone.
void bufpool_file_free(struct bufpool_file *file);

// Flushes the file and closes it; other handles find it closed. The handle is to be freed in either case.
enum bufpool_status bufpool_file_close(const struct bufpool_file *file);

// Writes the file's dirty pages and makes it durable.
enum bufpool_status bufpool_file_flush(const struct bufpool_file *file);

// Adds pages of zeros at the end. `first`, which may be null, gets the number of the first of them.
enum bufpool_status bufpool_file_extend(const struct bufpool_file *file, uint64_t pages, uint64_t *first);

// Shortens the file to that many pages.
enum bufpool_status bufpool_file_truncate(const struct bufpool_file *file, uint64_t pages);

// The file's pages; 0 of a null handle.
uint64_t bufpool_file_pages(const struct bufpool_file *file);

// The file's length in bytes; 0 of a null handle.
uint64_t bufpool_file_bytes(const struct bufpool_file *file);

// Gives a file that was opened with `bytes` that length.
enum bufpool_status bufpool_file_set_bytes(const struct bufpool_file *file, uint64_t bytes);

// Shared access to a page, which is read if it is not in memory. `from` may be null.
enum bufpool_status bufpool_read(const struct bufpool_tenant *tenant,
                                 const struct bufpool_file *file,
                                 uint64_t page,
                                 struct bufpool_site *from,
                                 struct bufpool_guard *guard);

// Exclusive access to a page, which is read if it is not in memory.
enum bufpool_status bufpool_write(const struct bufpool_tenant *tenant,
                                  const struct bufpool_file *file,
                                  uint64_t page,
                                  struct bufpool_site *from,
                                  struct bufpool_guard *guard);

// Exclusive access to a page, filled with zeros and not read.
enum bufpool_status bufpool_create(const struct bufpool_tenant *tenant,
                                   const struct bufpool_file *file,
                                   uint64_t page,
                                   struct bufpool_site *from,
                                   struct bufpool_guard *guard);

// Keeps a page in memory without latching it.
enum bufpool_status bufpool_pin(const struct bufpool_tenant *tenant,
                                const struct bufpool_file *file,
                                uint64_t page,
                                struct bufpool_site *from,
                                struct bufpool_guard *pin);

// Latches a pinned page, exclusively or shared.
enum bufpool_status bufpool_latch(struct bufpool_guard *pin, bool exclusive, struct bufpool_guard *guard);

// The page's bytes for writing, which makes the page dirty; null without exclusive access.
uint8_t *bufpool_bytes(struct bufpool_guard *guard);

// Tells a write guard the log sequence number of its change, for engines with a log.
enum bufpool_status bufpool_set_lsn(struct bufpool_guard *guard, uint64_t lsn);

// Lets go of a guard or pin. Null, and what was released already, are left alone.
void bufpool_release(struct bufpool_guard *guard);

// Discloses the pages that the tenant will read, in order; they are copied. The list is to be freed by
// bufpool_hints_free, at any time.
enum bufpool_status bufpool_hint(const struct bufpool_tenant *tenant,
                                 const struct bufpool_page *pages,
                                 size_t count,
                                 struct bufpool_hints **hints);

// Discloses more pages behind those of the list.
enum bufpool_status bufpool_hints_extend(struct bufpool_hints *hints,
                                         const struct bufpool_page *pages,
                                         size_t count);

// Reads the next page of the list. After the last one, the guard is none (its `bytes` are null). Pages
// beyond the end of their file, and those of files that are closed, are left out; so is a page with a class,
// whose number is beyond all ends.
enum bufpool_status bufpool_hints_next(struct bufpool_hints *hints, struct bufpool_guard *guard);

// Leaves out the next pages of the list.
enum bufpool_status bufpool_hints_skip(struct bufpool_hints *hints, size_t pages);

// Withdraws what is left of a list. Null is left alone.
void bufpool_hints_free(struct bufpool_hints *hints);

// Opens a pool, to be freed by bufpool_pool_free.
enum bufpool_status bufpool_pool_open(const struct bufpool_pool_options *options, struct bufpool_pool **pool);

// Writes all that is dirty, makes it durable and closes the pool. If that fails, it is open as before. The
// handle is to be freed in either case.
enum bufpool_status bufpool_pool_close(const struct bufpool_pool *pool);

// Gives up a handle. The pool goes with the last of its handles, those of files, tenants and lists included;
// one that was not closed is closed then, and what fails is lost. Null is left alone.
void bufpool_pool_free(struct bufpool_pool *pool);

// Makes durable what is dirty when the call begins, in all files.
enum bufpool_status bufpool_checkpoint(const struct bufpool_pool *pool);

// Counts what the pool has done.
enum bufpool_status bufpool_pool_stats(const struct bufpool_pool *pool, struct bufpool_stats *stats);

// What the pool says about tenants and call sites, for people. To be freed by bufpool_text_free.
enum bufpool_status bufpool_pool_report(const struct bufpool_pool *pool, char **text);

// What was wrong in the last call of this thread that failed, in words: file, page, operation and what was
// expected. Valid until the thread's next call that fails; never null. In a destructor of thread-local data
// there may be no words any more.
const char *bufpool_last_error(void);

// Frees text that a function gave. Null is left alone.
void bufpool_text_free(char *text);

// Opens a tenant, to be freed by bufpool_tenant_free. Its name is for reports. Null options are the
// defaults.
enum bufpool_status bufpool_tenant_open(const struct bufpool_pool *pool,
                                        const char *name,
                                        const struct bufpool_tenant_options *options,
                                        struct bufpool_tenant **tenant);

// The tenant for engines without tenants of their own, to be freed by bufpool_tenant_free.
enum bufpool_status bufpool_tenant_default(const struct bufpool_pool *pool, struct bufpool_tenant **tenant);

// Gives up a handle. The tenant stays in its pool until it is closed. Null is left alone.
void bufpool_tenant_free(struct bufpool_tenant *tenant);

// Closes the tenant: its pages become the default tenant's. The handle is to be freed in either case.
enum bufpool_status bufpool_tenant_close(const struct bufpool_tenant *tenant);

// Directive: the policy of one priority, from -32 to 31, by its name: "lru", "mru", "fifo", ...
enum bufpool_status bufpool_set_policy(const struct bufpool_tenant *tenant,
                                       int32_t priority,
                                       const char *policy);

// Directive: the long-term priority of a file's pages; those of the lowest go first.
enum bufpool_status bufpool_set_priority(const struct bufpool_tenant *tenant,
                                         const struct bufpool_file *file,
                                         int32_t priority);

// Directive: the priority of those of the pages that are in memory, until their next access.
enum bufpool_status bufpool_set_temporary_priority(const struct bufpool_tenant *tenant,
                                                   const struct bufpool_file *file,
                                                   uint64_t first,
                                                   uint64_t end,
                                                   int32_t priority);

// Lets a program decide which of the tenant's pages go.
enum bufpool_status bufpool_set_program(const struct bufpool_tenant *tenant, const char *program);

// Sends a number to a slot of the tenant's program.
enum bufpool_status bufpool_send(const struct bufpool_tenant *tenant, const char *slot, int64_t value);

// Copies bytes of the file from `offset` on. `read`, which may be null, gets how many there were. If it
// fails, some may have been copied.
enum bufpool_status bufpool_read_at(const struct bufpool_tenant *tenant,
                                    const struct bufpool_file *file,
                                    uint64_t offset,
                                    uint8_t *into,
                                    size_t len,
                                    struct bufpool_site *from,
                                    size_t *read);

// Writes bytes to the file from `offset` on. If it fails, the file may be longer, and those before the page
// that failed are written.
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
