#!/bin/sh
# Builds the library and the edge tests with a sanitizer and runs them.
# usage: san.sh SOURCE SCRATCH address|thread|memory|valgrind edges|all
#   address   AddressSanitizer + UndefinedBehaviorSanitizer, every kernel
#   thread    ThreadSanitizer, the tests with threads
#   memory    MemorySanitizer, scalar kernels (intrinsics are not all understood)
#   valgrind  memcheck; it knows no AVX-512, which the CPUID it shows leaves out, and keeps subnormals
#             whatever the mode, so that without REDELTA_ASSUME_FLUSH only plain C would be checked
set -eu
src=$1 scratch=$2 kind=$3 size=$4
build=$scratch/$kind
quick="p01_oracle p02_split p03_speculation p04_independence p05_causality p06_untouched p07_poison
  p10_same_bits p13_teeth p14_empty p15_strides p16_fast p17_trees op_chunk op_replayssm op_flash_kda
  op_fused_recurrent"
threads="p10_same_bits p17_trees p03_speculation p06_untouched p11_drift op_chunk op_flash_kda"
misuse="misuse_activations misuse_records misuse_trees misuse_problem misuse_context misuse_pools misuse_op_verify misuse_op_chunk misuse_op_flash misuse_op_fused"
only="-DREDELTA_BUILD_NPU=OFF -DREDELTA_BUILD_MPI=OFF -DREDELTA_BUILD_CLI=OFF -DREDELTA_BUILD_BENCH=OFF"
case $kind in
  address)
    # Checks as calls: inlined into the kernels' unrolled loops they take most of the build's time.
    flags="-DREDELTA_SANITIZE=address,undefined" tests="$quick $misuse"
    CFLAGS="-mllvm -asan-instrumentation-with-call-threshold=0"
    export CFLAGS
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1
    UBSAN_OPTIONS=print_stacktrace=1
    export ASAN_OPTIONS UBSAN_OPTIONS ;;
  thread)
    flags="-DREDELTA_SANITIZE=thread" tests="$threads"
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    export TSAN_OPTIONS ;;
  memory)
    flags="-DREDELTA_SANITIZE=memory -DREDELTA_SCALAR_ONLY=ON" tests="$quick misuse_context misuse_pools"
    MSAN_OPTIONS=halt_on_error=1
    export MSAN_OPTIONS ;;
  valgrind)
    flags="-DREDELTA_ASSUME_FLUSH=ON" tests="p02_split p03_speculation p06_untouched p07_poison p14_empty p15_strides op_fused_recurrent misuse_activations misuse_records misuse_context misuse_pools" ;;
  *) echo "unknown sanitizer: $kind" >&2; exit 2 ;;
esac
if [ "$size" = edges ]; then
  case $kind in
    address) tests="p01_oracle p03_speculation p06_untouched p07_poison p10_same_bits p14_empty p15_strides p16_fast p17_trees
      op_chunk op_flash_kda misuse_records misuse_trees misuse_context misuse_op_chunk misuse_op_flash misuse_op_fused" ;;
    thread) tests="p10_same_bits p11_drift op_flash_kda" ;;
    memory) tests="p01_oracle p06_untouched p14_empty op_chunk op_fused_recurrent" ;;
    valgrind) tests="p06_untouched misuse_context misuse_pools" ;;
  esac
fi
cc=clang
[ $kind != valgrind ] || cc=cc
command -v $cc >/dev/null || { echo "not run: $cc is not installed"; exit 77; }
[ $kind != valgrind ] || command -v valgrind >/dev/null || { echo "not run: valgrind is not installed"; exit 77; }
programs=$build/test
targets=
for t in $tests; do targets="$targets test/$t"; done
[ $kind = thread ] && targets="$targets test/op_chunk"
# shellcheck disable=SC2086 # one word each
{ cmake -S "$src" -B "$build" -G Ninja -DCMAKE_C_COMPILER=$cc -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  $only $flags && ninja -C "$build" -j "${JOBS:-2}" $targets; } >"$build.log" 2>&1 || { tail -50 "$build.log"; exit 1; }
passed=0 failed=0
if [ $kind = thread ]; then # calls too small to share stay on their thread: one that is large enough
  tests="$tests op_chunk:qwen_shape"
fi
for t in $tests; do
  run="$programs/$t --level quick"
  case $t in *:*) run="$programs/${t%:*} --level std --filter ${t#*:}" ;; esac
  if [ $kind = valgrind ]; then
    run="valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite $run"
  fi
  if $run >"$build/$t.log" 2>&1; then
    passed=$((passed + 1))
    tail -1 "$build/$t.log" | sed "s/^/$kind $t: /"
  else
    failed=$((failed + 1))
    echo "FAIL $kind $t"
    tail -60 "$build/$t.log"
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
