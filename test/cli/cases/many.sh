# Files with as many tensors as a model has: nothing may take the square of their number.
many() { # COUNT, names from the last to the first when a second argument is given
  local n=$1 header
  header=$(seq 1 "$n" | ${2:-cat} | awk '{printf "%s\"layers.%d.weight\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", (NR > 1 ? "," : ""), $1}')
  safetensors out.data "{$header}" 0
}
many 80000
mv out.data a.st
many 80000 tac
mv out.data b.st
timeout 60 "$R" diff a.st b.st
echo "[$?]"
# A warning each for the first, a count for the rest.
timeout 60 "$R" run flash_kda a.st -o out.st 2>&1
echo "[$?]"
rm -f a.st b.st
left_over
