#!/bin/sh
# The binary interface against the recorded one (redelta-0.2.abi): functions may be added, every other
# difference is reported. Then the same comparison must find planted breaks. Whoever appends a field
# (docs/API-CONVENTIONS.md) records anew in the same commit, where the record's difference shows that
# nothing else moved. usage: abi.sh SOURCE CC SCRATCH [record]
set -eu
src=$1 cc=$2 tmp=$3
here=$src/test/abi
rm -rf "$tmp"
mkdir -p "$tmp"

# dump NAME: the interface of the library built with $tmp/NAME/include as $tmp/NAME/abi. Plain C kernels
# do: none of them is part of the interface.
dump() {
  (cd "$tmp/$1" && find "$src/src" -name '*.c' ! -path '*/ref/*' ! -path '*/kernels/a[vm]x*' \
    ! -path '*/kernels/neon/*' ! -path '*/kernels/scalar_fma/*' -print0 | sort -z |
    xargs -0 "$cc" -std=gnu17 -g -O0 -fdebug-prefix-map="$src=." -fdebug-prefix-map="$tmp/$1=." -shared -fPIC -fvisibility=hidden -pthread -Iinclude -I"$src/src" -o libredelta.so -lm)
  abidw --headers-dir "$tmp/$1/include" --exported-interfaces-only --drop-private-types --no-corpus-path --no-comp-dir-path \
    --no-show-locs --out-file "$tmp/$1/abi" "$tmp/$1/libredelta.so"
}
variant() { # NAME FILE SED-SCRIPT: the headers with one change
  mkdir -p "$tmp/$1"
  cp -r "$src/include" "$tmp/$1/include"
  [ $# -eq 1 ] && return
  sed "$3" "$src/include/redelta/$2" >"$tmp/$1/include/redelta/$2"
  cmp -s "$src/include/redelta/$2" "$tmp/$1/include/redelta/$2" && { echo "$1: nothing planted"; exit 1; }
  return 0
}
compare() { # NAME BASE
  abidiff --no-added-syms "$2" "$tmp/$1/abi" >"$tmp/$1/report" 2>&1
}

variant now
dump now
if [ "${4:-}" = record ]; then
  cp "$tmp/now/abi" "$here/redelta-0.2.abi"
  exit 0
fi
compare now "$here/redelta-0.2.abi" || { cat "$tmp/now/report"; exit 1; }

finds() {
  variant "$@"
  dump "$1"
  ! compare "$1" "$tmp/now/abi" || { echo "$1: not found"; exit 1; }
  echo "found: $1"
}
finds swapped_fields core.h 's/rd_tensor cu_seqlens;/rd_tensor lengths;/; t; s/^  rd_tensor lengths;/  rd_tensor cu_seqlens;/'
finds grown_tensor types.h 's/  int64_t stride\[RD_MAX_RANK\];/&\n  int64_t offset;/'
finds wider_field core.h 's/  int32_t head_map;     /  int64_t head_map;     /'
finds other_value types.h 's/RD_BF16 = 3/RD_BF16 = 6/'
finds appended_field core.h 's/^  rd_tensor parents;$/&\n  rd_tensor later;/'
finds lost_function exec.h 's/^RD_API size_t rd_context_reserved/size_t rd_context_reserved/'
echo "the interface is that of 0.2"
