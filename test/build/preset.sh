#!/bin/sh
# Builds a preset and, where this machine runs it, its quick tests (not Python's, which load the ordinary
# library). usage: preset.sh SOURCE PRESET SCRATCH PYTHON      exit status 77: not run, the compiler is missing
set -eu
src=$1 preset=$2 scratch=$3 python=$4
case $preset in
  clang) compiler=clang ;;
  aarch64) compiler=aarch64-linux-gnu-gcc ;;
  *) compiler=gcc ;;
esac
command -v $compiler >/dev/null || { echo "not run: $compiler is not installed"; exit 77; }
mkdir -p "$scratch"
{ (cd "$src" && cmake --preset "$preset" -B "$scratch" -DPython3_EXECUTABLE="$python") && cmake --build "$scratch" -j "${JOBS:-2}"; } \
  >"$scratch/build.log" 2>&1 || { tail -50 "$scratch/build.log"; exit 1; }
leave='^python'
case $preset in # a sanitizer has no room under cli.system's memory limit, and adds symbols of its own
  asan | tsan) leave="$leave|^cli.system$|^npu_kernels.symbols$" ;;
esac
[ "$preset" = aarch64 ] || ctest --test-dir "$scratch" -L quick -E "$leave" -j "${JOBS:-2}" --output-on-failure
