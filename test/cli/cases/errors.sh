# What the operators refuse: a clear error, status 2, nothing written.
refused() { run run "$@" -o out.st; left_over in.st case.npy two.npy; }

quietly gen chunk_gated_delta_rule --shape B=1,Hk=2,Hv=4,T=5,K=16,V=16 -o in.st
npy case.npy i4 '(1,)' 6
refused chunk_gated_delta_rule in.st --set actual_seq_lengths=case.npy
npy case.npy i4 '(1,)' -1
refused chunk_gated_delta_rule in.st --set actual_seq_lengths=case.npy
npy case.npy i8 '(1,)' 5
refused chunk_gated_delta_rule in.st --set actual_seq_lengths=case.npy
npy case.npy i4 '(1, 1)' 5
refused chunk_gated_delta_rule in.st --set actual_seq_lengths=case.npy
npy case.npy i4 '()' 5
refused chunk_gated_delta_rule in.st --set actual_seq_lengths=case.npy
zeros case.npy f4 '(1, 4, 5)' 20
refused chunk_gated_delta_rule in.st --set beta=case.npy
zeros case.npy f8 '(1, 4, 5)' 20
refused chunk_gated_delta_rule in.st --set g=case.npy
zeros case.npy f4 '(1, 4, 6)' 24
refused chunk_gated_delta_rule in.st --set g=case.npy
zeros case.npy f4 '(1, 1, 1, 4, 5)' 20
refused chunk_gated_delta_rule in.st --set g=case.npy
zero_chunk 1 3 4 5 16 16
refused chunk_gated_delta_rule in.st
zero_chunk 1 1 1 2 513 16
refused chunk_gated_delta_rule in.st
quietly gen chunk_gated_delta_rule --shape B=1,Hk=1,Hv=1,T=2,K=16,V=16 -o in.st
refused chunk_gated_delta_rule in.st --scale-value 1e300
refused fused_recurrent_kda in.st

quietly gen commit_recurrent_kda_replayssm --shape B=2,N=1,C=3 -o in.st
npy case.npy i4 '(2,)' -1 0
refused commit_recurrent_kda_replayssm in.st --set num_accepted_tokens=case.npy
npy case.npy i4 '(2,)' 0 4
refused commit_recurrent_kda_replayssm in.st --set num_accepted_tokens=case.npy
refused commit_recurrent_kda_replayssm in.st --block-num 7
zeros case.npy f2 '(2, 3, 1, 64)' 384
refused commit_recurrent_kda_replayssm in.st --set replay_u=case.npy
zeros case.npy f4 '(2, 3, 1, 128)' 768
refused commit_recurrent_kda_replayssm in.st --set replay_k=case.npy

zero_verify 1 1 4 3
refused fused_recurrent_kda_replayssm in.st
zero_verify 1 97 1 1
refused fused_recurrent_kda_replayssm in.st
quietly gen fused_recurrent_kda_replayssm --shape N=1 --lengths 2,2 --layout-qkv TND -o in.st
refused fused_recurrent_kda_replayssm in.st
refused fused_recurrent_kda_replayssm in.st --layout-qkv TND --lower-bound -5.5
refused fused_recurrent_kda_replayssm in.st --layout-qkv TND --lower-bound 0.1
for cu in '1 2 4' '0 3 3' '0 3 2' '0 2 5' '0 2 3'; do
  npy case.npy i4 '(3,)' $cu
  refused fused_recurrent_kda_replayssm in.st --layout-qkv TND --set cu_seqlens=case.npy
done
quietly gen fused_recurrent_kda_replayssm --shape B=2,N=1,T=2 -o in.st
refused fused_recurrent_kda_replayssm in.st --layout-qkv TND
npy case.npy i4 '(3,)' 0 2 4
refused fused_recurrent_kda_replayssm in.st --set cu_seqlens=case.npy

quietly gen flash_kda --shape Hk=1,Hv=1 --lengths 2,1 --layout-qkv TND -o in.st
npy case.npy i4 '(10,)' 1 2 3 4 5 6 7 8 9 10
refused flash_kda in.st --layout-qkv TND --set metadata=case.npy
npy case.npy i4 '(3,)' 0 2 1
refused flash_kda in.st --layout-qkv TND --set cu_seqlens=case.npy
quietly gen flash_kda --shape B=1,Hk=1,Hv=1,T=3 -o in.st
npy case.npy i4 '(10,)' 1 2 3 4 5 6 7 8 9 10
refused flash_kda in.st --set metadata=case.npy
npy case.npy i4 '(2,)' 0 4
refused flash_kda in.st --set cu_seqlens=case.npy
zero_flash 1 2 3 3
refused flash_kda in.st

quietly gen fused_recurrent_kda --shape B=2,N=1,T=2,R=4 -o in.st
for slots in '0 1 2 -1' '0 1 2 4' '0 1 2 1'; do
  npy case.npy i4 '(4,)' $slots
  refused fused_recurrent_kda in.st --set ssm_state_indices=case.npy
done
npy case.npy i4 '(2,)' 1 3
refused fused_recurrent_kda in.st --set num_accepted_tokens=case.npy
npy case.npy i4 '(2,)' -1 0
refused fused_recurrent_kda in.st --set num_accepted_tokens=case.npy
zero_decode 2 1 2 3
refused fused_recurrent_kda in.st

# Files.
rm -f in.st
refused flash_kda in.st
quietly gen flash_kda --shape B=1,Hk=1,Hv=1,T=3 -o in.st
refused flash_kda in.st --set q=nothing.npy
echo text >case.npy
refused flash_kda in.st --set q=case.npy
refused flash_kda case.npy
refused flash_kda .
