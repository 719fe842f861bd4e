#!/bin/sh
# Builds the library and the edge tests with a sanitizer and runs them.
# usage: san.sh SOURCE SCRATCH address|thread|memory|valgrind edges|all
#   address   AddressSanitizer + UndefinedBehaviorSanitizer, every kernel
#   thread    ThreadSanitizer, the tests with threads
#   memory    MemorySanitizer, scalar kernels (intrinsics are not all understood)
#   valgrind  memcheck on the ordinary build; it knows no AVX-512, which the CPUID it shows leaves out
set -eu
src=$1 scratch=$2 kind=$3 size=$4
build=$scratch/$kind
quick="p01_oracle p02_split p03_speculation p04_independence p05_causality p06_untouched p07_poison
  p10_same_bits p13_teeth p14_empty p15_strides p16_fast op_chunk op_replayssm op_flash_kda op_fused_recurrent"
threads="p10_same_bits p03_speculation p06_untouched p11_drift op_chunk op_flash_kda"
misuse="misuse_activations misuse_records misuse_problem misuse_context misuse_pools misuse_op_verify misuse_op_others"
parts="src;test"
case $kind in
  address)
    flags="-DREDELTA_SANITIZE=address,undefined" tests="$quick $misuse"
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
    flags="" tests="p02_split p03_speculation p06_untouched p07_poison p14_empty p15_strides op_fused_recurrent misuse_activations misuse_records misuse_context misuse_pools" ;;
  *) echo "unknown sanitizer: $kind" >&2; exit 2 ;;
esac
if [ "$size" = edges ]; then
  case $kind in
    address) tests="p01_oracle p03_speculation p06_untouched p07_poison p10_same_bits p14_empty p15_strides p16_fast
      op_chunk op_flash_kda misuse_records misuse_context misuse_op_others" ;;
    thread) tests="p10_same_bits p11_drift op_flash_kda" ;;
    memory) tests="p01_oracle p06_untouched p14_empty op_chunk op_fused_recurrent" ;;
    valgrind) tests="p06_untouched misuse_context misuse_pools" ;;
  esac
fi
cc=clang
[ $kind = valgrind ] && cc=cc
command -v $cc >/dev/null || { echo "not run: $cc is not installed"; exit 77; }
[ $kind != valgrind ] || command -v valgrind >/dev/null || { echo "not run: valgrind is not installed"; exit 77; }
targets=
for t in $tests; do targets="$targets test/$t"; done
[ $kind = thread ] && targets="$targets test/op_chunk"
cmake -S "$src" -B "$build" -G Ninja -DCMAKE_C_COMPILER=$cc -DCMAKE_BUILD_TYPE=RelWithDebInfo -DREDELTA_PARTS="$parts" \
  $flags >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
ninja -C "$build" -j "${JOBS:-2}" $targets >>"$build.log" 2>&1 || { tail -50 "$build.log"; exit 1; }
passed=0 failed=0
if [ $kind = thread ]; then # calls too small to share stay on their thread: one that is large enough
  tests="$tests op_chunk:qwen_shape"
fi
for t in $tests; do
  run="$build/test/$t --level quick"
  case $t in *:*) run="$build/test/${t%:*} --level std --filter ${t#*:}" ;; esac
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
