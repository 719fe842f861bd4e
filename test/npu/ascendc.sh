#!/bin/sh
# The Ascend C front: its calls against plain loops (ascendc.cc), the example, and the example without a queue,
# which must be reported with the event it misses at the kernel's line. Each defect planted in a header must
# be seen.
# usage: ascendc.sh SOURCE LIB.a SCRATCH CXX
set -eu
src=$1 lib=$2 scratch=$3 cxx=$4
rm -rf "$scratch"
mkdir -p "$scratch/planted"
warn="-Wall -Wextra -Wshadow -Werror"
build() { # INCLUDES SOURCE OUTPUT FLAGS...
  inc=$1 file=$2 out=$3
  shift 3
  "$cxx" -std=c++17 $warn "$@" -I"$inc" -I"$inc/redelta/ascendc" "$src/$file" "$lib" -lm -pthread -o "$out"
}
build "$src/include" test/npu/ascendc.cc "$scratch/calls"
"$scratch/calls"
build "$src/include" examples/npu/ascendc/add_main.cpp "$scratch/add"
"$scratch/add"

build "$src/include" examples/npu/ascendc/add_main.cpp "$scratch/broken" -DWITHOUT_QUEUE
if out=$("$scratch/broken"); then echo "the missing queue is not reported"; exit 1; fi
line=$(grep -n 'Add(z, xLocal, y, TILE)' "$src/examples/npu/ascendc/add.cpp" | cut -d: -f1)
echo "$out" | grep -q 'missing: MTE2_V' || { echo "no MTE2_V: $out"; exit 1; }
echo "$out" | grep -q "vadd .*add.cpp:$line" || { echo "no line $line: $out"; exit 1; }
echo "a missing queue: reported"

cp -r "$src/include/redelta" "$scratch/planted/"
plant() { # WHAT HEADER SED-SCRIPT PROGRAM
  header=redelta/ascendc/$2
  sed "$3" "$src/include/$header" >"$scratch/planted/$header"
  cmp -s "$src/include/$header" "$scratch/planted/$header" && { echo "$1: nothing planted"; exit 1; }
  build "$scratch/planted" "$4" "$scratch/planted_program"
  if "$scratch/planted_program" >"$scratch/log" 2>&1; then echo "$1: not seen"; exit 1; fi
  cp "$src/include/$header" "$scratch/planted/$header"
  echo "$1: seen"
}
plant "no back edge" pipe.h 's/if (b.freed >= 0) redelta::ascendc::wait_event(back.*/;/' examples/npu/ascendc/add_main.cpp
plant "DeQue without its wait" pipe.h '/wait_event(forward, buffer/d' examples/npu/ascendc/add_main.cpp
plant "a rest with all lanes" vector.h 's/  lanes_mask(static_cast.*/  full_mask(REDELTA_HERE);/' test/npu/ascendc.cc
plant "half truncated" types.h 's/std::nearbyint(/std::trunc(/' test/npu/ascendc.cc
