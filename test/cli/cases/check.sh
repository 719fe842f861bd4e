# The judge: passes what is right, finds what is wrong and says where.
figures() { run "$@" | no_figures; }
quietly gen chunk_gated_delta_rule --shape B=2,Hk=1,Hv=2,T=7,K=24,V=20 --lengths 7,4 -o in.st
figures check chunk_gated_delta_rule in.st
figures check chunk_gated_delta_rule in.st --repeat 1 --threads 3 --isa scalar
figures check chunk_gated_delta_rule in.st --repeat 2 --threads 1 --numerics fast
quietly run chunk_gated_delta_rule in.st -o ref.st
figures check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --expect ref.st
# Limits a 16-bit output cannot meet.
figures check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --nrmse 1e-6
figures check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --cosine 1 | head -4
figures check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --atol 0 --rtol 0 | grep -c 'first bad'
# A reference from another call: bad elements, and the first of them.
quietly run chunk_gated_delta_rule in.st -o ref.st --scale-value 2
run check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --expect ref.st | sed -n '/out against the reference/,/first bad/p' | sed -E 's/first bad (\[[0-9, ]+\]).*/first bad \1/' | no_figures
# One wrong element, found exactly: [1, 1, 3, 2] of out is made of zeros elsewhere.
quietly run chunk_gated_delta_rule in.st -o ref.st
zeros nothing.npy f2 '(2, 2, 7, 20)' 560
quietly run chunk_gated_delta_rule in.st -o zero.st --set value=nothing.npy
npy one.npy f2 '(2, 2, 7, 20)' $(for ((i = 0; i < 560; i++)); do [ $i = 482 ] && echo 15360 || echo 0; done)
npy state.npy f2 '(2, 2, 24, 20)' $(for ((i = 0; i < 1920; i++)); do echo 0; done)
safetensors ref.st '{"out":{"dtype":"F32","shape":[2,2,7,20],"data_offsets":[0,2240]}}' 1928
printf '\x00\x00\x80\x3f' >>ref.st
head -c 308 /dev/zero >>ref.st
run check chunk_gated_delta_rule in.st --set value=nothing.npy --repeat 1 --threads 1 --expect ref.st | grep -A 9 'against the reference' | no_figures | grep -v worst
run check chunk_gated_delta_rule in.st --set value=nothing.npy --repeat 1 --threads 1 --expect ref.st | grep 'first bad'
# References that do not fit.
run check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --expect in.st 2>&1 | tail -2
safetensors ref.st '{"out":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}' 16
run check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --expect ref.st 2>&1 | tail -2
safetensors ref.st '{"out":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' 4
run check chunk_gated_delta_rule in.st --repeat 1 --threads 1 --expect ref.st 2>&1 | tail -2
run check chunk_gated_delta_rule in.st --expect no_such_file
# NaN goes to its row and is counted; the oracle agrees, so this is no failure.
npy beta.npy f2 '(2, 2, 7)' 32256 $(for ((i = 1; i < 28; i++)); do echo 14336; done)
run check chunk_gated_delta_rule in.st --repeat 2 --threads 2 --set beta=beta.npy | grep -E 'NaN|bits|^ok|^\['
# The other operators.
quietly gen flash_kda --shape Hk=1,Hv=2 --lengths 3,0,4 --layout-qkv TND -o in.st
figures check flash_kda in.st --layout-qkv TND --repeat 2 --threads 2
quietly gen flash_kda --shape Hk=1,Hv=2,T=4 --lengths 3,0,4 --layout-qkv BSND -o in.st
figures check flash_kda in.st --layout-qkv BSND --repeat 2 --threads 2 | tail -1
quietly run flash_kda_metadata in.st -o meta.st --layout-qkv BSND
figures check flash_kda_metadata in.st --layout-qkv BSND --repeat 2 --threads 2
# A schedule in the file instead of cu_seqlens: the judge reads the lengths out of it.
quietly gen flash_kda --shape B=3,Hk=1,Hv=2,T=4 --layout-qkv BSND -o bare.st
npy meta.npy i4 '(13,)' && tail -c 52 meta.st >>meta.npy
figures check flash_kda bare.st --set metadata=meta.npy --layout-qkv BSND --repeat 2 --threads 2 | grep -E '^ok|FAILED|^\['
quietly run flash_kda in.st --layout-qkv BSND -o with_cu.st
quietly run flash_kda bare.st --set metadata=meta.npy --layout-qkv BSND -o with_meta.st
run diff with_cu.st with_meta.st
quietly gen fused_recurrent_kda_replayssm --shape N=2 --lengths 3,1 --layout-qkv TND -o in.st
figures check fused_recurrent_kda_replayssm in.st --layout-qkv TND --repeat 2 --threads 2
quietly gen commit_recurrent_kda_replayssm --shape B=2,N=2,C=3 --lengths 0,2 -o in.st
figures check commit_recurrent_kda_replayssm in.st --repeat 2 --threads 2
quietly gen fused_recurrent_kda --shape B=2,N=1,T=2,R=6 -o in.st
figures check fused_recurrent_kda in.st --repeat 2 --threads 2
run check fused_recurrent_kda in.st --repeat 2 --threads 2 --json | grep -E '"(operator|passed|tensor|against|nan|inf|elements|bad_elements|first_bad|bad_heads|way|compared|same_bits)"|^\['
left_over *.st *.npy
