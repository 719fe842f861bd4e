#!/usr/bin/env bash
# The bench shows every row as it is measured, also into a file: bench_rows.sh TOOL
set -u
out=$(mktemp)
"$1" bench --quick >"$out" &
pid=$!
trap 'kill $pid 2>/dev/null; rm -f "$out"' EXIT
for _ in $(seq 600); do
  rows=$(grep -cE '^[a-z0-9]+ +prefill ' "$out")
  [ "$rows" -gt 0 ] && break
  kill -0 $pid 2>/dev/null || break
  sleep 0.1
done
if [ "$rows" -gt 0 ] && kill -0 $pid 2>/dev/null && grep -q 'GFLOP/s' "$out" && ! grep -q '^goal ' "$out"; then
  echo "$rows rows while it runs"
else
  echo "no row before the end:"
  cat "$out"
  exit 1
fi
