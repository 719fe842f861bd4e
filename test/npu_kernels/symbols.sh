#!/bin/sh
# The kernels' library defines rdn_ names only, and the model's library none of them.
# usage: symbols.sh NM KERNELS.a MODEL.a
set -eu
names() { "$nm" -g --defined-only "$1" | awk 'NF == 3 {print $3}' | sort -u; }
nm=$1
theirs=$(names "$2") models=$(names "$3")
[ "$(echo "$theirs" | wc -l)" -ge 5 ]
if echo "$theirs" | grep -v '^rdn_'; then echo "of another prefix"; exit 1; fi
both=$(printf '%s\n%s\n' "$theirs" "$models" | sort | uniq -d)
[ -z "$both" ] || { echo "in both libraries: $both"; exit 1; }
if echo "$models" | grep -E 'kernel_(find|at)|chunk_gated|replay_(verify|commit)'; then
  echo "kernels in the model's library"; exit 1
fi
echo "$(echo "$theirs" | wc -l) names"
