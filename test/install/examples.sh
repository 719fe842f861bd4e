#!/bin/sh
# The programs that the documentation shows compile without a warning and print what they say: the one
# in the umbrella header and every complete C program of README.md and docs/. usage: examples.sh SOURCE LIB.a SCRATCH
set -eu
src=$1 lib=$2 scratch=$3
mkdir -p "$scratch"
rm -f "$scratch"/example*
build() {
  cc -std=c11 -Wall -Wextra -Werror -I"$src/include" "$1" "$lib" -lm -pthread -o "$2"
}
# Between " * A complete program" and the end of the comment, lines with the leading " *   " removed.
sed -n '/^ \* A complete program/,/^ \*\//p' "$src/include/redelta/redelta.h" | sed '1d;$d' | sed 's/^ \*\( \{3\}\)\{0,1\}//' \
  >"$scratch/example_umbrella.c"
grep -q 'int main' "$scratch/example_umbrella.c"
build "$scratch/example_umbrella.c" "$scratch/example_umbrella"
got=$("$scratch/example_umbrella")
want=$(sed -n 's,.*// \([-0-9. e]*\)$,\1,p' "$scratch/example_umbrella.c" | head -1)
[ "$got" = "$want" ] || { echo "umbrella program prints '$got', its comment says '$want'"; exit 1; }
echo "redelta.h: $got"
n=1
for page in "$src/README.md" "$src"/docs/*.md; do
  awk -v out="$scratch/example_$(basename "$page" .md)" '
    /^```c$/ {on = 1; n++; f = out n ".c"; next}
    /^```/ {on = 0}
    on {print > f}' "$page"
done
for f in "$scratch"/example_[A-Z]*.c; do
  grep -q 'int main' "$f" || continue
  build "$f" "${f%.c}"
  got=$("${f%.c}")
  want=$(sed -n 's,.*/\* \([-0-9. e]*\) \*/$,\1,p' "$f")
  [ "$got" = "$want" ] || { echo "$(basename "$f") prints '$got', its comment says '$want'"; exit 1; }
  echo "$(basename "$f"): $got"
  n=$((n + 1))
done
[ $n -ge 2 ] || { echo "the documents show no complete program"; exit 1; }
echo "$n passed, 0 failed, 0 skipped"
