# Seeded inputs: shapes, seeds, JSON.
for op in chunk_gated_delta_rule flash_kda flash_kda_metadata fused_recurrent_kda_replayssm commit_recurrent_kda_replayssm fused_recurrent_kda; do
  run gen $op -o a.st
done
run gen chunk_gated_delta_rule --shape B=3,Hk=2,Hv=4,T=5,K=64,V=32 --lengths 5,0,3 --dtype bf16 -o a.st
run gen flash_kda --shape Hk=1,Hv=2,T=9 --lengths 9,0,4 --layout-qkv BSND -o a.st
run gen flash_kda --shape Hk=1,Hv=2 --lengths 3,0,4 --layout-qkv TND -o a.st
run gen fused_recurrent_kda_replayssm --shape H=3 --lengths 2,5,1 --layout-qkv TND -o a.st
run gen fused_recurrent_kda_replayssm --shape B=2,N=3,S=4,C=9 --layout-qkv BNSD -o a.st
run gen fused_recurrent_kda --shape B=2,N=1,T=2,R=9 -o a.st --json
# The same seed gives the same file; another seed another one; the default is 1.
small='--shape B=1,Hk=1,Hv=2,T=3,K=4,V=5'
quietly gen chunk_gated_delta_rule $small -o one.st
quietly gen chunk_gated_delta_rule $small --seed 1 -o same.st
quietly gen chunk_gated_delta_rule $small --seed 2 -o other.st
cmp one.st same.st && echo same file
run diff one.st other.st
# A file made by another version of the tool must be this one.
sum=$(cksum <one.st)
echo "checksum $sum"
left_over a.st one.st same.st other.st
