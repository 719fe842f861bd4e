# Two files: bits, or tolerances.
one() { safetensors "$1" '{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' 0; shift; for x in "$@"; do printf "$(bytes "$x" 4)"; done; }
one a.st 0x3f800000 0x40000000 0 0x7fc00000 0x7f800000 0 >.data; cat .data >>a.st
one b.st 0x3f800000 0x40000001 0x80000000 0x7fc00001 0x7f800000 0 >.data; cat .data >>b.st
run diff a.st a.st
run diff a.st b.st
run diff a.st b.st --json
run diff a.st b.st --atol 1e-6
run diff a.st b.st --rtol 1e-6
run diff a.st b.st --rtol 1e-9
safetensors c.st '{"a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}' 24
run diff a.st c.st
safetensors d.st '{"a":{"dtype":"I32","shape":[2,3],"data_offsets":[0,24]}}' 24
run diff a.st d.st
safetensors e.st '{"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"n":{"dtype":"I64","shape":[1],"data_offsets":[2,10]}}' 10
run diff a.st e.st
safetensors f.st '{"n":{"dtype":"I64","shape":[1],"data_offsets":[1,9]},"z":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' 8
printf '\x01' >>f.st
run diff e.st f.st --atol 0
safetensors g.st '{"a":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}' 0
run diff g.st g.st
run diff a.st nothing.st
run diff . a.st
left_over a.st b.st c.st d.st e.st f.st g.st
