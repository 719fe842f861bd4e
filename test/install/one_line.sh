#!/bin/sh
# The core builds with the one cc line that README.md shows (scalar kernels), by every compiler that is
# here, and the program gives the same result. usage: one_line.sh SOURCE SCRATCH
set -eu
src=$1 scratch=$2
line=$(sed -n '/^    cc -std=/,/[^\\]$/p' "$src/README.md" | sed 's/\\$//' | tr '\n' ' ')
[ -n "$line" ] || { echo "README.md shows no line"; exit 1; }
found=0
for cc in cc gcc clang musl-gcc; do
  command -v $cc >/dev/null 2>&1 || continue
  place=$scratch/one_line_$cc
  rm -rf "$place"
  mkdir -p "$place"
  cp -r "$src/src" "$src/include" "$place"
  (cd "$place" && eval "$(echo "$line" | sed "s/^ *cc/$cc/")")
  $cc -O2 "-I$src/include" "$src/test/install/program.c" "$place"/*.o -lm -pthread -o "$place/program"
  out=$("$place/program") || { echo "$cc: $out"; exit 1; }
  echo "$cc: $out"
  found=1
done
[ $found = 1 ]
