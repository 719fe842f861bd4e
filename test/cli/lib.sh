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
