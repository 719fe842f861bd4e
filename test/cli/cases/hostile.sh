# Files that lie: every violation of the format is an error that names the tensor.
refused() { run run commit_recurrent_kda_replayssm in.st -o out.st; left_over in.st good.st; }
hostile() { safetensors in.st "$1" "$2"; refused; }
pair() { hostile "{\"replay_u\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8]},\"replay_k\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[$1]}}" "$2"; }
pair 4,12 12
pair 0,8 8
pair 12,20 20
pair 8,16 17
pair 8,16 15
pair 16,8 16
pair -8,0 16
pair 8,9223372036854775807 16
pair 8,9223372036854775808 16
one() { hostile "{\"replay_u\":{$1}}" "$2"; }
one '"dtype":"F16","shape":[2,3],"data_offsets":[0,8]' 8
one '"dtype":"F17","shape":[2,2],"data_offsets":[0,8]' 8
one '"dtype":"F16","shape":[-2,-2],"data_offsets":[0,8]' 8
one '"dtype":"F16","shape":[2.0,2],"data_offsets":[0,8]' 8
one '"dtype":"F16","shape":[NaN],"data_offsets":[0,8]' 8
one '"dtype":"F16","shape":[4294967296,4294967296],"data_offsets":[0,0]' 0
one '"dtype":"F16","shape":[2,2]' 8
one '"dtype":"F16","data_offsets":[0,8]' 8
one '"shape":[2,2],"data_offsets":[0,8]' 8
one '"dtype":"F16","shape":[2,2],"data_offsets":[0,8],"more":1' 8
one '"dtype":"F16","dtype":"F16","shape":[2,2],"data_offsets":[0,8]' 8
hostile '{"replay_u":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"replay_u":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}' 4
hostile '{"replay_u":[]}' 0
hostile '{"__metadata__":{"a":1}}' 0
hostile ' {}' 0
hostile '[]' 0
hostile '{' 0
hostile '{}}' 0
printf '\xff\xff\xff\xff\xff\xff\xff\xff{}' >in.st
refused
printf '\x03\x00\x00\x00\x00\x00\x00\x00{}' >in.st
refused
printf '\x03\x00\x00' >in.st
refused
: >in.st
refused
# Cut short anywhere, a good file is refused.
quietly gen commit_recurrent_kda_replayssm --shape B=1,N=1,C=1 -o good.st
size=$(stat -c %s good.st) tried=0 bad=0
for n in $(seq 0 7 600) $(seq 601 4999 "$size"); do
  head -c "$n" good.st >in.st
  "$R" run commit_recurrent_kda_replayssm in.st -o out.st >/dev/null 2>&1
  [ $? -eq 2 ] && [ ! -e out.st ] || bad=$((bad + 1))
  tried=$((tried + 1))
done
[ $tried -gt 90 ] && echo "cuts accepted or misreported: $bad"
left_over in.st good.st
