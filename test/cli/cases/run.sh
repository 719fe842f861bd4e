# Every operator runs; results do not depend on threads or instruction sets; OUT is whole or absent.
small='--shape B=2,Hk=1,Hv=2,T=7,K=24,V=20 --lengths 7,4'
quietly gen chunk_gated_delta_rule $small -o chunk.st
run run chunk_gated_delta_rule chunk.st -o chunk.out
run run chunk_gated_delta_rule chunk.st -o chunk.1 --threads 1 --isa scalar --numerics exact --scale-value 1.0
run diff chunk.out chunk.1
run run chunk_gated_delta_rule chunk.st -o chunk.2 --scale-value 0.5
run diff chunk.out chunk.2 | head -2
quietly gen flash_kda --shape Hk=1,Hv=2 --lengths 3,0,4 --layout-qkv TND -o flash.st
run run flash_kda flash.st -o flash.out --layout-qkv TND
run run flash_kda_metadata flash.st -o meta.out --layout-qkv TND
quietly gen fused_recurrent_kda_replayssm --shape N=2 --lengths 3,1 --layout-qkv TND -o verify.st
run run fused_recurrent_kda_replayssm verify.st -o verify.out --layout-qkv TND --block-num 24
run run fused_recurrent_kda_replayssm verify.st -o verify.1 --layout-qkv TND --scale 0.08838834764831845
run diff verify.out verify.1
quietly gen commit_recurrent_kda_replayssm --shape B=2,N=2,C=3 --lengths 0,2 -o commit.st
run run commit_recurrent_kda_replayssm commit.st -o commit.out
quietly gen fused_recurrent_kda --shape B=2,N=1,T=2,R=6 -o decode.st
run run fused_recurrent_kda decode.st -o decode.out --lower-bound -2.5
# JSON: the timing differs from run to run.
run run commit_recurrent_kda_replayssm commit.st -o commit.out --json --threads 2 | sed -E 's/"seconds": [0-9.e-]+/"seconds": #/'
# Records of a verify, committed: --set takes a tensor from an npy file, unknown tensors are ignored.
npy accepted.npy i4 '(2,)' 1 0
run run commit_recurrent_kda_replayssm commit.st -o commit.set --set num_accepted_tokens=accepted.npy
npy extra.npy f4 '(1,)' 0
run run commit_recurrent_kda_replayssm commit.st -o commit.set --set no_such_tensor=extra.npy
# OUT replaces an older file only at the end, and is never an input.
cp commit.st keep.st
run run commit_recurrent_kda_replayssm commit.st -o commit.st
ln commit.st hard.st
run run commit_recurrent_kda_replayssm commit.st -o hard.st
ln -s commit.st soft.st
run run commit_recurrent_kda_replayssm commit.st -o soft.st
run run commit_recurrent_kda_replayssm commit.st -o accepted.npy --set num_accepted_tokens=accepted.npy
run run commit_recurrent_kda_replayssm commit.st -o .
run run commit_recurrent_kda_replayssm commit.st -o /dev/null
run run commit_recurrent_kda_replayssm commit.st -o no/such/folder/out.st
cmp commit.st keep.st && echo input unchanged
left_over *.st *.out chunk.1 chunk.2 verify.1 commit.set accepted.npy extra.npy
