# gen makes what the operator takes and nothing else: at every edge of the dimensions it refuses exactly
# what run refuses of a file of zeros with those dimensions.
agree() { # MAKER OPERATOR SHAPE NUMBERS..
  local maker=$1 op=$2 shape=$3 made ran
  shift 3
  "$maker" "$@"
  "$R" run "$op" in.st -o out.st >/dev/null 2>.ran
  ran=$?
  rm -f out.st in.st
  "$R" gen "$op" --shape "$shape" -o in.st >/dev/null 2>.made
  made=$?
  cases=$((cases + 1))
  if [ $ran = $made ]; then agreed=$((agreed + 1)); else echo "$op $shape: gen $made, run $ran: $(cat .made .ran)"; fi
  [ $made -ne 2 ] || refused=$((refused + 1))
  rm -f in.st
}
cases=0 agreed=0 refused=0
chunk() { agree zero_chunk chunk_gated_delta_rule "B=$1,Hk=$2,Hv=$3,T=$4,K=$5,V=$6" "$@"; }
flash() {
  agree zero_flash flash_kda "B=$1,Hk=$2,Hv=$3,T=$4" "$@"
  agree zero_flash flash_kda_metadata "B=$1,Hk=$2,Hv=$3,T=$4" "$@"
}
verify() { agree zero_verify fused_recurrent_kda_replayssm "B=$1,N=$2,T=$3,C=$4" "$@"; }
decode() { agree zero_decode fused_recurrent_kda "B=$1,N=$2,T=$3,R=$4" "$@"; }
commit() { agree zero_commit commit_recurrent_kda_replayssm "B=$1,N=$2,C=$3" "$@"; }
for k in 0 1 512 513; do chunk 1 1 1 2 "$k" 2; chunk 1 1 1 2 2 "$k"; done
for heads in '0 0' '0 1' '1 0' '1 3' '2 3' '3 2' '4 2' '2 4' '97 97'; do
  chunk 1 $heads 2 2 2
  flash 1 $heads 2
done
for b in 0 2; do
  for t in 0 1; do
    chunk $b 1 1 $t 2 2
    flash $b 1 1 $t
    verify $b 1 $t 1
    decode $b 1 $t 2
  done
  commit $b 1 1
done
for n in 0 1 96 97; do
  verify 1 "$n" 1 1
  decode 1 "$n" 1 1
  commit 1 "$n" 1
done
for c in 0 1 2 3; do
  verify 1 1 2 "$c"
  decode 1 1 2 "$c"
  commit 1 1 "$c"
done
echo "$cases shapes, $agreed agreed, $refused refused"

# Lengths against the dimensions that must hold them.
run gen chunk_gated_delta_rule --shape Hk=1,Hv=1,T=2,K=2,V=2 --lengths 1,3 -o in.st
run gen flash_kda --shape Hk=1,Hv=1,T=2 --lengths 3,1 -o in.st
run gen fused_recurrent_kda_replayssm --shape N=1 --layout-qkv TND --lengths 1,0 -o in.st
run gen fused_recurrent_kda_replayssm --shape N=1,C=2 --layout-qkv TND --lengths 1,3 -o in.st
run gen fused_recurrent_kda --shape N=1,R=3 --layout-qkv TND --lengths 1,3 -o in.st
run gen commit_recurrent_kda_replayssm --shape N=1,C=2 --lengths 1,3 -o in.st
# A dimension stands once, under one of its names.
run gen chunk_gated_delta_rule --shape T=1,K=2,T=2 -o in.st
run gen chunk_gated_delta_rule --shape T=1,S=2 -o in.st
run gen fused_recurrent_kda --shape H=1,N=2 -o in.st
run gen chunk_gated_delta_rule --shape T=1, -o in.st
left_over
