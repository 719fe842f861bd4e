#!/bin/sh
# The manual page has every command and every option of it, and roff takes it without a warning.
# usage: man.sh REDELTA PAGE SCRATCH
set -eu
tool=$1 page=$2 scratch=$3
mkdir -p "$scratch"

commands() { "$@" --help | awk '/^commands:$/ {on = 1; next} /^ *$/ {on = 0} on {print $1}'; }

# Names what the page lacks: its section of that command has each of the command's options as a tag.
lacking() { # PAGE COMMAND...
  from=$1
  shift
  plain=$(sed 's/\\-/-/g; s/\\e/\\/g; s/\\&//g' "$from" |
    awk -v head=".SS \"redelta $* " 'index($0, ".SS ") == 1 {on = index($0 " ", head) == 1} on')
  [ -n "$plain" ] || echo "no section on redelta $*"
  "$tool" "$@" --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' | while read -r option; do
    echo "$plain" | grep -q -e "^\.B $option\( \|\$\)" || echo "redelta $* $option"
  done
}

all() { # PAGE
  for command in $(commands "$tool"); do
    "$tool" "$command" --help >/dev/null 2>&1 || continue # built without it
    lacking "$1" "$command"
    for sub in $(commands "$tool" "$command"); do lacking "$1" "$command" "$sub"; done
  done
}

[ "$(commands "$tool" | wc -l)" -ge 8 ] || { echo "the help names too few commands"; exit 1; }
all "$page" >"$scratch/lacking"
[ ! -s "$scratch/lacking" ] || { echo "the page lacks:"; cat "$scratch/lacking"; exit 1; }

# The check can fail: without one option, and without one command.
sed '/^\.B \\-\\-isa/d' "$page" >"$scratch/short.1"
all "$scratch/short.1" | grep -q -e '--isa' || { echo "a missing option is not noticed"; exit 1; }
grep -v 'SS "redelta diff' "$page" >"$scratch/short.1"
all "$scratch/short.1" | grep -q 'no section on redelta diff' || { echo "a missing command is not noticed"; exit 1; }

if command -v groff >/dev/null 2>&1; then
  groff -man -ww -z "$page" 2>"$scratch/warnings"
  [ ! -s "$scratch/warnings" ] || { cat "$scratch/warnings"; exit 1; }
  echo "1 passed, 0 failed, 0 skipped"
else
  echo "roff's warnings: not run (no groff)"
fi
