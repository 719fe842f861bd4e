#!/usr/bin/env bash
# Runs command-line cases and compares what they print with what is expected.
#   driver.sh TOOL [--update] [CASE...]
# Prints "N passed, N failed, N skipped"; a failing case shows its difference and how to run it alone.
set -u
R=$(realpath "$1")
shift
update=no
[ "${1:-}" = --update ] && update=yes && shift
here=$(cd "$(dirname "$0")" && pwd)
export R LC_ALL=C
passed=0 failed=0
[ $# -gt 0 ] || set -- "$here"/cases/*.sh
for case in "$@"; do
  name=$(basename "$case" .sh)
  work=$(mktemp -d)
  # shellcheck source=/dev/null
  (cd "$work" && . "$here/lib.sh" && . "$here/cases/$name.sh") >"$work/.actual" 2>&1
  if [ $update = yes ]; then cp "$work/.actual" "$here/cases/$name.out"; fi
  if diff -u "$here/cases/$name.out" "$work/.actual" >"$work/.diff"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name; again: $0 $R $name"
    cat "$work/.diff"
  fi
  rm -rf "$work"
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
