#!/bin/sh
# The core builds with one cc line (scalar kernels), by every compiler that is here, and the program
# gives the same result. usage: one_line.sh SOURCE SCRATCH
set -eu
src=$1 scratch=$2
mkdir -p "$scratch"
cd "$src"
found=0
for cc in cc gcc clang musl-gcc; do
  command -v $cc >/dev/null 2>&1 || continue
  $cc -O2 -ffp-contract=off -Iinclude -Isrc src/core/*.c src/operators/*.c src/cpu/*.c src/exec/*.c src/util/*.c \
    src/kernels/*.c src/kernels/scalar/*.c test/install/program.c -lm -pthread -o "$scratch/one_line_$cc"
  out=$("$scratch/one_line_$cc") || { echo "$cc: $out"; exit 1; }
  echo "$cc: $out"
  found=1
done
[ $found = 1 ]
