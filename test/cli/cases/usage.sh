# Help, versions, and everything a command line can have wrong.
run --help | grep -vE '^  (bench|npu) '
run --version | sed 's/[0-9]*\.[0-9]*\.[0-9]*\(-dev\)*/X.Y.Z/'
head_of 1 help
run | grep -vE '^  (bench|npu) '
run nonsense
for c in demo info run check diff gen; do head_of 1 "$c" --help; done
run run --help
run info --nonsense
run info extra
run run
run run flash_kda
run run flash_kda a b c
run run flash_kda a -x
run run flash_kda a -o
run run flash_kda a --out
run run flash_kda a
run run no_such_operator a -o b
run gen no_such_operator -o b
run check no_such_operator a
run info -o x
run diff a
run diff a b --atol x
run diff a b --atol -1
for n in '' x 1x 0x10 nan inf ' 1' 1e400 --; do run run flash_kda a -o b --scale "$n"; done
for n in '' x 0 -1 1.5 1025 99999999999999999999 2,3; do run run flash_kda a -o b --threads "$n"; done
for n in '' , 1, 1,,2 1,x 0 1,1025 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17; do run check flash_kda a --threads "$n"; done
run check flash_kda a --repeat 0
run check flash_kda a --cosine 2
run check flash_kda a --nrmse -1
run run flash_kda a -o b --layout-qkv bsnd
run run flash_kda a -o b --numerics slow
run run flash_kda a -o b --isa sse9
run run fused_recurrent_kda a -o b --numerics fast
run run commit_recurrent_kda_replayssm a -o b --scale 1
run run chunk_gated_delta_rule a -o b --lower-bound -1
run run flash_kda a -o b --block-num 8
run run flash_kda a -o b --scale-value 1
run run fused_recurrent_kda_replayssm a -o b --block-num 0
run run flash_kda a -o b --set nothing
run run flash_kda a -o b --set =x
run gen flash_kda -o b --seed -1
run gen flash_kda -o b --seed 18446744073709551616
run gen flash_kda -o b --shape Q=1
run gen flash_kda -o b --shape K=64
run gen flash_kda -o b --shape B
run gen flash_kda -o b --shape B=
run gen flash_kda -o b --shape B=-1
run gen flash_kda -o b --shape B=1,
run gen flash_kda -o b --shape B=99999999999
run gen flash_kda -o b --dtype f16
run gen chunk_gated_delta_rule -o b --dtype f64
run gen chunk_gated_delta_rule -o b --layout-qkv TND
run gen chunk_gated_delta_rule -o b --shape B=3 --lengths 1,2
run gen fused_recurrent_kda -o b --lengths 1,2
run gen chunk_gated_delta_rule -o b --shape B=100000,T=100000,V=100000,Hv=1000000
left_over
