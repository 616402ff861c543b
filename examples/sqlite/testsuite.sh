#!/usr/bin/env bash
# Runs SQLite's own test suite with its unix VFS and with that of the pool, and prints the failures that only
# the pool's has; then SQLite's `speedtest1` with both. It takes Debian's source package, and about an hour.
#
# The pool's VFS runs twice. `kept` keeps other processes out and databases in the pool, and its pages have
# the suite's default size. It leaves out tests whose other processes it would lock out until the end.
# `shared` lets other processes in between transactions, so those tests run, and its pages are four times as
# large.
#
#   examples/sqlite/testsuite.sh [FOLDER [TEST...]]
#
# FOLDER, by default target/sqlite-testsuite, keeps source, build and logs; what exists is not made again. So
# remove FOLDER/log-kept and FOLDER/log-shared to run the tests with a changed VFS. TESTs are names of test
# files of SQLite, by default those of its permutation `veryquick` and crash*, ioerr*, walcrash*. If the only
# TEST is `speedtest1`, no test files run. SPEEDTEST_SIZE, by default 100, is the --size of speedtest1.
# Needed: a C compiler, make, tclsh, tcl-dev, apt-get with Debian's archive, and cargo.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:-target/sqlite-testsuite}")
shift $(($# > 0 ? 1 : 0))
source=$folder/source build=$folder/build seconds_max=900
# SQLite's tests refuse to be run by root.
as_user=()
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)

# The source package of the distribution, from the archive that apt knows.
fetch() {
  mkdir -p "$folder/apt/lists" "$source"
  (cd "$folder/apt"
    cat /etc/apt/sources.list.d/debian.sources | sed 's/^Types:.*/Types: deb-src/' >deb.sources
    options=(-o "Dir::Etc::sourcelist=$PWD/deb.sources" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$PWD/lists")
    apt-get "${options[@]}" update
    apt-get "${options[@]}" source --download-only sqlite3)
  tar xf "$folder"/apt/sqlite3_*.orig.tar.xz -C "$source" --strip-components=1
}

# A library named in the environment is loaded when SQLite is initialised, and its VFS becomes the default.
initialisation() {
  cat <<'C'

#include <stdlib.h>
#include "sqlite3.h"
int testsuite_init(const char *unused){
  const char *zLibrary = getenv("TESTSUITE_EXTENSION");
  sqlite3 *db = 0;
  int rc;
  if( zLibrary==0 ) return SQLITE_OK;
  rc = sqlite3_open(":memory:", &db);
  if( rc==SQLITE_OK ) rc = sqlite3_enable_load_extension(db, 1);
  if( rc==SQLITE_OK ) rc = sqlite3_load_extension(db, zLibrary, 0, 0);
  sqlite3_close(db);
  return rc==SQLITE_OK ? sqlite3_vfs_register(sqlite3_vfs_find("bufpool"), 1) : rc;
}
C
}

# Two more changes to the test programs. Simulated crashes end the process right after writes that are to
# survive; these are synced, because this VFS keeps writes in its process. And tests of several clients leave
# out those in several processes, as they do for SQLite's VFS `unix-excl`, which keeps other processes out,
# too.
patch_source() {
  initialisation >>"$source/src/test_init.c"
  sed -i '/^static int writeDbFile/,/^}/ s/^  return rc;/  return rc ? rc : sqlite3OsSync(p->pRealFile, SQLITE_SYNC_NORMAL);/' \
    "$source/src/test6.c"
  sed -i 's/if {$tn==1 && \[permutation\]=="unix-excl"}/if {$tn==1 \&\& [info exists ::env(TESTSUITE_EXTENSION)]}/' \
    "$source/test/lock_common.tcl"
}

# The files of a permutation.
files_of() {
  cat >"$folder/list.tcl" <<TCL
set argv0 $source/test/list.test
set argv {}
source $source/test/permutations.test
array set suite \$::testspec($1)
foreach file \$suite(-files) { puts "FILE [file tail \$file]" }
TCL
  mkdir -p "$folder/work" && chmod 777 "$folder/work"
  (cd "$folder/work" && "${as_user[@]}" "$build/testfixture" ../list.tcl) | sed -n 's/^FILE //p'
}

# Runs the test files with one VFS, `unix`, `kept` or `shared`, and prints each failure: test file and name.
run() {
  local vfs=$1 file work=$folder/work-$1 log=$folder/log-$1
  shift
  mkdir -p "$log"
  local environment=(TMPDIR=$work HOME=$work BUFPOOL_MEMORY_BYTES=4194304)
  [ $vfs = unix ] || environment+=("TESTSUITE_EXTENSION=$folder/libbufpool_sqlite.so")
  [ $vfs != kept ] || environment+=(BUFPOOL_PAGE_BYTES=1024)
  [ $vfs != shared ] || environment+=(BUFPOOL_PAGE_BYTES=4096 BUFPOOL_SHARED=1)
  for file; do
    # Their other processes would find the database locked.
    [[ $vfs = kept && $file = @(crash|walcrash|lock4)* ]] && continue
    if [ ! -e "$log/$file" ]; then
      rm -rf "$work" && mkdir -p "$work" && chmod 777 "$work"
      (cd "$work" && env "${environment[@]}" timeout $seconds_max "${as_user[@]}" "$build/testfixture" \
        "$source/test/permutations.test" veryquick "$file" >"$log/$file.part" 2>&1) || true
      grep -q 'errors out of' "$log/$file.part" || echo "!Failures on these tests: ends-early" >>"$log/$file.part"
      mv "$log/$file.part" "$log/$file"
    fi
    sed -n 's/^!Failures on these tests: //p' "$log/$file" | tr ' ' '\n' | sed "/./!d; s/^veryquick\.//; s/^/$file /"
  done | sort -u
}

# Seconds of each part of speedtest1 with the unix VFS, and with the pool's in its default memory.
speedtest() {
  local vfs work=$folder/work-speedtest
  if [ ! -e "$build/speedtest1" ]; then
    initialisation >"$build/initialisation.c"
    (cd "$build" && make sqlite3.c >>make.log 2>&1 &&
      cc -O2 -I. -DSQLITE_EXTRA_INIT=testsuite_init -o speedtest1 "$source/test/speedtest1.c" sqlite3.c initialisation.c \
        -ldl -lm -lpthread)
  fi
  for vfs in unix kept; do
    local environment=()
    [ $vfs = unix ] || environment=("TESTSUITE_EXTENSION=$folder/libbufpool_sqlite.so")
    rm -rf "$work" && mkdir -p "$work"
    env "${environment[@]}" "$build/speedtest1" --size "${SPEEDTEST_SIZE:-100}" "$work/speedtest.db" >"$folder/speedtest-$vfs"
  done
  rm -rf "$work"
  printf '\n%-70s %10s %10s\n' speedtest1 unix kept
  paste -d'|' "$folder/speedtest-unix" "$folder/speedtest-kept" |
    sed -n 's/^ *\([^|]*[^.|]\)\.\.\.* *\([0-9.]*\)s|.* \([0-9.]*\)s$/\1|\2|\3/p' |
    while IFS='|' read -r part unix kept; do printf '%-70s %10s %10s\n' "$part" "$unix" "$kept"; done
}

[ -e "$source/configure" ] || fetch
grep -q testsuite_init "$source/src/test_init.c" || patch_source
mkdir -p "$build"
[ -e "$build/testfixture" ] ||
  (cd "$build" && "$source/configure" >configure.log && make testfixture OPTS=-DSQLITE_EXTRA_INIT=testsuite_init >make.log 2>&1)
cargo build --release -p bufpool-sqlite
# The old file is removed first, because a running test may have mapped it.
cp --remove-destination target/release/libbufpool_sqlite.so "$folder"
chmod 755 "$folder"

if [ "$*" = speedtest1 ]; then
  speedtest
  exit
fi
tests=("$@")
[ ${#tests[@]} -gt 0 ] || mapfile -t tests < <(
  { files_of veryquick; (cd "$source/test" && ls crash*.test ioerr*.test walcrash*.test); } | sort -u)
for vfs in unix kept shared; do
  run $vfs "${tests[@]}" >"$folder/failures-$vfs"
  comm -13 "$folder/failures-unix" "$folder/failures-$vfs" >"$folder/failures-$vfs-alone"
done

count() {
  local total=0 number
  for file in "${tests[@]}"; do
    [ -e "$folder/log-$1/$file" ] || continue
    number=$(sed -n 's/.* errors out of \([0-9]*\) tests.*/\1/p' "$folder/log-$1/$file" | tail -1)
    total=$((total + ${number:-0}))
  done
  echo $total
}
printf '%-10s %8s %10s %10s %10s\n' VFS files tests failures alone
for vfs in unix kept shared; do
  printf '%-10s %8d %10d %10d %10d\n' $vfs ${#tests[@]} "$(count $vfs)" "$(wc -l <"$folder/failures-$vfs")" \
    "$(wc -l <"$folder/failures-$vfs-alone")"
done
for vfs in kept shared; do
  printf '\nFailures of %s alone, by file:\n' $vfs
  cut -d' ' -f1 "$folder/failures-$vfs-alone" | uniq -c
done
speedtest
