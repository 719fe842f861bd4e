# Kernels on the AI Core model: run, race, trace; findings, files, mistakes.  Counts and line numbers
# belong to the kernels and may change.
loose() { sed -E 's/[0-9]+ (instructions|findings?|times?)/# \1/g; s/:[0-9]+/:#/g; s/[0-9]+\.[0-9]+ s$/# s/; s/[0-9.]+e-[0-9]+|[0-9]+\.[0-9]+/#/g'; }
model() { run "$@" | loose; }
only() { sed -nE "1p;\$p;/$1/p"; }

model npu run chunk_gated_delta_rule --oracle
model npu run fused_recurrent_kda_replayssm --oracle --threads 1
model npu run commit_recurrent_kda_replayssm --oracle --schedule lazy
model npu race chunk_gated_delta_rule --cores 3
model npu race chunk_gated_delta_rule --schedule random --seed 7 --threads 2

# The field's fault: a race at the copy out of L0C that names the event, the trap and a differing value.
run npu race chunk_gated_delta_rule --without M_V >faulty
grep -c 'missing: M_V' faulty | sed 's/^[1-9][0-9]*$/some/'
grep -m 1 'hardware trap' faulty
grep -c 'witness: an allowed order gives' faulty | sed 's/^[1-9][0-9]*$/some/'
tail -n 1 faulty
model npu race chunk_gated_delta_rule --without M_V --with M_V | grep -v -e ^dropped -e ^asked
run npu race chunk_gated_delta_rule --without V_M >faulty
grep -m 1 'race WAR' faulty | loose
grep -m 1 -o 'missing: V_M' faulty
grep -c '^dropped V_M .*: implied by' faulty | sed 's/^[1-9][0-9]*$/some/'
tail -n 1 faulty
run npu race chunk_gated_delta_rule --without M_V --json | sed '1d;$d' >report.json
python3 -c 'import json; r = json.load(open("report.json")); print(sorted(r), r["findings"][0]["kind"])'

# Files: those of redelta run, with the same meaning.
quietly gen chunk_gated_delta_rule --shape B=1,Hk=1,Hv=2,T=20,K=32,V=48 --lengths 20 -o in.st
model npu run chunk_gated_delta_rule in.st -o out.st --scale-value 0.5
quietly run chunk_gated_delta_rule in.st -o cpu.st --scale-value 0.5
run diff out.st cpu.st --atol 0.003 --rtol 0.003 | tail -n 1
quietly gen commit_recurrent_kda_replayssm --shape B=1,N=2,C=4 --lengths 3 -o in.st
model npu run commit_recurrent_kda_replayssm in.st -o out.st --block-num 8
quietly run commit_recurrent_kda_replayssm in.st -o cpu.st
run diff out.st cpu.st | tail -n 1

# Timelines.
run npu trace commit_recurrent_kda_replayssm -o t.json --log t.log | loose | sed -E 's/ +[0-9]+/ #/g'
python3 -c 'import json; print(len(json.load(open("t.json"))["traceEvents"]) > 10)'
wc -l <t.log | sed 's/^[1-9][0-9]*$/some/'

# Mistakes.
run npu race chunk_gated_delta_rule --with ''
run npu race chunk_gated_delta_rule --with M_V,
run npu race chunk_gated_delta_rule --without M_V,
run npu race chunk_gated_delta_rule --with M_V --mutate
run npu race no_such_kernel
run npu walk chunk_gated_delta_rule
run npu race chunk_gated_delta_rule --schedule slow
run npu race chunk_gated_delta_rule --without M-V
run npu race chunk_gated_delta_rule --arch 950
run npu race chunk_gated_delta_rule --shape nonsense
run npu run commit_recurrent_kda_replayssm --block-num 9
quietly gen chunk_gated_delta_rule --shape T=20,K=32,V=48 --dtype f32 -o in.st
run npu run chunk_gated_delta_rule in.st
run npu run chunk_gated_delta_rule in.st --shape qwen3.5
run npu race chunk_gated_delta_rule in.st --mutate
left_over in.st out.st cpu.st t.json t.log faulty report.json
