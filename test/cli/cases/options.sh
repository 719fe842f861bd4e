# Every option of every command that takes an argument: an empty one (an unset variable of a script) is an
# error, and so is a second one, unless the help calls the option repeatable.
empty=0 twice=0 tried=0 repeatable=
for command in run check diff gen bench 'npu run' 'npu race' 'npu trace'; do
  while read -r name argument help; do
    [[ $name == --* && -n $argument && $argument == *[A-Z]* && $name != --out ]] || continue
    tried=$((tried + 1))
    timeout 20 "$R" $command "$name" '' >.stdout 2>.stderr
    if [ $? = 2 ] && grep -q -- "$name: its argument is empty" .stderr; then empty=$((empty + 1)); else echo "$command $name: $(cat .stderr)"; fi
    case $name in # a value that each of them takes
    --set) value=a=b ;;
    --layout-qkv) value=BSND ;;
    --numerics) value=exact ;;
    --isa) value=scalar ;;
    --dtype) value=f16 ;;
    --arch) value=310P ;;
    --schedule) value=lazy ;;
    --without) value=M_V ;;
    --flags) value=count ;;
    --auto-sync) value=none ;;
    --lower-bound) value=-1 ;;
    *) value=1 ;;
    esac
    timeout 20 "$R" $command "$name" "$value" "$name" "$value" >.stdout 2>.stderr
    if grep -q -- "given twice: $name" .stderr; then
      twice=$((twice + 1))
    elif [[ $help == *repeatable* ]]; then
      repeatable+=" $command $name"
    else
      echo "$command $name twice: $(cat .stderr)"
    fi
  done < <("$R" $command --help | sed -n '/^options:/,/^exit status/p')
done
[ $tried -ge 50 ] && [ $tried = $empty ] && echo "an empty argument is always refused"
echo "repeatable:${repeatable}"
[ $((twice + $(wc -w <<<"${repeatable//npu /npu_}") / 2)) = $tried ] && echo "and a second one of any other"
# Short and long are one option; flags may stand twice.
run run flash_kda a -o b --out c
run run flash_kda a -o ''
run npu race chunk_gated_delta_rule --without ''
run info --json --json | head -2
left_over
