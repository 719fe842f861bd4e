#!/bin/sh
# The public NPU headers are C++: a C++ kernel (kernel.cc) compiles without a warning, runs on the model
# and is checked. Each defect planted must be seen: a keyword as a field, C's _Generic, a missing event.
# usage: cplusplus.sh SOURCE LIB.a SCRATCH CXX
set -eu
src=$1 lib=$2 scratch=$3 cxx=$4
rm -rf "$scratch"
mkdir -p "$scratch/planted/redelta"
warn="-Wall -Wextra -Wshadow -Wconversion -Wno-variadic-macros -Wpedantic -Werror"
build() { # INCLUDES OUTPUT FLAGS...
  inc=$1 out=$2
  shift 2
  "$cxx" $warn "$@" -I"$inc" "$src/test/npu/kernel.cc" "$lib" -lm -pthread -o "$out"
}
for std in c++11 c++17 c++20; do
  build "$src/include" "$scratch/kernel" -std=$std
  "$scratch/kernel" || { echo "$std: the kernel fails"; exit 1; }
done

cp "$src"/include/redelta/npu*.h "$scratch/planted/redelta/"
plant() { # WHAT HEADER SED-SCRIPT
  sed "$3" "$src/include/redelta/$2" >"$scratch/planted/redelta/$2"
  cmp -s "$src/include/redelta/$2" "$scratch/planted/redelta/$2" && { echo "$1: nothing planted"; exit 1; }
  build "$scratch/planted" "$scratch/planted_kernel" -std=c++17 2>"$scratch/log" && { echo "$1 compiles"; exit 1; }
  cp "$src/include/redelta/$2" "$scratch/planted/redelta/$2"
  echo "$1: refused"
}
plant "a field called class" npu.h 's/  rd_npu_core_kind kind;/&\n  uint32_t class;/'
plant "_Generic" npu_intrinsics.h 's/^#ifdef __cplusplus/#if 0/'

build "$src/include" "$scratch/racing" -std=c++17 -DWITHOUT_EVENT
if out=$("$scratch/racing"); then echo "the missing event is not reported"; exit 1; fi
echo "$out" | grep -q 'race RAW' || { echo "unexpected: $out"; exit 1; }
echo "a missing event: reported"
