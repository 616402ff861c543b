// What a storage engine in C does with bufpool. Prints "all checks passed", or the check that failed.
//
//   cargo build --release -p bufpool-capi
//   cc -Icrates/capi/include examples/c/example.c target/release/libbufpool_c.a -lpthread -ldl -lm -o example

#include <bufpool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES 200

// The program's files, in the current folder.
#define TABLE "bufpool-example.table"
#define NOTES "bufpool-example.notes"

static void remove_files(void) {
  remove(TABLE);
  remove(NOTES);
}

static void check(bool holds, const char *what, int line) {
  if (!holds) {
    fprintf(stderr, "line %d: %s; last error: %s\n", line, what, bufpool_last_error());
    exit(1);
  }
}

#define CHECK(condition) check((condition), #condition, __LINE__)
#define OK(call) check((call) == BUFPOOL_OK, #call, __LINE__)

// A page begins with its number.
static void stamp(uint8_t *page, uint64_t number) { memcpy(page, &number, sizeof number); }

static uint64_t stamp_of(const uint8_t *page) {
  uint64_t number;
  memcpy(&number, page, sizeof number);
  return number;
}

struct reader {
  const bufpool_tenant *tenant;
  const bufpool_file *file;
};

// A class of pages. The automatic manager learns about each class separately.
enum { LEAF = 1 };

// Threads share tenants and files; each has its own guards.
static void *read_all(void *argument) {
  const struct reader *reader = argument;
  for (uint64_t number = 0; number < PAGES; number++) {
    bufpool_guard guard;
    const uint64_t page = BUFPOOL_PAGE(number, LEAF);
    OK(bufpool_read(reader->tenant, reader->file, page, BUFPOOL_SITE("scan"), &guard));
    CHECK(stamp_of(guard.bytes) == number);
    bufpool_release(&guard);
  }
  return NULL;
}

static void fill(const bufpool_tenant *tenant, const bufpool_file *file) {
  uint64_t first = 1;
  OK(bufpool_file_extend(file, PAGES, &first));
  CHECK(first == 0 && bufpool_file_pages(file) == PAGES);
  for (uint64_t number = 0; number < PAGES; number++) {
    bufpool_guard guard;
    OK(bufpool_create(tenant, file, number, BUFPOOL_SITE("load"), &guard));
    stamp(bufpool_bytes(&guard), number);
    bufpool_release(&guard);
  }
  OK(bufpool_file_flush(file));
}

static void use_guards(const bufpool_tenant *tenant, const bufpool_file *file) {
  bufpool_guard guard, pin, latched;
  OK(bufpool_read(tenant, file, 7, NULL, &guard));
  CHECK(guard.len == 4096 && stamp_of(guard.bytes) == 7);
  CHECK(bufpool_bytes(&guard) == NULL);
  CHECK(bufpool_set_lsn(&guard, 1) == BUFPOOL_INVALID_ARGUMENT);
  bufpool_release(&guard);
  bufpool_release(&guard);  // Nothing is held any more.

  OK(bufpool_write(tenant, file, 7, NULL, &guard));
  bufpool_bytes(&guard)[100] = 42;
  OK(bufpool_set_lsn(&guard, 1));
  bufpool_release(&guard);

  OK(bufpool_pin(tenant, file, 7, NULL, &pin));
  OK(bufpool_latch(&pin, false, &latched));
  CHECK(latched.bytes[100] == 42);
  bufpool_release(&latched);
  OK(bufpool_latch(&pin, true, &latched));
  bufpool_bytes(&latched)[100] = 43;
  bufpool_release(&latched);
  CHECK(bufpool_latch(&pin, false, &pin) == BUFPOOL_INVALID_ARGUMENT);
  bufpool_release(&pin);
}

static void use_threads(const bufpool_tenant *tenant, const bufpool_file *file) {
  struct reader reader = {tenant, file};
  pthread_t threads[3];
  for (int at = 0; at < 3; at++) CHECK(pthread_create(&threads[at], NULL, read_all, &reader) == 0);
  for (int at = 0; at < 3; at++) CHECK(pthread_join(threads[at], NULL) == 0);
}

