# What every case includes. A case prints commands, their output and exit statuses; the driver compares
# that with the .out file of the same name. R is the tool; the working directory is fresh and private.

# run ARGS...: the command line, what it prints (stdout, then stderr) and the status.
run() {
  echo "\$ redelta $*"
  "$R" "$@" >.stdout 2>.stderr
  local status=$?
  cat .stdout .stderr | clean
  echo "[$status]"
}

# head_of N ARGS...: as run, only the first N lines.
head_of() {
  local n=$1
  shift
  run "$@" >.all
  head -n "$((n + 1))" .all
  tail -n 1 .all
}

# quietly ARGS...: only the status and stderr, for steps whose output another case shows.
quietly() {
  "$R" "$@" >.stdout 2>.stderr
  local status=$?
  if [ $status -ne 0 ]; then
    echo "\$ redelta $*"
    clean <.stderr
    echo "[$status]"
  fi
}

# The library's sentences are its own business here (test/core checks them): its status name is kept.
clean() { sed -E 's/(RD_E_[A-Z0-9_]+): .*/\1/'; }

# Figures that may differ in the last digits between C libraries.
no_figures() { sed -E 's/-?[0-9]+\.?[0-9]*e[-+][0-9]+/#/g; s/[0-9]+\.[0-9]+/#/g; s/at \[[0-9, ]+\]/at [#]/g; s/at least [0-9.]+/at least #/; s/, (sequence|slot) [0-9]+, head [0-9]+/, \1 #, head #/'; }

# bytes NUMBER WIDTH: little-endian, as printf escapes.
bytes() {
  local value=$1 i
  for ((i = 0; i < $2; i++)); do
    printf '\\x%02x' $((value & 255))
    value=$((value >> 8))
  done
}

# safetensors FILE HEADER DATA_BYTES: a file with any header and zeros for data.
safetensors() {
  printf "$(bytes ${#2} 8)" >"$1"
  printf '%s' "$2" >>"$1"
  head -c "$3" /dev/zero >>"$1"
}

# npy FILE DESCR SHAPE NUMBERS...: whole numbers in an npy file; DESCR i4, i8, f2, f4 or V2 (bits).
npy() {
  local file=$1 descr=$2 shape=$3 width=${2:1} header
  shift 3
  header="{'descr': '<$descr', 'fortran_order': False, 'shape': $shape, }"
  printf "\\x93NUMPY\\x01\\x00$(bytes ${#header} 2)" >"$file"
  printf '%s' "$header" >>"$file"
  local number
  for number in "$@"; do printf "$(bytes "$number" "$width")" >>"$file"; done
}

# zeros FILE DESCR SHAPE COUNT
zeros() {
  npy "$1" "$2" "$3"
  head -c $(($4 * ${2:1})) /dev/zero >>"$1"
}

# Nothing may be left over: the names in the working directory except those given.
left_over() {
  local name known
  for name in *; do
    known=no
    for k in "$@"; do [ "$k" = "$name" ] && known=yes; done
    [ $known = yes ] || [ ! -e "$name" ] || echo "LEFT OVER: $name"
  done
  return 0
}

# zero_file FILE 'NAME DTYPE A,B,C' ...: a file of zeros with these tensors, whatever their shapes.
zero_file() {
  local file=$1 at=0 header= tensor name dtype shape width size n
  shift
  for tensor; do
    read -r name dtype shape <<<"$tensor"
    case $dtype in F32 | I32) width=4 ;; *) width=2 ;; esac
    size=$width
    for n in ${shape//,/ }; do size=$((size * n)); done
    header+="${header:+,}\"$name\":{\"dtype\":\"$dtype\",\"shape\":[$shape],\"data_offsets\":[$at,$((at + size))]}"
    at=$((at + size))
  done
  safetensors "$file" "{$header}" "$at"
}

# Inputs of the operators, of zeros, in any dimensions, also those gen refuses:
#   zero_chunk B Hk Hv T K V, zero_flash B Hk Hv T, zero_verify B N T C, zero_commit B N C, zero_decode B N T R
zero_chunk() {
  zero_file in.st "query F16 $1,$2,$4,$5" "key F16 $1,$2,$4,$5" "value F16 $1,$3,$4,$6" "beta F16 $1,$3,$4" \
    "state F32 $1,$3,$5,$6" "actual_seq_lengths I32 $1"
}
zero_flash() {
  zero_file in.st "q BF16 $1,$2,$4,128" "k BF16 $1,$2,$4,128" "v BF16 $1,$3,$4,128" "g BF16 $1,$3,$4,128" \
    "beta BF16 $1,$3,$4" "initial_state F32 $1,$3,128,128" "A_log F32 $3" "dt_bias F32 $3,128"
}
zero_recurrent() {
  local b=$1 n=$2 t=$3
  shift 3
  zero_file in.st "mixedqkv BF16 $b,$t,$((3 * n * 128))" "beta BF16 $b,$t,$n,1" "g BF16 $b,$t,$n,128" "A_log F32 $n" \
    "dt_bias F32 $n,128" "$@"
}
zero_verify() {
  zero_recurrent "$1" "$2" "$3" "recurrent_state F32 $1,$2,128,128" "replay_u F16 $1,$4,$2,128" \
    "replay_k F16 $1,$4,$2,128" "replay_decay F32 $1,$4,$2,128"
}
zero_commit() {
  zero_file in.st "recurrent_state F32 $1,$2,128,128" "replay_u F16 $1,$3,$2,128" "replay_k F16 $1,$3,$2,128" \
    "replay_decay F32 $1,$3,$2,128" "num_accepted_tokens I32 $1"
}
zero_decode() { zero_recurrent "$1" "$2" "$3" "state F32 $4,$2,128,128"; }
