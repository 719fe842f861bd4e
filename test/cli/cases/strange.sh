# Names and numbers that nobody expects, and outputs that cannot be written.
q() { printf '{"%s":{"dtype":"%s","shape":%s,"data_offsets":[0,%s]}}' "$@"; }
# A name from a file can neither move the cursor nor pass for a line of ours.
safetensors in.st "$(q '\u001b[2J\u009b\nredelta run: all is well' F32 '[1]' 4)" 4
run run flash_kda in.st -o out.st
safetensors other.st "$(q plain F32 '[1]' 4)" 4
run diff in.st other.st
# A long name leaves room for what is wrong.
safetensors in.st "$(q "$(printf 'n%.0s' {1..5000})" F32 '[2]' 4)" 4
run run flash_kda in.st -o out.st
# An output without a name, and one with the longest there is.
quietly gen chunk_gated_delta_rule --shape Hk=1,Hv=1,T=2,K=2,V=2 -o in.st
run run chunk_gated_delta_rule in.st -o ''
long=$(printf 'x%.0s' {1..255})
quietly run chunk_gated_delta_rule in.st -o "$long"
[ -s "$long" ] && echo the longest name is written
"$R" run chunk_gated_delta_rule in.st -o "y$long" >.stdout 2>.stderr
echo "a longer one: [$?]"
rm -f "$long"
# No elements, and extents whose product fits no number of bits.
E='"data_offsets":[0,0]'
x() { printf '"%s":{"dtype":"F32","shape":%s,%s},' "$1" "$2" "$E"; }
h="[0,1099511627776,1099511627776,1099511627776]"
safetensors in.st "{$(x query $h)$(x key $h)$(x value $h)$(x beta '[0,1,1]')$(x state '[0,1,1,1]')\"actual_seq_lengths\":{\"dtype\":\"I32\",\"shape\":[0],$E}}" 0
run run chunk_gated_delta_rule in.st -o out.st
# Lengths beyond the default T make a larger T; a T that was asked for stays.
run gen chunk_gated_delta_rule --shape Hk=1,Hv=1,K=2,V=2 --lengths 3,600 -o in.st
run gen chunk_gated_delta_rule --shape Hk=1,Hv=1,K=2,V=2,T=2 --lengths 1,3 -o in.st
run gen commit_recurrent_kda_replayssm --shape N=1 --lengths 12,3 -o in.st
# Doubles are numbers: diff compares them within tolerances, and check takes them as a reference.
double() {
  safetensors "$1" "$(q out F64 '[1,1,1,1]' 8)" 0
  printf "$2" >>"$1"
}
double a.st '\x00\x00\x00\x00\x00\x00\xf0\x3f'
double b.st '\x00\x00\x00\x01\x00\x00\xf0\x3f'
run diff a.st b.st
run diff a.st b.st --rtol 1e-6
quietly gen chunk_gated_delta_rule --shape Hk=1,Hv=1,T=1,K=1,V=1 --dtype f32 -o in.st
double a.st '\x00\x00\x00\x00\x00\x00\x59\x40'
"$R" check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --expect a.st >.stdout 2>.stderr
echo "check against a wrong double: [$?]"
grep -c 'out against the reference: FAILED' .stdout
rm -f a.st b.st
left_over in.st other.st