// What another thread gets of a page that is latched exclusively.
static void *find_busy(void *argument) {
  const struct reader *reader = argument;
  bufpool_guard guard, pin;
  CHECK(bufpool_read_timeout(reader->tenant, reader->file, 7, NULL, 0, &guard) == BUFPOOL_BUSY);
  CHECK(bufpool_read_timeout(reader->tenant, reader->file, 7, NULL, 5, &guard) == BUFPOOL_BUSY);
  CHECK(bufpool_write_timeout(reader->tenant, reader->file, 7, NULL, 0, &guard) == BUFPOOL_BUSY);
  CHECK(bufpool_create_timeout(reader->tenant, reader->file, 7, NULL, 0, &guard) == BUFPOOL_BUSY);
  CHECK(bufpool_pin_timeout(reader->tenant, reader->file, 7, NULL, 0, &pin) == BUFPOOL_BUSY);
  OK(bufpool_pin_timeout(reader->tenant, reader->file, 8, NULL, 0, &pin));
  OK(bufpool_latch_timeout(&pin, true, 0, &guard));
  CHECK(stamp_of(bufpool_bytes(&guard)) == 8);
  bufpool_release(&guard);
  OK(bufpool_latch_timeout(&pin, false, 5, &guard));
  bufpool_release(&guard);
  bufpool_release(&pin);
  return NULL;
}

static void use_limits(const bufpool_tenant *tenant, const bufpool_file *file) {
  bufpool_guard guard;
  OK(bufpool_write_timeout(tenant, file, 7, NULL, 1000, &guard));
  struct reader reader = {tenant, file};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, find_busy, &reader) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  bufpool_release(&guard);
}

struct listed {
  unsigned files;
  uint64_t dirty;
};

static void list(const bufpool_file_stats *file, void *context) {
  struct listed *listed = context;
  CHECK(!file->poisoned && file->dirty_frames <= file->resident_frames);
  if (strcmp(file->name, TABLE) == 0) CHECK(file->pages == PAGES && file->handles == 1 && !file->read_only);
  listed->files++;
  listed->dirty += file->dirty_frames;
}

// A file that must be new, and the list of open files.
static void use_files(const bufpool_pool *pool) {
  const bufpool_file_options how = {.create_new = true};
  bufpool_file *file;
  CHECK(bufpool_file_open(pool, TABLE, &how, &file) == BUFPOOL_ALREADY_EXISTS);
  struct listed listed = {0, 0};
  OK(bufpool_checkpoint(pool));
  OK(bufpool_pool_files(pool, list, &listed));
  CHECK(listed.files == 1 && listed.dirty == 0);
  CHECK(bufpool_pool_files(pool, NULL, NULL) == BUFPOOL_INVALID_ARGUMENT);
}

static void use_hints(const bufpool_tenant *tenant, const bufpool_file *file) {
  bufpool_page pages[50];
  for (uint64_t at = 0; at < 50; at++) pages[at] = (bufpool_page){file, 3 * at};
  bufpool_hints *hints;
  OK(bufpool_hint(tenant, pages, 30, &hints));
  OK(bufpool_hints_extend(hints, pages + 30, 20));
  OK(bufpool_hints_skip(hints, 5));
  for (uint64_t at = 5;; at++) {
    bufpool_guard guard;
    OK(bufpool_hints_next(hints, &guard));
    if (guard.bytes == NULL) {
      CHECK(at == 50);
      break;
    }
    CHECK(stamp_of(guard.bytes) == 3 * at);
    bufpool_release(&guard);
  }
  OK(bufpool_hints_extend(hints, pages, 10));
  OK(bufpool_hints_replan(hints, pages + 7, 1));
  bufpool_guard guard;
  OK(bufpool_hints_next(hints, &guard));
  CHECK(stamp_of(guard.bytes) == 3 * 7);
  bufpool_release(&guard);
  OK(bufpool_hints_next(hints, &guard));
  CHECK(guard.bytes == NULL);
  bufpool_hints_free(hints);
}

