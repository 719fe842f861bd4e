#!/bin/sh
# redelta-mpi: what it writes is what redelta writes, byte by byte; its check; its refusals; its manual page.
# usage: tool.sh RANKS.SH MPIEXEC REDELTA REDELTA-MPI SCRATCH
set -eu
ranks_sh=$1 mpiexec=$2 redelta=$3 tool=$4 scratch=$5
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"
n=0
fail() { echo "$*"; exit 1; }
on() { # RANKS ARGUMENT...
  count=$1
  shift
  sh "$ranks_sh" "$mpiexec" "$count" 30 "$tool" "$@"
}
same() { # RANKS OP FILE ARGUMENT...: both tools, and their outputs compared
  count=$1 op=$2 file=$3
  shift 3
  "$redelta" run "$op" "$file" -o one.safetensors "$@" >log 2>&1 || { cat log; fail "redelta run $op $file $*"; }
  on "$count" prefill "$op" "$file" -o many.safetensors "$@" >log 2>&1 || { cat log; fail "redelta-mpi prefill $op $file $*"; }
  cmp one.safetensors many.safetensors || fail "$op $file $* on $count ranks: other bytes"
  rm one.safetensors many.safetensors
  n=$((n + 1))
}
"$redelta" gen chunk_gated_delta_rule --shape B=3,Hk=2,Hv=4,T=70,K=32,V=64 --seed 3 -o chunk.safetensors >/dev/null
"$redelta" gen flash_kda --shape B=2,Hk=1,Hv=2,S=40 --seed 4 -o flash.safetensors >/dev/null
"$redelta" gen flash_kda --shape B=3,Hk=1,Hv=2,S=40 --layout-qkv TND --seed 5 -o packed.safetensors >/dev/null
same 3 chunk_gated_delta_rule chunk.safetensors
same 2 chunk_gated_delta_rule chunk.safetensors --numerics fast
same 3 flash_kda flash.safetensors
same 3 flash_kda packed.safetensors --layout-qkv TND

on 2 check chunk_gated_delta_rule chunk.safetensors >log 2>&1 || { cat log; fail "check"; }
[ "$(grep -c 'every bit of one rank' log)" = 2 ] || { cat log; fail "check does not say so"; }

refused() { # STATUS TEXT ARGUMENT...
  want=$1 text=$2
  shift 2
  status=0
  on 2 "$@" >log 2>&1 || status=$?
  [ $status = "$want" ] || { cat log; fail "status $status for $*, not $want"; }
  grep -q -e "$text" log || { cat log; fail "$* does not say '$text'"; }
  n=$((n + 1))
}
refused 2 'missing -o OUT' prefill flash_kda flash.safetensors
refused 2 'is no prefill' check fused_recurrent_kda flash.safetensors
refused 2 'gone.safetensors' check flash_kda gone.safetensors
refused 2 "tensor 'query' is missing" check chunk_gated_delta_rule flash.safetensors
refused 2 'unknown command' nothing
refused 2 '\-\-heads' bench --heads 3,4

# The bench in small: figures of both forms, and JSON.
on 2 bench --tokens 512 --heads 1,2 --repeat 1 --scan >log 2>&1 || { cat log; fail "bench"; }
grep -q 'scan  ' log || { cat log; fail "bench shows no scan"; }
on 2 bench --tokens 512 --heads 1,2 --repeat 1 --json >log 2>/dev/null || fail "bench --json"
grep -q '"pipeline_seconds"' log || { cat log; fail "bench --json"; }

page=$(dirname "$tool")/redelta-mpi.1
for command in prefill check bench; do
  "$tool" $command --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' | while read -r option; do
    sed 's/\\-/-/g' "$page" | grep -q -e "^\.B $option" || fail "the manual page lacks $command $option"
  done
done
echo "$((n + 4)) passed, 0 failed, 0 skipped"
