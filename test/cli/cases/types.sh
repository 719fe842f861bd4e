# Element types that no operator takes, known and unknown: refused where an operator reads them, ignored
# with a warning elsewhere, compared as bytes.
quietly gen chunk_gated_delta_rule --shape B=1,Hk=1,Hv=1,T=2,K=2,V=2 -o good.st
size=$(stat -c %s good.st)
# with NAME DTYPE SHAPE BYTES CONTENT: good.st and one more tensor.
with() {
  local header at
  header=$(dd if=good.st bs=1 skip=8 count=$(($(od -An -tu8 -N8 good.st))) status=none | sed 's/} *$//')
  at=$(grep -o 'data_offsets":\[[0-9]*,[0-9]*' <<<"$header" | sed 's/.*,//' | sort -n | tail -1)
  header="$header,\"$1\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[$at,$((at + $4))]}}"
  safetensors "$5" "$header" 0
  tail -c "$at" good.st >>"$5"
  printf "$6" >>"$5"
}
for type in F4 F8_E8M0 F6_E2M3 f32 U64x; do
  with weights "$type" '[3,2]' 3 in.st '\001\002\003'
  run run chunk_gated_delta_rule in.st -o out.st
  rm -f out.st
done
for name in query state; do
  zero_chunk 1 1 1 2 2 2
  sed -i "s/\"$name\":{\"dtype\":\"F../\"$name\":{\"dtype\":\"C64/" in.st
  run run chunk_gated_delta_rule in.st -o out.st
done
zero_commit 1 1 1
sed -i 's/"recurrent_state":{"dtype":"F32/"recurrent_state":{"dtype":"C64/' in.st
run run commit_recurrent_kda_replayssm in.st -o out.st
with weights F4 '[3,2]' 3 other.st '\001\002\004'
with weights F4 '[3,2]' 3 same.st '\001\002\003'
with weights F4 '[3,2]' 3 in.st '\001\002\003'
run diff in.st other.st
run diff in.st same.st
with weights F6 '[3,2]' 3 other.st '\001\002\003'
run diff in.st other.st
with weights F4 '[3,2]' 4 other.st '\001\002\003\004'
run diff in.st other.st
# A known type whose bytes do not fit stays an error.
with weights F8_E4M3 '[3,2]' 3 in.st '\001\002\003'
run run chunk_gated_delta_rule in.st -o out.st
left_over good.st in.st other.st same.st
