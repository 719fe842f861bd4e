#!/bin/sh
# Builds the library and the kernel tests for aarch64 and runs them under emulation.
#   aarch64.sh SOURCE_DIR BUILD_DIR      exit status 77: not run, the tools are missing
set -eu
source=$1 build=$2
for tool in aarch64-linux-gnu-gcc qemu-aarch64 cmake; do
  command -v $tool >/dev/null || { echo "not run: $tool is not installed"; exit 77; }
done
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64-linux-gnu.cmake" \
  -DREDELTA_BUILD_NPU=OFF -DREDELTA_BUILD_CLI=OFF -DREDELTA_BUILD_BENCH=OFF -DREDELTA_WARNINGS=ON >/dev/null
cmake --build "$build" --target test_kernels
cd "$build/test/kernels"
for run in "border 1 20000" "spec" "accuracy 65537" "verbs 1 60" "selftest 8" "harness --seed 4 --every 4"; do
  set -- $run
  program=./test_kernels_$1
  shift
  echo "== $program $*"
  qemu-aarch64 -L /usr/aarch64-linux-gnu $program "$@"
done
