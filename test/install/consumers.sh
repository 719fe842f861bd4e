#!/bin/sh
# Installs the build into a scratch place and uses it as strangers would: find_package (shared, static)
# and pkg-config (shared, static). usage: consumers.sh SOURCE BUILD SCRATCH
set -eu
src=$1 build=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch"
say() { # label program
  out=$("$2") || { echo "$1: $out"; exit 1; }
  echo "$1: $out"
}
cmake --install "$build" --prefix "$scratch/usr" >"$scratch/install.log"

cmake -S "$src/test/install/consumer" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$scratch/usr" \
  -DPROGRAM="$src/test/install/program.c" -DNPU_PROGRAM="$src/examples/npu/vector_add.c" >"$scratch/consumer.log"
cmake --build "$scratch/consumer" >>"$scratch/consumer.log"
for kind in shared static redelta; do
  say "find_package, $kind" "$scratch/consumer/use_$kind"
done
for kind in npu npu_static; do
  "$scratch/consumer/use_$kind" >"$scratch/$kind.log" || { cat "$scratch/$kind.log"; exit 1; }
  echo "find_package, $kind: ok"
done

pc=$(find "$scratch/usr" -name redelta.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
# The file names the configured prefix; a relocated tree needs the real one.
export PKG_CONFIG_PATH
flags="--define-variable=prefix=$scratch/usr"
libdir=$(dirname "$(dirname "$pc")")
cc -std=c11 -Wall -Wextra -Werror "$src/test/install/program.c" $(pkg-config $flags --cflags --libs redelta) \
  -o "$scratch/pc_shared"
LD_LIBRARY_PATH=$libdir
export LD_LIBRARY_PATH
say "pkg-config, shared" "$scratch/pc_shared"
cc "$src/test/install/program.c" $(pkg-config $flags --cflags redelta) "$libdir/libredelta.a" \
  $(pkg-config $flags --static --libs redelta | tr ' ' '\n' | grep -v redelta) -o "$scratch/pc_static"
say "pkg-config, static" "$scratch/pc_static"
[ "$(pkg-config --modversion redelta)" = "$("$scratch/pc_static" | sed 's/redelta \(.*\): ok/\1/')" ]

# The shared library: a soname with the major version, and libc and libm only.
so=$(find "$libdir" -maxdepth 1 -name 'libredelta.so' | head -1)
readelf -d "$so" | grep -q 'SONAME.*libredelta\.so\.0\]' || { echo "soname is wrong"; exit 1; }
needed=$(readelf -d "$so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
for lib in $needed; do
  case $lib in libc.so.* | libm.so.* | ld-linux*) ;; *) echo "the core needs $lib"; exit 1 ;; esac
done
echo "needs only: $needed" | tr '\n' ' '
echo
