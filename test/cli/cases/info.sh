# The report on this machine: its shape, not its content.
run info | sed -E 's/^(redelta|machine|threads|CPU features|kernels built for|usable here) .*/\1 .../; /^  /d' | uniq
"$R" info --json >info.json
echo "[$?]"
grep -oE '^  "[a-z_]+"' info.json
grep -cE '"slot": ' info.json | sed 's/^[1-9][0-9]*$/slots/'
left_over info.json
