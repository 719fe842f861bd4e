#!/bin/sh
# Builds the library and the kernel tests for aarch64 and runs them under emulation.
#   aarch64.sh SOURCE_DIR BUILD_DIR [all]      exit status 77: not run, the tools are missing
# An emulator is slow: the harness and its self-test take a tenth of their cases here, all of them with `all`.
set -eu
source=$1 build=$2 selftest=20 every=10
[ "${3:-}" != all ] || selftest=1 every=1
for tool in aarch64-linux-gnu-gcc qemu-aarch64 cmake; do
  command -v $tool >/dev/null || { echo "not run: $tool is not installed"; exit 77; }
done
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64-linux-gnu.cmake" \
  -DREDELTA_BUILD_NPU=OFF -DREDELTA_BUILD_CLI=OFF -DREDELTA_BUILD_BENCH=OFF -DREDELTA_WARNINGS=ON >/dev/null
cmake --build "$build" --target test_kernels
cd "$build/test/kernels"
for run in "border 1 20000" "spec" "accuracy 65537" "verbs 1 60" "selftest $selftest" "harness --seed 4 --every $every"; do
  set -- $run
  program=./test_kernels_$1
  shift
  echo "== $program $*"
  qemu-aarch64 -L /usr/aarch64-linux-gnu $program "$@"
done
