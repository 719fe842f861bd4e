#!/bin/sh
# The shared library exports exactly the functions that its public headers declare, all called rd_*;
# the static one defines no global outside the rd prefixes. usage:
# symbols.sh SOURCE LIB.so LIB.a PREFIX-PATTERN HEADER...
set -eu
src=$1 so=$2 ar=$3 prefix=$4
shift 4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# Prototypes may span lines: join them, then take the word before the first parenthesis.
for h in "$@"; do
  sed 's,/\*.*\*/,,' "$src/include/redelta/$h.h"
done | grep -v '^#' | tr '\n' ' ' | sed 's/RD_[A-Z]*_*API/\nRD_API/g' | sed -n 's/^RD_API [^(;]*[ *]\(rd_[a-z0-9_]*\)(.*/\1/p' |
  sort -u >"$tmp/declared"
nm -D --defined-only "$so" | awk '{print $3}' | sed 's/@.*//' | sort -u >"$tmp/exported"
if ! diff "$tmp/declared" "$tmp/exported" >"$tmp/diff"; then
  echo "declared (<) and exported (>) differ:"
  cat "$tmp/diff"
  exit 1
fi
grep -v '^rd_' "$tmp/exported" && exit 1
[ "$(wc -l <"$tmp/exported")" -ge 5 ]
nm -g --defined-only "$ar" 2>/dev/null | awk 'NF == 3 {print $3}' | grep -Ev "^($prefix)_" && { echo "foreign globals in $ar"; exit 1; }
# The public prefix is for what is public, in the static library too.
nm -g --defined-only "$ar" 2>/dev/null | awk 'NF == 3 {print $3}' | grep '^rd_' | sort -u | comm -23 - "$tmp/declared" |
  grep . && { echo "of the public prefix but declared nowhere"; exit 1; }
echo "$(wc -l <"$tmp/exported") symbols, exactly the declared ones"
