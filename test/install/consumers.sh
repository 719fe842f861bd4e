#!/bin/sh
# Uses the library as strangers would, each way with the program of README.md: by add_subdirectory, and,
# installed into a place that nobody named when configuring, by find_package (shared, static) and
# pkg-config (shared, static). The same for the model. usage: consumers.sh SOURCE BUILD SCRATCH
set -eu
src=$1 build=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch"
fail() { echo "$*"; exit 1; }
log() { # FILE COMMAND...: shows what a command said when it fails
  file=$scratch/$1
  shift
  "$@" >>"$file" 2>&1 || { tail -30 "$file"; fail "failed: $*"; }
}
same() { # LABEL PROGRAM: prints what README.md says that it prints
  out=$("$2") || fail "$1: $out"
  [ "$out" = "$want" ] || fail "$1: printed '$out', not '$want'"
  echo "$1: $out"
}
npu() { # LABEL PROGRAM
  log npu.log "$2"
  echo "$1: ok"
}
awk '/^```c$/ && !done {on = 1; next} /^```/ {if (on) done = 1; on = 0} on' "$src/README.md" >"$scratch/readme.c"
want=$(sed -n 's,.*printf(.*/\* \(.*\) \*/$,\1,p' "$scratch/readme.c")
[ -n "$want" ] || fail "README.md does not say what its first program prints"
program=$scratch/readme.c npu_program=$src/examples/npu/vector_add.c

# 1. A part of another project: its own build type, folders, tests and install rules stay as they were.
log sub.log cmake -S "$src/test/install/subproject" -B "$scratch/sub" -G Ninja -DREDELTA_SOURCE="$src" \
  -DPROGRAM="$program" -DNPU_PROGRAM="$npu_program"
log sub.log cmake --build "$scratch/sub" -j "${JOBS:-2}"
same "add_subdirectory" "$scratch/sub/use_subproject"
npu "add_subdirectory, npu" "$scratch/sub/use_subproject_npu"
(cd "$scratch/sub" && ctest -N) | grep -q '^Total Tests: 0' || fail "the subproject registered tests"
log sub.log cmake --install "$scratch/sub" --prefix "$scratch/sub_place"
[ "$(cd "$scratch/sub_place" && find . -type f)" = ./bin/use_subproject ] || fail "the subproject installed itself"
[ "$(find "$scratch/sub" -name 'libredelta*' -not -path '*/redelta/*')" = "" ] || fail "libraries outside of their folder"

# 2. Installed, and moved afterwards: nothing in it may name the place.
log install.log cmake --install "$build" --prefix "$scratch/first"
mv "$scratch/first" "$scratch/usr"
log consumer.log cmake -S "$src/test/install/consumer" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$scratch/usr" \
  -DPROGRAM="$program" -DNPU_PROGRAM="$npu_program"
log consumer.log cmake --build "$scratch/consumer"
for kind in shared static redelta; do
  same "find_package, $kind" "$scratch/consumer/use_$kind"
done
for kind in npu npu_static; do
  npu "find_package, $kind" "$scratch/consumer/use_$kind"
done

mpi_library=$(find "$scratch/usr" -name libredelta-mpi.so)
if [ -n "$mpi_library" ]; then # the component finds MPI by itself
  log mpi.log cmake -S "$src/test/install/consumer_mpi" -B "$scratch/consumer_mpi" -DCMAKE_PREFIX_PATH="$scratch/usr" \
    -DPROGRAM="$src/examples/mpi/layer_stack.c"
  log mpi.log cmake --build "$scratch/consumer_mpi"
  for kind in mpi mpi_static; do
    [ -x "$scratch/consumer_mpi/use_$kind" ] || fail "find_package, $kind"
    echo "find_package, $kind: built"
  done
fi

pc=$(find "$scratch/usr" -name redelta.pc)
libdir=$(dirname "$(dirname "$pc")")
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
grep -l "$scratch\|/usr/local" "$PKG_CONFIG_PATH"/*.pc && fail "a .pc file names a place"
compile() { # OUTPUT PACKAGE SOURCE [static]
  linkage=${4:+-static}
  # shellcheck disable=SC2046,SC2086 # words are meant
  log pc.log cc -std=c11 -Wall -Wextra -Werror $linkage "$3" $(pkg-config ${4:+--static} --cflags --libs "$2") -o "$scratch/$1"
}
compile pc_shared redelta "$program"
compile pc_npu redelta-npu "$npu_program"
compile pc_check redelta "$src/test/install/program.c"
compile pc_static redelta "$program" static
compile pc_npu_static redelta-npu "$npu_program" static
if [ -n "$mpi_library" ]; then
  # shellcheck disable=SC2046 # words are meant
  log pc.log mpicc -std=c11 -Wall -Wextra -Werror "$src/examples/mpi/layer_stack.c" \
    $(pkg-config --cflags --libs redelta-mpi) -o "$scratch/pc_mpi"
  echo "pkg-config, mpi: built"
fi
same "pkg-config, static" "$scratch/pc_static"
npu "pkg-config, npu static" "$scratch/pc_npu_static"
LD_LIBRARY_PATH=$libdir
export LD_LIBRARY_PATH
same "pkg-config, shared" "$scratch/pc_shared"
npu "pkg-config, npu" "$scratch/pc_npu"
[ "redelta $(pkg-config --modversion redelta): ok" = "$("$scratch/pc_check" | sed 's/-dev:/:/')" ] || fail "versions differ"
[ "$(pkg-config --modversion redelta-npu)" = "$(pkg-config --modversion redelta)" ] || fail "versions differ"

# The shared library: a soname with the version that may break it (before 1.0 also the minor one), and
# libc and libm only.
so=$libdir/libredelta.so
soname=$(readelf -d "$so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
version=$(pkg-config --modversion redelta)
case $version in 0.*) breaks=${version%.*} ;; *) breaks=${version%%.*} ;; esac
[ "$soname" = "libredelta.so.$breaks" ] || fail "soname is $soname"
[ -e "$libdir/$soname" ] || fail "no file has the soname $soname"
needed=$(readelf -d "$so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
for lib in $needed; do
  case $lib in libc.so.* | libm.so.* | ld-linux*) ;; *) fail "the core needs $lib" ;; esac
done
echo "needs only: $(echo "$needed" | tr '\n' ' ')"

# The manual page is there, and the installed documents point at each other only.
[ -n "$(find "$scratch/usr" -name redelta.1 -size +10k)" ] || fail "no manual page"
if command -v python3 >/dev/null 2>&1; then
  python3 "$src/tools/check_docs.py" "$(dirname "$(find "$scratch/usr" -name README.md)")" links
fi