static void use_policies(const bufpool_pool *pool, const bufpool_file *file) {
  bufpool_tenant *tenant, *programmed;
  OK(bufpool_tenant_open(pool, "directed", NULL, &tenant));
  OK(bufpool_set_priority(tenant, file, 1));
  OK(bufpool_set_policy(tenant, 1, "mru"));
  CHECK(bufpool_set_policy(tenant, 1, "best") == BUFPOOL_INVALID_ARGUMENT);
  CHECK(strstr(bufpool_last_error(), "lru") != NULL);
  OK(bufpool_set_temporary_priority(tenant, file, 0, 10, -1));
  OK(bufpool_tenant_close(tenant));
  bufpool_tenant_free(tenant);

  const char *program = "not a program";
  bufpool_tenant_options options = {.program = program};
  CHECK(bufpool_tenant_open(pool, "programmed", &options, &programmed) == BUFPOOL_PROGRAM);
  CHECK(strstr(bufpool_last_error(), "1:1") != NULL);
  options = (bufpool_tenant_options){.cap_frames = 20, .manager = "none"};
  OK(bufpool_tenant_open(pool, "capped", &options, &programmed));
  use_threads(programmed, file);
  OK(bufpool_tenant_close(programmed));
  bufpool_tenant_free(programmed);
}

// Gives up the page that came first while `is_on`, and else the page that the pool proposes.
static const char FIFO[] =
    "policy fifo {\n"
    "  queue arrivals\n"
    "  int is_on = 1\n"
    "  event initial    { ret }\n"
    "  event fault(p)   { enqt arrivals, p ; ret }\n"
    "  event replace(c) {\n"
    "          jz is_on, none\n"
    "          peekh v, arrivals\n"
    "          isnil t, v ; jnz t, none\n"
    "          pinned t, v ; jnz t, none\n"
    "          ret v\n"
    "    none: ret c\n"
    "  }\n"
    "}\n";

static void use_programs(const bufpool_pool *pool, const bufpool_file *file) {
  bufpool_tenant *tenant;
  OK(bufpool_tenant_open(pool, "fifo", NULL, &tenant));
  CHECK(bufpool_send(tenant, "is_on", 0) == BUFPOOL_NO_PROGRAM);
  OK(bufpool_set_program(tenant, FIFO));
  use_threads(tenant, file);
  OK(bufpool_send(tenant, "is_on", 0));
  CHECK(bufpool_send(tenant, "is_off", 0) == BUFPOOL_UNKNOWN_SLOT);
  CHECK(strstr(bufpool_last_error(), "is_off") != NULL);
  use_threads(tenant, file);
  char *report;
  OK(bufpool_pool_report(pool, &report));
  CHECK(strstr(report, "fifo") != NULL);
  bufpool_text_free(report);
  OK(bufpool_tenant_close(tenant));
  bufpool_tenant_free(tenant);
}

static void use_bytes(const bufpool_pool *pool, const bufpool_tenant *tenant) {
  const bufpool_file_options how = {.create = true, .bytes = true};
  bufpool_file *file;
  OK(bufpool_file_open(pool, NOTES, &how, &file));
  const uint8_t text[] = "a file of bytes ends where it ends";
  OK(bufpool_write_at(tenant, file, 5000, text, sizeof text, NULL));
  CHECK(bufpool_file_bytes(file) == 5000 + sizeof text);
  uint8_t found[100];
  size_t read;
  OK(bufpool_read_at(tenant, file, 5000, found, sizeof found, NULL, &read));
  CHECK(read == sizeof text && memcmp(found, text, read) == 0);
  OK(bufpool_file_set_bytes(file, 10));
  OK(bufpool_file_close(file));
  CHECK(bufpool_file_flush(file) == BUFPOOL_FILE_CLOSED);
  bufpool_file_free(file);
}

