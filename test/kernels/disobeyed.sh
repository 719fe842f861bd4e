#!/bin/sh
# The verbs where the processor's modes are not obeyed: Valgrind keeps subnormals, qemu's x86 flushes
# before rounding. The contexts must notice, take the kernels that flush in software, and give the same
# bits.   disobeyed.sh TEST_KERNELS_VERBS      exit status 77: not run, neither tool is there
set -eu
ran=0
for tool in "valgrind -q" qemu-x86_64; do
  command -v ${tool%% *} >/dev/null || { echo "not run: ${tool%% *} is not installed"; continue; }
  out=$($tool "$1" 7 12) || { echo "$out"; exit 1; }
  echo "${tool%% *}: $(echo "$out" | tail -2 | tr '\n' ' ')"
  case $out in *"rows: rows_scalar_soft"*) ;; *) echo "FAILED: other kernels than those"; exit 1 ;; esac
  ran=1
done
[ $ran = 1 ] || exit 77