static void do_wrong(const bufpool_pool *pool, const bufpool_tenant *tenant, const bufpool_file *file) {
  bufpool_guard guard = {0};
  CHECK(bufpool_read(tenant, file, PAGES, NULL, &guard) == BUFPOOL_PAGE_BEYOND_END);
  CHECK(strstr(bufpool_last_error(), TABLE) != NULL);
  CHECK(bufpool_read(NULL, file, 0, NULL, &guard) == BUFPOOL_INVALID_ARGUMENT);
  CHECK(bufpool_read(tenant, file, 0, NULL, NULL) == BUFPOOL_INVALID_ARGUMENT);
  bufpool_release(&guard);
  bufpool_release(NULL);
  bufpool_file *none;
  CHECK(bufpool_file_open(pool, "nowhere/at/all", NULL, &none) == BUFPOOL_NOT_FOUND);
  CHECK(bufpool_file_open(pool, NULL, NULL, &none) == BUFPOOL_INVALID_ARGUMENT);
  CHECK(bufpool_latch(&guard, false, &guard) == BUFPOOL_INVALID_ARGUMENT);

  // Lengths larger than memory can be, as when -1, the error of another call, is passed on as a length.
  uint8_t byte = 0;
  const bufpool_page page = {.file = file, .number = 0};
  bufpool_hints *hints;
  CHECK(bufpool_read_at(tenant, file, 0, &byte, SIZE_MAX, NULL, NULL) == BUFPOOL_INVALID_ARGUMENT);
  CHECK(bufpool_write_at(tenant, file, 0, &byte, SIZE_MAX, NULL) == BUFPOOL_INVALID_ARGUMENT);
  CHECK(bufpool_hint(tenant, &page, SIZE_MAX / sizeof page, &hints) == BUFPOOL_INVALID_ARGUMENT);
  bufpool_pool_options options = {.frames = 64, .page_bytes = 1000};
  bufpool_pool *other;
  CHECK(bufpool_pool_open(&options, &other) == BUFPOOL_PAGE_SIZE);

  // A tenant of one pool cannot use a file of another.
  options.page_bytes = 4096;
  OK(bufpool_pool_open(&options, &other));
  bufpool_tenant *stranger;
  OK(bufpool_tenant_default(other, &stranger));
  CHECK(bufpool_read(stranger, file, 0, NULL, &guard) == BUFPOOL_WRONG_POOL);
  CHECK(bufpool_hint(stranger, &page, 1, &hints) == BUFPOOL_WRONG_POOL);
  OK(bufpool_hint(stranger, &page, 0, &hints));
  CHECK(bufpool_hints_extend(hints, &page, 1) == BUFPOOL_WRONG_POOL);
  bufpool_hints_free(hints);
  bufpool_tenant_free(stranger);
  OK(bufpool_pool_close(other));
  bufpool_pool_free(other);
}

int main(void) {
  // A run that was killed may have left them.
  remove_files();
  atexit(remove_files);
  const bufpool_pool_options options = {.frames = 64, .page_bytes = 4096, .threads_max = 8};
  bufpool_pool *pool;
  bufpool_tenant *tenant;
  bufpool_file *file;
  OK(bufpool_pool_open(&options, &pool));
  OK(bufpool_tenant_default(pool, &tenant));
  const bufpool_file_options how = {.create = true};
  OK(bufpool_file_open(pool, TABLE, &how, &file));

  fill(tenant, file);
  use_guards(tenant, file);
  use_threads(tenant, file);
  use_limits(tenant, file);
  use_files(pool);
  use_hints(tenant, file);
  use_policies(pool, file);
  use_programs(pool, file);
  use_bytes(pool, tenant);
  do_wrong(pool, tenant, file);

  OK(bufpool_file_truncate(file, PAGES / 2));
  CHECK(bufpool_file_pages(file) == PAGES / 2);
  CHECK(bufpool_file_truncate(NULL, 0) == BUFPOOL_INVALID_ARGUMENT);

  OK(bufpool_checkpoint(pool));
  bufpool_stats stats;
  OK(bufpool_pool_stats(pool, &stats));
  CHECK(stats.accesses == stats.hits + stats.misses && stats.frames == 64);
  char *report;
  OK(bufpool_pool_report(pool, &report));
  CHECK(strstr(report, "scan") != NULL && strstr(report, "class 1") != NULL);
  bufpool_text_free(report);

  OK(bufpool_pool_close(pool));
  bufpool_guard guard;
  CHECK(bufpool_read(tenant, file, 0, NULL, &guard) == BUFPOOL_FILE_CLOSED ||
        bufpool_read(tenant, file, 0, NULL, &guard) == BUFPOOL_POOL_CLOSED);
  bufpool_file_free(file);
  bufpool_tenant_free(tenant);
  bufpool_pool_free(pool);
  puts("all checks passed");
  return 0;
}
